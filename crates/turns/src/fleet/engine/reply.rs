//! Reads the replies of scripts: arrays of texts and numbers.

use redis::Value;

use super::super::coordinator::CoordinatorError;

/// A reply, read from its front.
pub(super) struct Reply(std::vec::IntoIter<Value>);

impl Reply {
    /// Opens the reply of a script.
    ///
    /// # Errors
    /// When it is no array, or the script refuses because the generation is another one.
    pub(super) fn of(value: Value) -> Result<Reply, CoordinatorError> {
        let Value::Array(values) = value else {
            return Err(foreign());
        };
        if is_lost(&values) {
            Err(CoordinatorError::Lost)
        } else {
            Ok(Reply(values.into_iter()))
        }
    }

    /// Reads the word that a script has done its work.
    pub(super) fn expect_ok(&mut self) -> Result<(), CoordinatorError> {
        match self.text()?.as_str() {
            "OK" => Ok(()),
            _ => Err(foreign()),
        }
    }

    /// Returns the next value as octets; `None` for a value that is missing in the engine.
    pub(super) fn octets(&mut self) -> Result<Option<Vec<u8>>, CoordinatorError> {
        match self.0.next() {
            Some(Value::BulkString(octets)) => Ok(Some(octets)),
            Some(Value::Nil | Value::Boolean(false)) | None => Ok(None),
            Some(Value::SimpleString(text)) => Ok(Some(text.into_bytes())),
            Some(_) => Err(foreign()),
        }
    }

    /// Returns the next value as text.
    pub(super) fn text(&mut self) -> Result<String, CoordinatorError> {
        let octets = self.octets()?.ok_or_else(foreign)?;
        String::from_utf8(octets).map_err(|_| foreign())
    }

    /// Returns the next value as a number.
    pub(super) fn number(&mut self) -> Result<u64, CoordinatorError> {
        match self.0.next() {
            Some(Value::Int(number)) => Ok(u64::try_from(number).unwrap_or_default()),
            Some(Value::BulkString(text)) => {
                let text = std::str::from_utf8(&text).ok();
                text.and_then(|text| text.parse().ok()).ok_or_else(foreign)
            }
            _ => Err(foreign()),
        }
    }

    /// Returns the next value as a list.
    pub(super) fn list(&mut self) -> Result<Reply, CoordinatorError> {
        match self.0.next() {
            Some(Value::Array(values)) => Ok(Reply(values.into_iter())),
            _ => Err(foreign()),
        }
    }

    /// Tells whether all values have been read.
    pub(super) fn is_empty(&self) -> bool {
        self.0.len() == 0
    }
}

/// Tells whether a script has refused because the generation is another one.
pub(super) fn is_lost(values: &[Value]) -> bool {
    matches!(values, [Value::BulkString(word)] if word == b"LOST")
}

/// Returns a value as text; `None` if it is none.
pub(super) fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::BulkString(octets) => String::from_utf8(octets.clone()).ok(),
        Value::SimpleString(text) => Some(text.clone()),
        Value::Int(number) => Some(number.to_string()),
        Value::VerbatimString { text, .. } => Some(text.clone()),
        _ => None,
    }
}

/// Returns the error of a reply that no script of ours gives.
pub(super) fn foreign() -> CoordinatorError {
    CoordinatorError::refused("its reply is not that of a script of this version")
}
