//! Decisions can be proven and reviewed, and any change to them is found.

mod acknowledged;
mod any_case;
mod attacks;
mod case;
mod flips;
mod forger;
mod kept;
mod log;
mod replaced;
mod replay;
mod shortened;
mod store_file;
mod test_store;
mod verify;
mod what_if;
