//! Requests for parts of one file, repeated while there is hope.

use super::scope::ScopedResolver;
use super::url::{Login, Url};
use std::io::{self, Read};
use std::time::Duration;
use ureq::http::header::{
    ACCEPT_ENCODING, AUTHORIZATION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, ETAG,
    IF_RANGE, LAST_MODIFIED, LOCATION, RANGE, RETRY_AFTER, TRANSFER_ENCODING,
};
use ureq::http::{HeaderName, Response};
use ureq::unversioned::transport::DefaultConnector;
use ureq::{Agent, Body, Error};

/// Tries without a byte of progress before it is given up.
const TRIES: u32 = 5;
/// Most redirects of one request.
const REDIRECTS: u32 = 8;
/// Before the second try; it doubles for each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
/// A server that asks for more patience is given up.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// What a file on a server was when it was opened. It has to stay so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pin {
    pub size: u64,
    etag: Option<String>,
    modified: Option<String>,
}

pub(super) struct Client {
    agent: Agent,
    url: Url,
    login: Option<Login>,
}

/// How a file that was asked for its start is there.
pub(super) enum Opened {
    /// In parts; the first of them.
    Parts(Pin, Vec<u8>),
    /// The server has no parts.
    Whole,
}

enum Trouble {
    Final(io::Error),
    /// May pass; after this time, if the server says so.
    Passing(io::Error, Option<Duration>),
}

impl Client {
    pub fn new(url: Url, login: Option<&Login>, timeout: Duration) -> io::Result<Self> {
        let mut config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .max_idle_connections_per_host(super::PARALLEL)
            .user_agent(concat!("tane/", env!("CARGO_PKG_VERSION")))
            .timeout_connect(Some(timeout))
            .timeout_send_request(Some(timeout))
            .timeout_recv_response(Some(timeout))
            .timeout_per_read(Some(timeout));
        match super::tls::config() {
            Ok(tls) => config = config.tls_config(tls),
            Err(e) if url.is_encrypted() => return Err(named(&url, e.kind(), e)),
            // A redirect to https will fail.
            Err(_) => {}
        }
        let resolver = ScopedResolver::of(url.host());
        Ok(Self {
            agent: Agent::with_parts(config.build(), DefaultConnector::default(), resolver),
            url,
            login: login.cloned(),
        })
    }

    /// Ask for the first `len` bytes, and learn what the file is.
    pub fn open(&self, len: u64) -> io::Result<Opened> {
        self.patiently(|| {
            let response = self.ask(Some((0, len)), None)?;
            match response.status().as_u16() {
                200 => Ok(Opened::Whole),
                // No byte of an empty file can be sent.
                416 if header(&response, &CONTENT_RANGE) == Some("bytes */0") => {
                    Err(self.never(io::ErrorKind::InvalidData, "is empty"))
                }
                206 => {
                    let (start, count, size) = self.range(&response)?;
                    if start != 0 || count != len.min(size) {
                        return Err(
                            self.odd("sends another part of the file than it was asked for")
                        );
                    }
                    let pin = Pin::of(&response, size);
                    let mut bytes = vec![0; count as usize];
                    let mut done = 0;
                    self.fill(response, &mut bytes, &mut done)?;
                    Ok(Opened::Parts(pin, bytes))
                }
                status => Err(self.refused(&response, status, false)),
            }
        })
    }

    /// Fill `to` from `at` on, of the file as `pin` has it.
    pub fn fetch(&self, pin: &Pin, at: u64, to: &mut [u8]) -> io::Result<()> {
        let mut done = 0;
        // What has arrived is kept, and each byte is new hope.
        while done < to.len() {
            let before = done;
            let result = self.patiently(|| match done > before {
                true => Ok(()),
                false => self.part(pin, at, to, &mut done),
            });
            if done == before {
                result?;
            }
        }
        Ok(())
    }

    fn part(&self, pin: &Pin, at: u64, to: &mut [u8], done: &mut usize) -> Result<(), Trouble> {
        let changed = || {
            self.never(
                io::ErrorKind::Other,
                "has changed on the server since it was opened; start again",
            )
        };
        let (from, end) = (at + *done as u64, at + to.len() as u64);
        let response = self.ask(Some((from, end - from)), Some(pin))?;
        match response.status().as_u16() {
            206 => {}
            // If-Range: it is not what it was.
            200 if Pin::of(&response, pin.size) != *pin => return Err(changed()),
            200 if pin.etag.is_none() && pin.modified.is_none() => return Err(changed()),
            200 => return Err(self.odd("does not send parts of the file any more")),
            412 | 416 => return Err(changed()),
            status => return Err(self.refused(&response, status, true)),
        }
        let (start, count, size) = self.range(&response)?;
        if Pin::of(&response, size) != *pin {
            return Err(changed());
        }
        if start != from || count == 0 || count > end - from {
            return Err(self.odd("sends another part of the file than it was asked for"));
        }
        // Fewer bytes than asked for are allowed; the rest is asked for again.
        let limit = *done + count as usize;
        self.fill(response, &mut to[..limit], done)
    }

