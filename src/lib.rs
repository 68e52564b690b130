//! crawlgate: a forward proxy that holds every crawler to the crawl rules.
#![doc = ""]

pub mod agent;
pub mod audit;
pub mod ca;
pub mod cli;
pub mod clock;
pub mod config;
pub mod egress;
pub mod gate;
pub mod pace;
pub mod policy;
pub mod proxy;
pub mod rep;
pub mod robots;
pub mod trust;
