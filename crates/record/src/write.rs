//! The encoder of decisions: called in the request's thread, it allocates nothing once its buffer has grown.

use super::cbor::{self, MapWriter};
use super::decision::{
    Decision, Exempt, LEFT, Pace, Rule, Signed, UNSIGNABLE, Url, is_of_unknown_client, key, most,
};
use super::value::{Octets, Text};

/// Bounds on the texts that a client chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Octets of the URL.
    pub url: usize,
    /// Octets of the User-Agent.
    pub user_agent: usize,
}

impl Bounds {
    /// The bounds for identified clients.
    pub const CLIENTS: Bounds = Bounds {
        url: most::URL,
        user_agent: most::USER_AGENT,
    };

    /// Returns the bounds for a decision with this reason.
    #[must_use]
    pub fn of(reason: &str) -> Self {
        match is_of_unknown_client(reason) {
            true => Self::STRANGERS,
            false => Self::CLIENTS,
        }
    }

    /// The bounds for unidentified clients.
    pub const STRANGERS: Bounds = Bounds {
        url: most::OF_STRANGERS,
        user_agent: most::OF_STRANGERS,
    };
}

/// The pairs of a map: a default is left out.
impl MapWriter<'_> {
    pub(super) fn uint(&mut self, key: u8, number: u64) {
        if number != 0 {
            cbor::uint(self.key(key), number);
        }
    }

    pub(super) fn boolean(&mut self, key: u8, boolean: bool) {
        if boolean {
            cbor::boolean(self.key(key), boolean);
        }
    }

    /// Writes a text of ours.
    pub(super) fn text(&mut self, key: u8, text: &str) {
        cbor::text(self.key(key), text);
    }

    pub(super) fn text_if(&mut self, key: u8, text: Option<&str>) {
        if let Some(text) = text {
            self.text(key, text);
        }
    }

    pub(super) fn digest_if(&mut self, key: u8, digest: Option<&[u8; 32]>) {
        if let Some(digest) = digest {
            cbor::bytes(self.key(key), digest);
        }
    }

    /// Writes a text of at most `most` octets, and returns the number of octets cut off.
    pub(super) fn cut_text(&mut self, key: u8, text: Option<Text<'_>>, most: usize) -> u64 {
        let Some(text) = text.map(|text| text.at_most(most)) else {
            return 0;
        };
        cbor::text(self.key(key), text.kept);
        text.cut
    }

    /// Writes the numbers of octets or texts that were cut off, by key.
    pub(super) fn cuts(&mut self, all: &[(u8, u64)]) {
        if all.iter().all(|(_, cut)| *cut == 0) {
            return;
        }
        let mut cuts = MapWriter::open(self.key(key::CUTS));
        all.iter().for_each(|(key, cut)| cuts.uint(*key, *cut));
        cuts.close();
    }

    /// Writes at most `most` octets, and returns the number of octets cut off.
    fn cut_octets(&mut self, key: u8, octets: Option<Octets<'_>>, most: usize) -> u64 {
        let Some(octets) = octets.map(|octets| octets.at_most(most)) else {
            return 0;
        };
        cbor::bytes(self.key(key), octets.kept);
        octets.cut
    }
}

