//! The query of `/decide`, read strictly: each parameter once, no unknown one, every octet unchanged.
//!
//! A URL that was put into the query without being encoded falls apart at its first `&`. The rest of it is then another
//! URL, so an unknown parameter is an error.

use http::{HeaderValue, Method};

use super::BadRequest;
use crawlgate_gate::Pacing;
use crawlgate_proxy::decide::Subject;

/// The parameters of a decision request.
#[derive(Debug)]
pub struct DecideQuery {
    /// The URL or target to decide about.
    pub subject: Subject,
    /// The crawler's User-Agent. It may be a chain of product tokens, most specific first.
    pub agent: Option<HeaderValue>,
    /// The method of the request, for the record.
    pub method: Method,
    /// The name of the client that sends the request.
    pub client: Option<String>,
    /// Tells whether the request counts against the pace.
    pub pacing: Pacing,
}

impl DecideQuery {
    /// Reads a query.
    ///
    /// # Errors
    /// When a parameter cannot be understood, or is missing.
    pub fn read(query: &[u8]) -> Result<DecideQuery, BadRequest> {
        let (mut url, mut agent, mut method) = (None, None, None);
        let (mut client, mut pace, mut tunnel) = (None, None, None);
        for pair in query.split(|octet| *octet == b'&') {
            let at = memchr::memchr(b'=', pair).unwrap_or(pair.len());
            let (name, value) = pair.split_at(at);
            let slot = match name {
                b"url" => &mut url,
                b"agent" => &mut agent,
                b"method" => &mut method,
                b"client" => &mut client,
                b"pace" => &mut pace,
                b"tunnel" => &mut tunnel,
                // An empty query, or a trailing `&`.
                b"" if value.is_empty() => continue,
                _ => {
                    return Err(BadRequest(format!(
                        "{:?} is no parameter; allowed are url, agent, method, client, pace and tunnel. An & in a value is written %26.",
                        String::from_utf8_lossy(name)
                    )));
                }
            };
            let name = String::from_utf8_lossy(name);
            let value = decode(value.get(1..).unwrap_or_default()).ok_or_else(|| {
                BadRequest(format!("{name}: a % that begins no octet; a % is written %25."))
            })?;
            if slot.replace(value).is_some() {
                return Err(BadRequest(format!("{name} is there twice.")));
            }
        }
        let url = url
            .ok_or_else(|| BadRequest::new("url is missing: which URL is going to be fetched?"))?;
        Ok(DecideQuery {
            subject: if truth("tunnel", tunnel.as_deref())? {
                Subject::Tunnel(url)
            } else {
                Subject::Url(url)
            },
            agent: agent
                .filter(|agent| !agent.is_empty())
                .map(|agent| HeaderValue::from_bytes(&agent))
                .transpose()
                .map_err(|_| BadRequest::new("agent must be fit for a User-Agent field."))?,
            method: method
                .map_or(Ok(Method::GET), |method| Method::from_bytes(&method))
                .map_err(|_| BadRequest::new("method must be a method."))?,
            client: client.map(|name| String::from_utf8_lossy(&name).into_owned()),
            pacing: if truth("pace", pace.as_deref())? { Pacing::InTurn } else { Pacing::AtOnce },
        })
    }
}

fn truth(name: &str, value: Option<&[u8]>) -> Result<bool, BadRequest> {
    match value {
        None | Some(b"false") => Ok(false),
        Some(b"true") => Ok(true),
        Some(other) => Err(BadRequest(format!(
            "{name} = {:?}: allowed are true and false.",
            String::from_utf8_lossy(other)
        ))),
    }
}

/// Decodes a value (application/x-www-form-urlencoded); none if a `%` is not followed by two hex digits. Octets that
/// are not UTF-8 stay unchanged.
fn decode(value: &[u8]) -> Option<Vec<u8>> {
    let mut octets = Vec::with_capacity(value.len());
    let mut rest = value.iter();
    while let Some(octet) = rest.next() {
        octets.push(match octet {
            b'+' => b' ',
            b'%' => {
                let mut digit = || char::from(*rest.next()?).to_digit(16);
                let (high, low) = (digit()?, digit()?);
                u8::try_from(high * 16 + low).ok()?
            }
            plain => *plain,
        });
    }
    Some(octets)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(query: &str) -> String {
        match DecideQuery::read(query.as_bytes()) {
            Ok(asked) => {
                let (Subject::Url(url) | Subject::Tunnel(url)) = &asked.subject;
                format!(
                    "{}{}{} {}{}{}",
                    asked.method,
                    if matches!(asked.subject, Subject::Tunnel(_)) { " through" } else { "" },
                    if asked.pacing == Pacing::InTurn { " in turn" } else { "" },
                    url.escape_ascii(),
                    asked.client.map_or(String::new(), |client| format!(" for {client}")),
                    asked.agent.map_or(String::new(), |agent| format!(" as {agent:?}")),
                )
            }
            Err(BadRequest(why)) => why,
        }
    }

    #[test]
    fn a_query_is_understood_whole_or_not_at_all() {
        #[rustfmt::skip] // one row, one case
        let cases = [
            ("a URL alone", "url=http%3A%2F%2Fa.test%2Fx", "GET http://a.test/x"),
            ("a URL that needs no encoding", "url=http://a.test/x?b=1", "GET http://a.test/x?b=1"),
            ("everything", "pace=true&tunnel=true&url=a.test:443&agent=FooBot/1.0+%28x%29&client=news&method=HEAD", "HEAD through in turn a.test:443 for news as \"FooBot/1.0 (x)\""),
            ("an empty agent is none", "url=http://a.test/&agent=", "GET http://a.test/"),
            ("an encoded percent sign", "url=http://a.test/%2570", "GET http://a.test/%70"),
            ("octets that are no text", "url=http://a.test/%FF", "GET http://a.test/\\xff"),
            ("a trailing &", "url=http://a.test/&", "GET http://a.test/"),
            ("said to be false", "url=http://a.test/&pace=false", "GET http://a.test/"),
            ("no URL", "", "url is missing: which URL is going to be fetched?"),
            ("no URL, but an agent", "agent=FooBot", "url is missing: which URL is going to be fetched?"),
            ("a URL that fell apart", "url=http://a.test/?b=1&c=2", "\"c\" is no parameter; allowed are url, agent, method, client, pace and tunnel. An & in a value is written %26."),
            ("two URLs", "url=http://a.test/&url=http://b.test/", "url is there twice."),
            ("half an octet", "url=http://a.test/%2", "url: a % that begins no octet; a % is written %25."),
            ("no octet", "url=http://a.test/%zz", "url: a % that begins no octet; a % is written %25."),
            ("a sign in an octet", "url=http://a.test/%+1", "url: a % that begins no octet; a % is written %25."),
            ("a line end in the agent", "url=http://a.test/&agent=a%0D%0Ab", "agent must be fit for a User-Agent field."),
            ("no method", "url=http://a.test/&method=G+T", "method must be a method."),
            ("half a truth", "url=http://a.test/&pace=1", "pace = \"1\": allowed are true and false."),
        ];
        for (name, query, expected) in cases {
            assert_eq!(read(query), expected, "{name}");
        }
    }
}
