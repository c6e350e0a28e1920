//! How an image is opened by a worker.

use crate::client::{Start, Worker};
use crate::failure::{Failure, Result};
use crate::open::{Opened, Setup};
use crate::remote::Image;
use crate::servers::Named;
use crate::wire::{List, Wire, Writer};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tane::jail::Files;
use tane::{ImageOptions, ImagePath};

type Notice = Arc<dyn Fn(&str) + Send + Sync>;

/// How an image is opened by a worker: by [`tane::ImageOptions`], and what the worker and
/// its kernel get.
#[derive(Clone, Default)]
pub struct Options {
    setup: Setup,
    start: Start,
    notice: Option<Notice>,
}

impl Options {
    /// For reading, in a jail with 4 GiB of memory at most and no limit of time.
    pub fn new() -> Self {
        Self::default()
    }

    /// How the image is opened; see [`tane::ImageOptions`].
    pub fn image(&mut self, options: ImageOptions) -> &mut Self {
        self.setup.options = options;
        self
    }

    /// See [`tane::DiskOptions::notice`]; called once the image is open.
    pub fn notice(&mut self, say: impl Fn(&str) + Send + Sync + 'static) -> &mut Self {
        self.notice = Some(Arc::new(say));
        self
    }

    /// The kernel image; else [`tane::default_image`], or [`tane::tiny_image`] if there
    /// is one and it has all that the image takes.
    pub fn kernel(&mut self, path: impl Into<PathBuf>) -> &mut Self {
        self.setup.kernel = Some(path.into());
        self
    }

    /// See [`tane::Builder::memory`].
    pub fn memory(&mut self, bytes: u64) -> &mut Self {
        self.setup.memory = Some(bytes);
        self
    }

    /// See [`tane::Builder::cpus`].
    pub fn cpus(&mut self, count: u32) -> &mut Self {
        self.setup.cpus = Some(count);
        self
    }

    /// See [`tane::Builder::cmdline`].
    pub fn cmdline(&mut self, words: &str) -> &mut Self {
        self.setup.cmdline = words.into();
        self
    }

    /// See [`tane::jail::Jail::memory`]; 4 GiB if nothing is said.
    pub fn memory_limit(&mut self, bytes: u64) -> &mut Self {
        self.setup.memory_limit = Some(bytes);
        self
    }

    /// The worker is killed when this time has passed since it opened the image, and
    /// what was not synced is lost. No limit if nothing is said.
    pub fn time_limit(&mut self, limit: Duration) -> &mut Self {
        let milliseconds = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        self.setup.milliseconds = Some(milliseconds.max(1));
        self.start.limit = Some(limit);
        self
    }

    /// The worker ends when Linux has been mounting, unmounting or looking for volumes
    /// for this time without asking the image for anything: a damaged or hostile one may
    /// have it go round in circles. Three minutes if nothing is said; [`Duration::MAX`]
    /// is no limit.
    pub fn hang_limit(&mut self, limit: Duration) -> &mut Self {
        let milliseconds = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        self.setup.stuck = Some(milliseconds.max(1));
        self
    }

    /// Asked some fifty times a second by each thread whose call waits for the worker,
    /// on that thread. When it says true the call is given up: EINTR. The worker may
    /// still carry it out; the position of a file that was read is then unknown. Without
    /// it, calls wait as long as the worker lives.
    pub fn interrupted(&mut self, ask: impl Fn() -> bool + Send + Sync + 'static) -> &mut Self {
        self.start.interrupted = Some(Arc::new(ask));
        self
    }

    /// The worker's program; else what TANE_WORKER names, else `tane-worker` beside
    /// this program or library.
    pub fn program(&mut self, path: impl Into<PathBuf>) -> &mut Self {
        self.start.program = Some(path.into());
        self
    }

    /// Start a worker for the image that `path` names: a file, with `@SELECTOR` if one of
    /// its file systems is meant, an address that starts with `http://`, `https://`, `nbd://`
    /// or `nbd+unix://`, or `IMAGE:/IMAGE` for one in another, as [`ImagePath::of_image`] has it. One on a server
    /// is read by a process of its own, so that the worker has no network.
    ///
    /// Errors: those of [`tane::ImageOptions::open`] and [`tane::Builder::boot`]; what
    /// the jail says; ENOENT, ENOEXEC there is no program, or it is of another version.
    pub fn open(&self, path: impl AsRef<Path>) -> Result<Image> {
        let mut setup = self.setup.clone();
        let mut start = self.start.clone();
        let path = path.as_ref();
        let named = ImagePath::of_image(bare(path)?)?;
        let outermost = named.outermost();
        setup.image = outermost.image.clone();
        setup.selector = outermost.selector.clone();
        setup.path = match named.within {
            Some(_) => outermost.path.clone(),
            None => b"/".to_vec(),
        };
        let write = setup.options.write && setup.options.overlay.is_none();
        if tane::is_remote(&setup.image) {
            // With name and password, and without what is behind it.
            let (text, bare) = (address(path)?, bare(path)?);
            let behind = bare.as_os_str().len() - setup.image.as_os_str().len();
            start.addresses.push(Named {
                address: text[..text.len() - behind].to_owned(),
                write,
            });
        }
        let with = setup.options.with.iter_mut().map(|image| (image, write));
        let lower = setup.options.lower.iter_mut();
        let lower = lower.map(|(image, _)| (image, false));
        let beside = with.chain(lower);
        for (image, write) in beside.filter(|(image, _)| tane::is_remote(image)) {
            let address = address(image)?.to_owned();
            *image = bare(image)?;
            start.addresses.push(Named { address, write });
        }
        start.writes = setup.options.write;
        if setup.kernel.is_none() {
            setup.kernel = Some(tane::default_image()?);
            // It has one CPU.
            let several = setup.cpus.is_some_and(|count| count > 1);
            setup.tiny = tane::tiny_image().filter(|_| !several);
        }
        let ask = |to: &mut Writer<'_>| setup.put(to);
        let (worker, opened): (_, Opened) = Worker::start(&start, ask)?;
        if let Some(notice) = &self.notice {
            let List(notices) = &opened.notices;
            notices.iter().for_each(|text| notice(text));
        }
        let held = match opened.held {
            0 => Files::Fully,
            1 => Files::Partly,
            _ => Files::No,
        };
        let write = setup.options.write;
        Ok(Image {
            worker,
            held,
            write,
        })
    }
}

fn address(image: &Path) -> Result<&str> {
    let bad = || Failure::new(libc::EINVAL, "an address on a server is not UTF-8");
    image.to_str().ok_or_else(bad)
}

/// Without a name and a password, which are not the worker's to know.
fn bare(image: &Path) -> Result<PathBuf> {
    if !tane::is_remote(image) {
        return Ok(image.into());
    }
    let taken = tane::images::Login::take(address(image)?);
    Ok(taken.map_or_else(|| image.into(), |(bare, _)| bare.into()))
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Without the secrets.
        f.debug_struct("Options")
            .field("image", &self.setup.options)
            .field("program", &self.start.program)
            .finish_non_exhaustive()
    }
}
