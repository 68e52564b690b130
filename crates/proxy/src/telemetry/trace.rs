//! The facts of an exchange for its span.

use http::Method;

use crawlgate_robots::Origin;
use crawlgate_system::clock::Tick;

/// The facts of an exchange for its span. Foreign text in it is bounded by the size of a request.
#[derive(Debug)]
pub struct Exchange<'a> {
    /// Start of the exchange.
    pub began: Tick,
    /// End of the exchange.
    pub ended: Tick,
    /// The decision's identifier.
    pub id: String,
    /// The request's method; `None` if it sent none that can be read.
    pub method: Option<&'a Method>,
    /// The requested origin, if the target was readable.
    pub origin: Option<&'a Origin>,
    /// The path, without the query.
    pub path: &'a str,
    /// `allow`, `deny` or `defer`.
    pub verdict: &'static str,
    /// The reason code.
    pub reason: &'static str,
    /// `enforce` or `report`.
    pub mode: &'static str,
    /// The client's name, if it has one.
    pub client: Option<&'a str>,
    /// Time for which the request was held, in seconds.
    pub held: f64,
    /// The status of the answer to the crawler.
    pub status: Option<u16>,
    /// The failure.
    pub error: Option<&'static str>,
}
