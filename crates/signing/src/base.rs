//! The signature base: the text that a signature covers (RFC 9421, section 2.5).
//!
//! It has one line for each component of the message, and one for the parameters of the signature. All values are ASCII
//! here; the caller checks those that come from others.

use std::fmt::Write as _;

/// A covered component with its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Component<'a> {
    /// The method of the request (2.2.1).
    Method(&'a str),
    /// Host and port of the target, in canonical form (2.2.3).
    Authority(&'a str),
    /// The path as it is sent (2.2.6).
    Path(&'a str),
    /// The query as it is sent, without its question mark (2.2.7). An empty one and none have the same value.
    Query(&'a str),
    /// The URL in Signature-Agent: the member with this key of a dictionary, or the whole field.
    SignatureAgent {
        /// The key of the member.
        key: Option<&'a str>,
        /// The URL.
        url: &'a str,
    },
    /// The authority of the request that a response answers (2.4).
    RequestAuthority(&'a str),
    /// The digest of the content (RFC 9530).
    ContentDigest(&'a str),
}

/// A parameter of a signature (2.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parameter<'a> {
    /// The time of the signature, in seconds since 1970.
    Created(u64),
    /// The time from which it counts no longer.
    Expires(u64),
    /// The key.
    KeyId(&'a str),
    /// The algorithm.
    Algorithm(&'a str),
    /// A value that no other signature has.
    Nonce(&'a str),
    /// The application.
    Tag(&'a str),
}

/// A signature base.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Base {
    text: String,
    /// Start of the components and parameters in the last line.
    input: usize,
}

/// The identifier of the last line.
const SIGNATURE_PARAMS: &str = "\"@signature-params\": ";

/// Room for the base of most requests.
const USUAL: usize = 768;

impl Base {
    /// Writes the base of a signature over these components, with these parameters, both in this order.
    #[must_use]
    pub fn new(components: &[Component<'_>], parameters: &[Parameter<'_>]) -> Base {
        let mut text = String::with_capacity(USUAL);
        for component in components {
            component.write_identifier(&mut text);
            text.push_str(": ");
            component.write_value(&mut text);
            text.push('\n');
        }
        text.push_str(SIGNATURE_PARAMS);
        let input = text.len();
        text.push('(');
        for (place, component) in components.iter().enumerate() {
            if place > 0 {
                text.push(' ');
            }
            component.write_identifier(&mut text);
        }
        text.push(')');
        for parameter in parameters {
            parameter.write(&mut text);
        }
        Base { text, input }
    }

    /// Returns the octets to sign.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.text.as_bytes()
    }

    /// Returns the value of the member in Signature-Input: components and parameters.
    #[must_use]
    pub fn input(&self) -> &str {
        self.text.get(self.input..).unwrap_or_default()
    }
}

impl Component<'_> {
    fn write_identifier(&self, to: &mut String) {
        to.push_str(match self {
            Component::Method(_) => "\"@method\"",
            Component::Authority(_) => "\"@authority\"",
            Component::Path(_) => "\"@path\"",
            Component::Query(_) => "\"@query\"",
            Component::SignatureAgent { .. } => "\"signature-agent\"",
            Component::RequestAuthority(_) => "\"@authority\";req",
            Component::ContentDigest(_) => "\"content-digest\"",
        });
        if let Component::SignatureAgent { key: Some(key), .. } = self {
            to.push_str(";key=\"");
            to.push_str(key);
            to.push('"');
        }
    }

    fn write_value(&self, to: &mut String) {
        match self {
            Component::Method(value)
            | Component::Authority(value)
            | Component::Path(value)
            | Component::RequestAuthority(value)
            | Component::ContentDigest(value) => to.push_str(value),
            Component::Query(query) => {
                to.push('?');
                to.push_str(query);
            }
            Component::SignatureAgent { url, .. } => {
                to.push('"');
                to.push_str(url);
                to.push('"');
            }
        }
    }
}

impl Parameter<'_> {
    fn write(&self, to: &mut String) {
        // A String takes everything.
        let _ = match self {
            Parameter::Created(seconds) => write!(to, ";created={seconds}"),
            Parameter::Expires(seconds) => write!(to, ";expires={seconds}"),
            Parameter::KeyId(id) => write!(to, ";keyid=\"{id}\""),
            Parameter::Algorithm(name) => write!(to, ";alg=\"{name}\""),
            Parameter::Nonce(nonce) => write!(to, ";nonce=\"{nonce}\""),
            Parameter::Tag(tag) => write!(to, ";tag=\"{tag}\""),
        };
    }
}