    /// The whole file, from a server that has no parts, with its length if the
    /// server says it.
    pub fn whole(&self) -> io::Result<(impl Read + Send, Option<u64>)> {
        self.patiently(|| {
            let response = self.ask(None, None)?;
            let status = response.status().as_u16();
            if status != 200 {
                return Err(self.refused(&response, status, false));
            }
            let len = header(&response, &CONTENT_LENGTH).and_then(|text| text.parse().ok());
            let chunked = header(&response, &TRANSFER_ENCODING).is_some();
            if len.is_none() && !chunked {
                return Err(self.never(
                    io::ErrorKind::Unsupported,
                    "the server neither sends parts of the file nor says how long it is; \
                     download it by other means",
                ));
            }
            Ok((response.into_body().into_reader(), len))
        })
    }

    pub fn url(&self) -> &Url {
        &self.url
    }

    fn ask(&self, part: Option<(u64, u64)>, pin: Option<&Pin>) -> Result<Response<Body>, Trouble> {
        let mut url = self.url.clone();
        // Followed here, so that the login goes to its own server only, and nobody
        // is led from https to http.
        for _ in 0..=REDIRECTS {
            let response = self.ask_at(&url, part, pin)?;
            let location = match response.status().as_u16() {
                301..=303 | 307 | 308 => header(&response, &LOCATION),
                _ => return Ok(response),
            };
            let next = location.and_then(|location| url.join(location));
            let next = next.ok_or_else(|| self.odd("redirects to nowhere"))?;
            if url.is_encrypted() && !next.is_encrypted() {
                return Err(self.never(
                    io::ErrorKind::PermissionDenied,
                    "the server redirects from https to http, which anybody can change",
                ));
            }
            url = next;
        }
        Err(self.never(io::ErrorKind::Other, "the server redirects without end"))
    }

    fn ask_at(
        &self,
        url: &Url,
        part: Option<(u64, u64)>,
        pin: Option<&Pin>,
    ) -> Result<Response<Body>, Trouble> {
        let mut request = self.agent.get(url.as_str());
        // A compressed part is of no use.
        request = request.header(ACCEPT_ENCODING, "identity");
        if let Some((at, len)) = part {
            request = request.header(RANGE, format!("bytes={at}-{}", at + len - 1));
        }
        if let Some(login) = self.login.as_ref().filter(|login| login.is_for(url)) {
            request = request.header(AUTHORIZATION, format!("Basic {}", base64(&login.secret)));
        }
        if let Some(value) = pin.and_then(Pin::validator) {
            request = request.header(IF_RANGE, value);
        }
        let response = request.call().map_err(|e| self.failed(e, pin.is_some()))?;
        let encoding = header(&response, &CONTENT_ENCODING);
        match encoding.is_none_or(|name| name == "identity") {
            true => Ok(response),
            false => Err(self.odd("compresses the file on its way")),
        }
    }

    /// Read a body of `to.len() - done` bytes.
    fn fill(
        &self,
        response: Response<Body>,
        to: &mut [u8],
        done: &mut usize,
    ) -> Result<(), Trouble> {
        let mut body = response.into_body().into_reader();
        let cut = |e: io::Error| Trouble::Passing(named(&self.url, e.kind(), words(&e)), None);
        while *done < to.len() {
            match body.read(&mut to[*done..]) {
                Ok(0) => return Err(cut(io::ErrorKind::UnexpectedEof.into())),
                Ok(n) => *done += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(cut(e)),
            }
        }
        // Its end, so that the connection can be used again.
        let _ = body.read(&mut [0]);
        Ok(())
    }

    /// `Content-Range: bytes 0-4095/1048576`: start, length, length of the file.
    fn range(&self, response: &Response<Body>) -> Result<(u64, u64, u64), Trouble> {
        let parse = |text: &str| {
            let (range, size) = text.strip_prefix("bytes ")?.split_once('/')?;
            let (first, last) = range.trim().split_once('-')?;
            let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
            let size: u64 = size.trim().parse().ok()?;
            (first <= last && last < size && size < 1 << 62)
                .then(|| (first, last - first + 1, size))
        };
        let text = header(response, &CONTENT_RANGE);
        text.and_then(parse)
            .ok_or_else(|| self.odd("does not say which part it sends, of how long a file"))
    }

    fn never(&self, kind: io::ErrorKind, text: &str) -> Trouble {
        Trouble::Final(named(&self.url, kind, text))
    }

    /// The server does what makes it useless.
    fn odd(&self, what: &str) -> Trouble {
        let text = format!("the server {what}; download it first");
        self.never(io::ErrorKind::Unsupported, &text)
    }

