//! Requests by client.

use std::net::IpAddr;

use super::super::bounds::most;
use super::super::cbor::{self, Malformed, Reader};
use super::super::value::Text;
use super::MAX_ROWS;

/// Requests by client.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a>(List<'a>);

#[derive(Clone, Copy, Debug)]
enum List<'a> {
    Given(&'a [Row<'a>]),
    Read { items: Reader<'a>, count: usize },
}

/// The requests of one client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row<'a> {
    /// The client.
    pub client: RowClient<'a>,
    /// Number of requests.
    pub count: u64,
}

/// A client in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowClient<'a> {
    /// By its name.
    Named(Text<'a>),
    /// By its address.
    At(IpAddr),
}

/// Octets of all rows of one entry.
const ROWS_ROOM: usize = 48 * 1024;

impl<'a> From<&'a [Row<'a>]> for Rows<'a> {
    fn from(rows: &'a [Row<'a>]) -> Self {
        Self(List::Given(rows))
    }
}

impl PartialEq for Rows<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl<'a> Rows<'a> {
    /// Returns the rows in order.
    pub fn iter(&self) -> impl Iterator<Item = Row<'a>> {
        let mut list = self.0;
        std::iter::from_fn(move || match &mut list {
            List::Given(rows) => {
                let (first, rest) = rows.split_first()?;
                *rows = rest;
                Some(*first)
            }
            List::Read { items, count } => {
                *count = count.checked_sub(1)?;
                // Each was read before.
                Row::read(items).ok()
            }
        })
    }

    /// Writes the rows that have room.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let mut room = ROWS_ROOM;
        let fit = self.iter().take(MAX_ROWS).take_while(|row| {
            let left = room.checked_sub(row.room());
            room = left.unwrap_or_default();
            left.is_some()
        });
        let fit = fit.count();
        cbor::array(out, fit);
        self.iter().take(fit).for_each(|row| row.write(out));
    }

    pub(super) fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        let count = reader.array()?;
        let items = *reader;
        for _ in 0..count {
            Row::read(reader)?;
        }
        Ok(Self(List::Read { items, count }))
    }
}

impl<'a> Row<'a> {
    /// Returns the octets that the row takes at most.
    fn room(&self) -> usize {
        let client = match self.client {
            RowClient::Named(name) => name.kept.len().min(most::TOKEN) + 13,
            RowClient::At(_) => 17,
        };
        client + 10
    }

    fn write(&self, out: &mut Vec<u8>) {
        cbor::array(out, 2);
        match self.client {
            RowClient::Named(name) => name.at_most(most::TOKEN).write(out),
            RowClient::At(IpAddr::V4(address)) => cbor::bytes(out, &address.octets()),
            RowClient::At(IpAddr::V6(address)) => cbor::bytes(out, &address.octets()),
        }
        cbor::uint(out, self.count);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        if reader.array()? != 2 {
            return Err(Malformed("no row"));
        }
        let client = if reader.is_bytes() {
            let octets = reader.bytes()?;
            let four = <[u8; 4]>::try_from(octets).map(IpAddr::from);
            let address = four.or_else(|_| <[u8; 16]>::try_from(octets).map(IpAddr::from));
            RowClient::At(address.map_err(|_| Malformed("no address"))?)
        } else {
            RowClient::Named(Text::read(reader)?)
        };
        let count = reader.uint()?;
        Ok(Self { client, count })
    }
}
