//! Requests for `ftp` URLs: one anonymous session for each, and its answer as an HTTP response.
//!
//! Both connections are made by the dialler of all origins, through the address policy and the upstream proxies. Only
//! passive mode is used, and the data connection goes to the address of the control connection, whatever a PASV reply
//! names. A session serves one request and is not kept: a login that others used could stand in another directory.
//!
//! The permit of a request is checked when the login is over, before a command names a file, and again before each command
//! that begins a transfer.

mod answer;
mod body;
mod control;

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::Duration;

use http::{HeaderMap, Method};
use tokio::net::TcpStream;
use tokio::time::timeout;

use self::answer::{Facts, Response};
pub(super) use self::body::Body;
use self::body::{BodyEnd, Transfer};
use self::control::{Control, SessionEnd, TransferStart};
use super::attempt::AttemptEnd;
use super::proof::SendPermit;
use super::shared::Shared;
use super::{Failure, OutgoingRequest, Received, ResponseBody, ViaChain};
use crawlgate_ftp::command::Command;
use crawlgate_ftp::listing::{Format, Listing};
use crawlgate_ftp::page::Page;
use crawlgate_ftp::path::{self, Name, Resource};
use crawlgate_ftp::range::Range;
use crawlgate_ftp::reply::Reply;
use crawlgate_ftp::status::Step;
use crawlgate_robots::{Origin, TransferType};

impl Shared {
    /// Sends a request for an `ftp` URL. A robots.txt gets `to_answer` for its answer once the login is over; a page
    /// waits as long as its caller does.
    pub(super) async fn ask_ftp(
        &self,
        send_permit: SendPermit<'_>,
        request: OutgoingRequest,
        (to_connect, to_answer): (Duration, Option<Duration>),
    ) -> Result<Received, AttemptEnd> {
        if !self.takes_ftp.load(Ordering::Relaxed) {
            return Err(AttemptEnd::Failed(Failure::Unaddressable));
        }
        let (key, path) = send_permit.destination();
        let resource =
            path::read(path.as_str()).map_err(|_| AttemptEnd::Failed(Failure::Unaddressable))?;
        let is_robots = matches!(send_permit, SendPermit::Robots(_));
        // A fetch of crawlgate asks an FTP server only for robots.txt: TDMRep is about HTTP.
        if is_robots && path.as_str() != "/robots.txt" {
            return Err(AttemptEnd::Failed(Failure::Unaddressable));
        }
        // The words of an error page could be taken for those of a missing page.
        let has_body = *request.method() != Method::HEAD && !is_robots;
        let asked = FtpRequest {
            shared: self,
            origin: key.origin(),
            path: path.as_str(),
            is_head: *request.method() == Method::HEAD,
            named: request.extensions().get().copied(),
            headers: request.headers(),
            via: request.extensions().get(),
            send_permit,
        };
        let opened = timeout(to_connect, asked.session()).await;
        let answered = match opened.unwrap_or(Err(Failure::ConnectTimeout.into())) {
            Ok(session) => {
                if send_permit.proof(&self.changes).is_none() {
                    return Err(AttemptEnd::Overtaken(request));
                }
                let answering = session.answer(&resource);
                match to_answer {
                    None => answering.await,
                    Some(patience) => timeout(patience, answering)
                        .await
                        .unwrap_or(Err(Failure::ResponseTimeout.into())),
                }
            }
            Err(stop) => Err(stop),
        };
        let (response, peer) = match answered {
            Ok(answered) => answered,
            Err(SessionEnd::Overtaken) => return Err(AttemptEnd::Overtaken(request)),
            // The server had been asked about the file.
            Err(SessionEnd::OvertakenLate) => return Err(AttemptEnd::Lost(request)),
            Err(SessionEnd::Refused(refusal, peer)) => (answer::refused(refusal, has_body), peer),
            Err(SessionEnd::Failed(failure)) => return Err(AttemptEnd::Failed(failure)),
        };
        Ok(Received {
            response: Box::new(response.map(ResponseBody::ftp)),
            peer,
            was_crowded: false,
        })
    }
}

/// A request, on its way to a session.
#[derive(Clone, Copy)]
struct FtpRequest<'a> {
    shared: &'a Shared,
    origin: &'a Origin,
    path: &'a str,
    is_head: bool,
    /// The transfer type that the URL names.
    named: Option<TransferType>,
    headers: &'a HeaderMap,
    via: Option<&'a ViaChain>,
    send_permit: SendPermit<'a>,
}