    fn refused(&self, response: &Response<Body>, status: u16, was_there: bool) -> Trouble {
        let (kind, text) = match status {
            401 => (
                io::ErrorKind::PermissionDenied,
                "the server wants another name and password: https://NAME:PASSWORD@HOST/…".into(),
            ),
            403 => (
                io::ErrorKind::PermissionDenied,
                "the server does not permit it".into(),
            ),
            404 | 410 if was_there => (
                io::ErrorKind::NotFound,
                "has vanished from the server".into(),
            ),
            404 | 410 => (io::ErrorKind::NotFound, "no such file on the server".into()),
            _ => {
                let reason = response.status().canonical_reason().unwrap_or("no reason");
                (
                    io::ErrorKind::Other,
                    format!("the server answers {status} ({reason})"),
                )
            }
        };
        let error = named(&self.url, kind, text);
        match status {
            408 | 425 | 429 | 500 | 502..=504 => {
                let seconds = header(response, &RETRY_AFTER).and_then(|text| text.parse().ok());
                Trouble::Passing(error, seconds.map(Duration::from_secs))
            }
            _ => Trouble::Final(error),
        }
    }

    fn failed(&self, error: Error, was_there: bool) -> Trouble {
        let passing = match &error {
            Error::Io(e) => match e.kind() {
                // How a certificate that is not trusted shows.
                io::ErrorKind::InvalidData => false,
                // Of our own: it would lead where it must not.
                io::ErrorKind::PermissionDenied => false,
                io::ErrorKind::ConnectionRefused => was_there,
                _ if is_unknown_host(e) => was_there,
                _ => true,
            },
            Error::HostNotFound => was_there,
            Error::Timeout(_) | Error::ConnectionFailed | Error::Protocol(_) => true,
            _ => false,
        };
        let error = match error {
            Error::Io(e) => named(&self.url, e.kind(), words(&e)),
            Error::Timeout(_) => named(&self.url, io::ErrorKind::TimedOut, "the server is silent"),
            Error::HostNotFound => {
                let text = "there is no host of this name";
                named(&self.url, io::ErrorKind::NotFound, text)
            }
            other => named(&self.url, io::ErrorKind::Other, other),
        };
        match passing {
            true => Trouble::Passing(error, None),
            false => Trouble::Final(error),
        }
    }

    fn patiently<T>(&self, mut once: impl FnMut() -> Result<T, Trouble>) -> io::Result<T> {
        let mut pause = FIRST_PAUSE;
        for tries in 1.. {
            let (error, after) = match once() {
                Ok(done) => return Ok(done),
                Err(Trouble::Final(error)) => return Err(error),
                Err(Trouble::Passing(error, after)) => (error, after),
            };
            let wait = after.unwrap_or(pause).max(pause);
            if tries == TRIES || wait > LONGEST_PAUSE {
                let text = format!("{error}; given up after {tries} tries");
                return Err(io::Error::new(error.kind(), text));
            }
            std::thread::sleep(wait);
            pause *= 2;
        }
        Err(io::ErrorKind::TimedOut.into())
    }
}

impl Pin {
    fn of(response: &Response<Body>, size: u64) -> Self {
        Self {
            size,
            etag: header(response, &ETAG).map(str::to_owned),
            modified: header(response, &LAST_MODIFIED).map(str::to_owned),
        }
    }

    /// For If-Range: a weak tag says nothing about single bytes.
    fn validator(&self) -> Option<&str> {
        let strong = self.etag.as_deref().filter(|tag| !tag.starts_with("W/"));
        strong.or(self.modified.as_deref())
    }
}

fn header<'a>(response: &'a Response<Body>, name: &HeaderName) -> Option<&'a str> {
    response.headers().get(name)?.to_str().ok()
}

fn named(url: &Url, kind: io::ErrorKind, text: impl std::fmt::Display) -> io::Error {
    io::Error::new(kind, format!("{url}: {text}"))
}

/// The resolver's errors have words only.
fn is_unknown_host(error: &io::Error) -> bool {
    error.to_string().contains("Name or service not known")
}

/// What an error of a connection says, in words of files.
fn words(error: &io::Error) -> String {
    let timeout = error.get_ref().and_then(|e| e.downcast_ref::<Error>());
    match (error.kind(), timeout) {
        (_, Some(Error::Timeout(_))) | (io::ErrorKind::TimedOut, _) => {
            "the server is silent".into()
        }
        (io::ErrorKind::UnexpectedEof, _) => "the server ended the connection too early".into(),
        _ if is_unknown_host(error) => "there is no host of this name".into(),
        (io::ErrorKind::ConnectionRefused, _) => "nothing answers there: connection refused".into(),
        _ => error.to_string(),
    }
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let mut word = [0; 4];
        word[1..=three.len()].copy_from_slice(three);
        let word = u32::from_be_bytes(word);
        for digit in 0..4 {
            text.push(match digit <= three.len() {
                true => char::from(DIGITS[(word >> (18 - 6 * digit)) as usize & 63]),
                false => '=',
            });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::base64;

    /// Of RFC 4648, section 10.
    #[test]
    fn base64_is_what_the_standard_says() {
        let pairs = [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v")];
        for (plain, coded) in pairs.into_iter().chain([("foobar", "Zm9vYmFy")]) {
            assert_eq!(base64(plain.as_bytes()), coded);
        }
    }
}
