//! Rows of a statement: a table for people, JSON, cells for spreadsheets.

use std::fmt::Write as _;

use super::Format;
use crate::Failure;
use crate::terminal::{self, Columns, printed};
use crawlgate_evidence::csv::{harmless, to_csv_unchanged};
use crawlgate_store::sqlite::sql::{Cell, Rows};
use crawlgate_text::hex;
use crawlgate_text::json;

/// Rows that the widths of a table are measured by; the cells of later ones may stand out.
const MEASURED: usize = 200;

/// Octets to write at once.
const AT_ONCE: usize = 64 * 1024;

/// A printer of rows as they come.
#[derive(Debug)]
pub(super) struct RowPrinter {
    format: Format,
    width: Option<usize>,
    names: Vec<String>,
    /// The heading and the first rows of a table, until its widths are known.
    first: Vec<Vec<String>>,
    columns: Option<Columns>,
    out: Vec<u8>,
    /// Statements so far.
    count: usize,
}

impl RowPrinter {
    pub(super) fn new(format: Format, width: Option<usize>) -> Self {
        Self {
            format,
            width,
            names: Vec::new(),
            first: Vec::new(),
            columns: None,
            out: Vec::new(),
            count: 0,
        }
    }

    /// Writes all that is left. False when the reader has gone.
    pub(super) fn flush(&mut self) -> Result<bool, Failure> {
        if !self.first.is_empty() {
            let columns = Columns::of(&self.first, self.width);
            self.out.extend_from_slice(columns.lines(&self.first).as_bytes());
            self.first.clear();
            self.columns = Some(columns);
        }
        let done = terminal::print(&self.out);
        self.out.clear();
        done
    }

    fn line(&mut self, cells: &[Cell<'_>]) {
        self.out.push(b'{');
        for (nth, (name, cell)) in self.names.iter().zip(cells).enumerate() {
            if nth > 0 {
                self.out.push(b',');
            }
            json::text(&mut self.out, name.as_bytes(), usize::MAX);
            self.out.push(b':');
            match cell {
                Cell::Text(text) => {
                    json::text(&mut self.out, text, usize::MAX);
                }
                Cell::Blob(octets) => {
                    json::text(&mut self.out, hex(octets).as_bytes(), usize::MAX);
                }
                // JSON has no infinity.
                Cell::Real(number) if !number.is_finite() => self.out.extend_from_slice(b"null"),
                Cell::Null => self.out.extend_from_slice(b"null"),
                cell => self.out.extend_from_slice(shown(cell).as_bytes()),
            }
        }
        self.out.extend_from_slice(b"}\n");
    }

    fn csv(&mut self, row: Vec<String>) -> Result<(), Failure> {
        let line = to_csv_unchanged([row].into_iter())?;
        self.out.extend_from_slice(&line);
        Ok(())
    }
}

impl Rows for RowPrinter {
    type Error = Failure;

    fn names(&mut self, names: &[&str]) -> Result<bool, Failure> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        self.count += 1;
        match self.format {
            Format::Jsonl => self.names = names,
            Format::Csv => self.csv(names.into_iter().map(harmless).collect())?,
            Format::Table => {
                if self.count > 1 {
                    self.out.push(b'\n');
                }
                self.columns = None;
                self.first = vec![printed(names)];
            }
        }
        Ok(true)
    }

    fn row(&mut self, cells: &[Cell<'_>]) -> Result<bool, Failure> {
        match self.format {
            Format::Jsonl => self.line(cells),
            Format::Csv => self.csv(
                cells
                    .iter()
                    .map(|cell| match cell {
                        Cell::Text(_) => harmless(shown(cell)),
                        // A negative number is no formula.
                        cell => shown(cell),
                    })
                    .collect(),
            )?,
            Format::Table => {
                let row = printed(cells.iter().map(shown).collect());
                match &self.columns {
                    Some(columns) => {
                        let line = columns.lines(&[row]);
                        self.out.extend_from_slice(line.as_bytes());
                    }
                    None => {
                        self.first.push(row);
                        if self.first.len() > MEASURED {
                            return self.flush();
                        }
                    }
                }
            }
        }
        match self.out.len() > AT_ONCE {
            true => self.flush(),
            false => Ok(true),
        }
    }

    fn end(&mut self) -> Result<bool, Failure> {
        self.flush()
    }
}

/// Returns a cell as text: nothing for NULL, hexadecimal digits for octets.
fn shown(cell: &Cell<'_>) -> String {
    match cell {
        Cell::Null => String::new(),
        Cell::Integer(number) => number.to_string(),
        Cell::Real(number) => {
            let mut text = number.to_string();
            // As SQL writes it: 1.0 is not the integer 1.
            if number.is_finite() && !text.contains(['.', 'e']) {
                let _ = write!(text, ".0"); // a String takes all
            }
            text
        }
        Cell::Text(text) => String::from_utf8_lossy(text).into_owned(),
        Cell::Blob(octets) => hex(octets),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(format: Format, rows: &[&[Cell<'_>]]) -> String {
        let mut printer = RowPrinter::new(format, None);
        printer.names(&["n", "what \"it\" is"]).unwrap();
        for row in rows {
            printer.row(row).unwrap();
        }
        if let Format::Table = format {
            let columns = Columns::of(&printer.first, None);
            return columns.lines(&printer.first);
        }
        String::from_utf8(printer.out).unwrap()
    }

    #[test]
    fn each_format_has_its_own_cells() {
        let rows: &[&[Cell<'_>]] = &[
            &[Cell::Integer(-1), Cell::Text(b"=1+1\x1b[2J")],
            &[Cell::Real(2.0), Cell::Null],
            &[Cell::Real(f64::INFINITY), Cell::Blob(&[0xab, 0])],
        ];
        let cases = [
            (Format::Table, "n    what \"it\" is\n-1   =1+1\\u{1b}[2J\n2.0\ninf  ab00\n"),
            (Format::Csv, "n,\"what \"\"it\"\" is\"\r\n-1,'=1+1\\u{1b}[2J\r\n2.0,\r\ninf,ab00\r\n"),
            (
                Format::Jsonl,
                "{\"n\":-1,\"what \\\"it\\\" is\":\"=1+1\\u001b[2J\"}\n{\"n\":2.0,\"what \\\"it\\\" is\":null}\n\
                 {\"n\":null,\"what \\\"it\\\" is\":\"ab00\"}\n",
            ),
        ];
        for (format, want) in cases {
            assert_eq!(written(format, rows), want, "{format:?}");
        }
    }
}