impl<'a> FtpRequest<'a> {
    /// Connects and logs in.
    async fn session(self) -> Result<Session<'a>, SessionEnd> {
        let shared = self.shared;
        // With its data connection, a session takes a descriptor more than other exchanges.
        let place = shared.idle.second().ok_or(Failure::Exhausted)?;
        if shared.idle.is_exceeded() {
            shared.close_idle();
        }
        let stream = shared.reach(self.origin, self.via).await?;
        let mut control = Control::new(stream, shared.counts.opened_ftp(), place)?;
        control.log_in().await?;
        Ok(Session { asked: self, control, has_named: false, presence: Presence::Unasked })
    }

    fn is_robots(&self) -> bool {
        matches!(self.send_permit, SendPermit::Robots(_))
    }

    fn url(&self) -> String {
        format!("{}{}", self.origin, self.path)
    }

    /// Returns the URL with a slash at its end, in its one spelling.
    fn folder_url(&self) -> String {
        let folder = format!("{}/", self.path);
        let spelling = path::canonical(&folder).unwrap_or(folder);
        format!("{}{spelling}", self.origin)
    }
}

/// A session that is logged in.
struct Session<'a> {
    asked: FtpRequest<'a>,
    control: Control,
    /// True if a command has named the file or directory.
    has_named: bool,
    presence: Presence,
}

/// The answers to SIZE and MDTM about a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Presence {
    /// Nothing yet.
    Unasked,
    /// Neither that it is there nor that it is not.
    Unknown,
    /// The server has told its size or its time.
    There,
    /// 550, each that was asked.
    Missing,
}

