//! Connections and their octets. They are the same for crawlers, origins and operators.
//!
//! - [`connection_limit`]: a bounded number of connections
//! - [`transit`]: the octets of bodies between two connections
//! - [`coalesce`], [`read_filter`], [`turn_flush`]: streams around a stream
//! - [`http2_body`], [`http2_frames`]: the streams and the frames of HTTP/2, on both sides
//! - [`websocket`]: a handshake by HTTP/1.1 where HTTP/2 has none
//! - [`socket_file`]: the file of a Unix socket

pub mod coalesce;
pub mod connection_limit;
pub mod http2_body;
pub mod http2_frames;
pub mod read_filter;
pub mod socket_file;
pub mod transit;
pub mod turn_flush;
pub mod websocket;