impl Decision<'_> {
    /// Appends the entry to `out`: at most [`MAX`](super::MAX) octets, always the same for the same decision.
    ///
    /// A text beyond its bound is cut, and the entry says by how much. A URL that is cut should come with the digest of
    /// the whole ([`Url::with_sha256`]).
    pub fn encode(&self, bounds: Bounds, out: &mut Vec<u8>) {
        let mut map = MapWriter::open(out);
        cbor::bytes(map.key(key::ID), &self.id);
        if self.decided_after != 0 {
            cbor::int(map.key(key::DECIDED_AFTER), self.decided_after);
        }
        map.uint(key::MODE, self.mode.number());
        map.uint(key::VERDICT, self.verdict.number());
        map.text(key::REASON, ours(self.reason));
        map.digest_if(key::POLICY, self.policy);
        cbor::address(map.key(key::CLIENT), self.client);
        let name = map.cut_text(key::CLIENT_NAME, self.client_name, most::TOKEN);
        let chain = match self.chain.is_empty() && self.chain.more() == 0 {
            true => 0,
            false => self
                .chain
                .write(map.key(key::CHAIN), most::TOKENS, most::TOKEN, most::LIST),
        };
        map.uint(key::SOURCE, self.source.number());
        map.boolean(key::MISMATCH, self.mismatch);
        let user_agent = map.cut_octets(key::USER_AGENT, self.user_agent, bounds.user_agent);
        let method = map.cut_text(key::METHOD, Some(self.method), most::TOKEN);
        let origin = self
            .origin
            .map(|origin| Text::from(origin).at_most(most::ORIGIN));
        map.text_if(key::ORIGIN, origin.map(|origin| origin.kept));
        let url = write_url(&mut map, &self.url, bounds.url);
        map.uint(key::VIA, self.via.number());
        map.boolean(key::OPAQUE, self.opaque);
        let rule = self.rule.as_ref();
        let rule = rule.map_or(0, |rule| write_rule(map.key(key::RULE), rule));
        map.digest_if(key::OVERRIDE, self.overridden);
        map.digest_if(key::BASIS, self.basis);
        map.uint(key::HOLD, self.hold);
        if let Some(pace) = &self.pace {
            write_pace(map.key(key::PACE), pace);
        }
        if let Some(upstream) = self.upstream {
            cbor::address(map.key(key::UPSTREAM), upstream);
        }
        if let Some(status) = self.status {
            cbor::uint(map.key(key::STATUS), u64::from(status));
        }
        map.uint(key::BYTES_IN, self.bytes_in);
        map.uint(key::BYTES_OUT, self.bytes_out);
        map.uint(key::DURATION, self.duration);
        let error = map.cut_text(key::ERROR, self.error, most::TOKEN);
        let reading = self.reading.map(|reading| reading.at_most(most::URL));
        let of_reading = reading.map_or(0, |reading| reading.cut);
        let detail = self.detail.map(|detail| detail.at_most(most::DETAIL));
        let of_detail = detail.map_or(0, |detail| detail.cut);
        // Nearly always nothing is cut.
        if name | chain | user_agent | method | url | rule | error | of_reading | of_detail != 0 {
            map.cuts(&[
                (key::CLIENT_NAME, name),
                (key::CHAIN, chain),
                (key::USER_AGENT, user_agent),
                (key::METHOD, method),
                (key_of(&self.url), url),
                (key::RULE, rule),
                (key::ERROR, error),
                (key::READING, of_reading),
                (key::DETAIL, of_detail),
            ]);
        }
        map.text_if(key::USAGE, self.usage);
        map.text_if(key::VERSION, self.version.map(ours));
        map.text_if(key::UPSTREAM_VERSION, self.upstream_version.map(ours));
        map.cut_octets(key::READING, reading, most::URL);
        let of_whole = self.url.sha256.as_ref().filter(|_| url > 0);
        map.digest_if(key::URL_SHA256, of_whole);
        map.cut_text(key::DETAIL, detail, most::DETAIL);
        if let Some(signed) = &self.signed {
            write_signed(map.key(key::SIGNED), signed);
        }
        map.digest_if(key::TDMREP, self.tdmrep.filter(|_| self.usage.is_some()));
        if let Some(exempt) = &self.exempt {
            write_exempt(map.key(key::EXEMPT), exempt);
        }
        map.close();
    }
}

fn write_exempt(out: &mut Vec<u8>, exempt: &Exempt<'_>) {
    cbor::array(out, 2);
    cbor::text(out, ours(exempt.from));
    // The configuration takes no longer one.
    cbor::text(out, Text::from(exempt.reason).at_most(most::WORDS).kept);
}

/// Bounds a code of ours, so that no mistake makes an entry too long.
fn ours(code: &str) -> &str {
    Text::from(code).at_most(most::TOKEN).kept
}

fn key_of(url: &Url<'_>) -> u8 {
    match url.follows {
        true => key::PATH,
        false => key::URL,
    }
}

/// Writes the URL, or its path if it follows the origin. Returns the number of octets cut off.
fn write_url(map: &mut MapWriter<'_>, url: &Url<'_>, most: usize) -> u64 {
    let length = url.len();
    if length == 0 && !url.follows {
        return 0;
    }
    let kept = length.min(most);
    let out = map.key(key_of(url));
    cbor::bytes_head(out, kept);
    let mut left = kept;
    for part in url.parts {
        let part = part.split_at_checked(left).map_or(part, |(part, _)| part);
        out.extend_from_slice(part);
        left -= part.len();
    }
    url.cut + (length - kept) as u64
}

/// Writes a rule. Returns the number of octets cut off its text.
fn write_rule(out: &mut Vec<u8>, rule: &Rule<'_>) -> u64 {
    let text = rule.text.at_most(most::RULE);
    cbor::array(out, 3);
    rule.group.at_most(most::TOKEN).write(out);
    cbor::bytes(out, text.kept);
    cbor::uint(out, u64::from(rule.line));
    text.cut
}

fn write_signed(out: &mut Vec<u8>, signed: &Signed<'_>) {
    match *signed {
        Signed::With {
            identity,
            key,
            created,
        } => {
            cbor::array(out, 3);
            cbor::text(out, ours(identity));
            cbor::text(out, ours(key));
            cbor::uint(out, created);
        }
        Signed::Left => cbor::uint(out, LEFT),
        Signed::Unsignable => cbor::uint(out, UNSIGNABLE),
    }
}

fn write_pace(out: &mut Vec<u8>, pace: &Pace<'_>) {
    cbor::array(out, 3);
    cbor::uint(out, pace.interval);
    cbor::text(out, ours(pace.source));
    cbor::boolean(out, pace.clamped);
}