impl Session<'_> {
    /// Answers the request. Tells the address of the server, too.
    async fn answer(self, resource: &Resource) -> Result<(Response, SocketAddr), SessionEnd> {
        let peer = self.control.peer();
        let response = match (resource, self.asked.named) {
            (Resource::File(_), Some(TransferType::Directory)) => {
                answer::moved(&self.asked.folder_url())
            }
            (Resource::File(name), named) => {
                self.file(name, named == Some(TransferType::Ascii)).await?
            }
            (Resource::Directory(name), _) => self.directory(name.as_ref()).await?,
        };
        Ok((response, peer))
    }

    /// Answers with a file.
    async fn file(mut self, name: &Name, is_ascii: bool) -> Result<Response, SessionEnd> {
        let in_type = if is_ascii { Command::TypeAscii } else { Command::TypeImage };
        self.control.must(&in_type, Step::Transfer).await?;
        self.has_named = true;
        let facts = Facts {
            name,
            // The length of lines is known when they have been sent.
            size: if is_ascii {
                None
            } else {
                self.query(&Command::Size(name), Reply::size).await?
            }
            // Some servers say 0 where they do not know.
            .filter(|size| *size > 0),
            modified: self.query(&Command::Mdtm(name), Reply::modified).await?,
            now: self.asked.shared.pool.clock.now(),
        };
        let mut range = facts.range(self.asked.headers);
        let is_told = self.asked.is_head && facts.size.is_some();
        if is_told || range == Range::Unsatisfiable {
            // Some servers tell a size of a directory, too.
            let is_directory = self.enters(name).await?;
            self.control.quit();
            return Ok(match is_told {
                _ if is_directory => answer::moved(&self.asked.folder_url()),
                true => facts.answer(Range::Whole, facts.size, Body::none()),
                false => facts.unsatisfiable(),
            });
        }
        let data = self.data_connection().await?;
        if let Range::Part { from: from @ 1.., .. } = range
            && !self.begins_at(from).await?
        {
            range = Range::Whole;
        }
        let begun = self.begin(&Command::Retr(name)).await?;
        if let TransferStart::Refused(reply) = begun {
            return self.refused_file(name, reply).await;
        }
        if self.asked.is_head {
            return Ok(facts.answer(Range::Whole, None, Body::none()));
        }
        let until = BodyEnd::of(range, facts.size);
        let body = Body::transfer(Transfer::file(data, self.control, begun, until));
        Ok(facts.answer(range, until.length(), body))
    }

    /// Answers for a file that is not sent.
    async fn refused_file(mut self, name: &Name, reply: Reply) -> Result<Response, SessionEnd> {
        let is_robots = self.asked.is_robots();
        // A directory has no slash here, and is a file elsewhere. A robots.txt is a file.
        let may_be_directory = matches!(reply.code, 550 | 551 | 553) && !is_robots;
        if may_be_directory && self.enters(name).await? {
            self.control.quit();
            return Ok(answer::moved(&self.asked.folder_url()));
        }
        let step = match self.presence {
            // A robots.txt that is there and not given is unreachable: 550 would say that the file is missing.
            Presence::There if is_robots => Step::Transfer,
            Presence::There | Presence::Unasked | Presence::Unknown => Step::Name,
            Presence::Missing => Step::MissingName,
        };
        Err(self.control.refused(step, reply))
    }

    /// Answers with the page of a directory.
    async fn directory(mut self, name: Option<&Name>) -> Result<Response, SessionEnd> {
        if let Some(name) = name {
            self.has_named = true;
            self.control.must(&Command::Cwd(name), Step::Name).await?;
        }
        if self.asked.is_head {
            self.control.quit();
            return Ok(answer::page(Body::none()));
        }
        self.control.must(&Command::TypeAscii, Step::Transfer).await?;
        let mut data = self.data_connection().await?;
        let mut begun = self.begin(&Command::Mlsd).await?;
        let mut format = Format::Facts;
        // Not known here (RFC 959 4.2.1).
        if let TransferStart::Refused(Reply { code: 500..=504, .. }) = begun {
            data = self.data_connection().await?;
            begun = self.begin(&Command::List).await?;
            format = Format::Columns;
        }
        if let TransferStart::Refused(reply) = begun {
            return Err(self.control.refused(Step::Name, reply));
        }
        let listing = Listing::new(format).of_login(name.is_none());
        let page = Page::new(self.asked.url(), listing);
        let transfer = Transfer::listing(data, self.control, begun, page);
        Ok(answer::page(Body::transfer(transfer)))
    }

    /// Begins a transfer, unless a change has overtaken the permit.
    async fn begin(&mut self, command: &Command<'_>) -> Result<TransferStart, SessionEnd> {
        let FtpRequest { shared, send_permit, .. } = self.asked;
        if send_permit.proof(&shared.changes).is_none() {
            self.control.quit();
            return Err(if self.has_named {
                SessionEnd::OvertakenLate
            } else {
                SessionEnd::Overtaken
            });
        }
        Ok(self.control.begin(command).await?)
    }

    /// Asks for a fact about a file. A server may not know the command; what it says of a directory is no fact either.
    async fn query<T>(
        &mut self,
        command: &Command<'_>,
        read: impl Fn(&Reply) -> Option<T>,
    ) -> Result<Option<T>, SessionEnd> {
        let reply = self.control.ask(command).await?;
        self.presence = match (reply.code, self.presence) {
            (213, _) | (_, Presence::There) => Presence::There,
            (550, Presence::Unasked | Presence::Missing) => Presence::Missing,
            _ => Presence::Unknown,
        };
        match reply.code {
            213 => Ok(read(&reply)),
            421 => Err(self.control.refused(Step::Name, reply)),
            _ => Ok(None),
        }
    }

    /// Makes the next transfer begin at an octet. Tells whether the server can; if not, the answer is the whole file (RFC
    /// 9110 14.2).
    async fn begins_at(&mut self, from: u64) -> Result<bool, SessionEnd> {
        let reply = self.control.ask(&Command::Rest(from)).await?;
        match reply.code {
            350 => Ok(true),
            421 => Err(self.control.refused(Step::Transfer, reply)),
            _ => Ok(false),
        }
    }

    /// Tells whether a name is that of a directory.
    async fn enters(&mut self, name: &Name) -> Result<bool, SessionEnd> {
        let reply = self.control.ask(&Command::Cwd(name)).await?;
        Ok(matches!(reply.code, 200..=299))
    }

    /// Opens a data connection in passive mode: to the port that the server names, at the address that was checked.
    async fn data_connection(&mut self) -> Result<TcpStream, SessionEnd> {
        let extended = self.control.ask(&Command::Epsv).await?;
        let port = match extended.code {
            229 => extended.extended_port(),
            // Not known here, or not for this family of addresses.
            500..=599 => {
                let passive = self.control.ask(&Command::Pasv).await?;
                match passive.code {
                    227 => passive.passive_port(),
                    _ => return Err(self.control.refused(Step::Transfer, passive)),
                }
            }
            _ => return Err(self.control.refused(Step::Transfer, extended)),
        };
        let port = port.ok_or(Failure::Ftp)?;
        let (asked, at) = (self.asked, self.control.peer().ip());
        let reaching =
            asked.shared.reach_second(asked.origin, SocketAddr::new(at, port), asked.via);
        match reaching.await {
            Ok(data) => Ok(data),
            // The server was asked by now, so a page is one that was sent and got no answer. These failures would say in
            // its record that nothing has left. A robots.txt has no such record, and its cause tells more.
            Err(Failure::Prohibited(_) | Failure::Exhausted | Failure::Crowded)
                if !asked.is_robots() =>
            {
                Err(Failure::Ftp.into())
            }
            Err(failure) => Err(failure.into()),
        }
    }
}
