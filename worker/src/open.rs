//! How a worker opens its image: into the first jail, the container, Linux, into the
//! second jail, and only then does Linux see the image.

use crate::failure::{Failure, Result};
use crate::objects::lock;
use crate::servers::Link;
use crate::wire::{List, Reader, Wire, Writer};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tane::jail::{Files, Jail};
use tane::{Image, ImageHooks, ImageOptions, ImagePath, Kernel, Selector};

/// Private memory, unless the caller says otherwise, in bytes; as for the command.
const MEMORY: u64 = 4 << 30;
/// How long Linux may go round in circles; as for the command.
const HANG: Duration = Duration::from_secs(180);

/// The first call.
#[derive(Clone, Default)]
pub(crate) struct Setup {
    /// The image that the host or a server has, and which of its file systems.
    pub image: PathBuf,
    pub selector: Option<Selector>,
    /// "/", or the file of it that is the image.
    pub path: Vec<u8>,
    pub options: ImageOptions,
    pub kernel: Option<PathBuf>,
    /// What is booted instead if the image is plain.
    pub tiny: Option<PathBuf>,
    pub memory: Option<u64>,
    pub cpus: Option<u32>,
    pub cmdline: String,
    pub memory_limit: Option<u64>,
    pub milliseconds: Option<u64>,
    /// How long Linux may be stuck, in milliseconds.
    pub stuck: Option<u64>,
}

/// Its answer.
pub(crate) struct Opened {
    /// What the host's Landlock holds: all, the greater part, nothing.
    pub held: u32,
    pub notices: List<String>,
}

macro_rules! structures {
    ($($name:ident { $($field:ident),* })*) => { $(
        impl Wire<'_> for $name {
            fn put(&self, to: &mut Writer) -> Result<()> {
                $( self.$field.put(to)?; )*
                Ok(())
            }

            fn get(from: &mut Reader) -> Result<Self> {
                Ok($name { $( $field: Wire::get(from)? ),* })
            }
        }
    )* };
}

structures! {
    Setup {
        image, selector, path, options, kernel, tiny, memory, cpus, cmdline, memory_limit,
        milliseconds, stuck
    }
    Opened { held, notices }
}

fn jailed<T>(result: std::result::Result<T, tane::jail::Error>) -> Result<T> {
    result.map_err(|e| {
        let text = format!(
            "the jail cannot be set up: {e}; open the image without a jail, in this process, \
             if you trust it"
        );
        Failure::new(libc::EPERM, text)
    })
}

impl Setup {
    pub fn hang_limit(&self) -> Duration {
        self.stuck.map_or(HANG, Duration::from_millis)
    }

    /// The image that is named.
    fn at(&self) -> ImagePath {
        let at = ImagePath {
            image: self.image.clone(),
            selector: self.selector.clone(),
            path: self.path.clone(),
            within: None,
        };
        at.whole()
    }

    fn boot(&self, kernel: &Path) -> Result<Kernel> {
        let mut builder = Kernel::builder().image(kernel).cmdline(&self.cmdline);
        if let Some(bytes) = self.memory {
            builder = builder.memory(bytes);
        }
        if let Some(count) = self.cpus {
            builder = builder.cpus(count);
        }
        Ok(builder.boot()?)
    }

    /// Do all of it. This process has one thread yet. `link`: to servers that the image
    /// is on.
    pub fn open(&self, link: Option<Link>) -> Result<(Image, Opened)> {
        let notices: Arc<Mutex<Vec<String>>> = Arc::default();
        let (at, options) = (self.at(), &self.options);
        let mut hooks = ImageHooks::new();
        let told = notices.clone();
        hooks.notice(move |text| lock(&told).push(text.into()));
        let link = link.map(Arc::new);
        if let Some(link) = link.clone() {
            let notices = notices.clone();
            hooks.servers(move |address, write| {
                let (disk, said) = link.open_and_tell(address, write)?;
                if !said.is_empty() {
                    lock(&notices).push(said);
                }
                Ok(disk)
            });
        }
        let kernel = self.kernel.as_deref().unwrap_or(Path::new(""));
        let tiny = self.tiny.as_deref();
        let mut jail = Jail::new();
        // Which of them is booted is known when the container is open.
        let kernels: Vec<_> = std::iter::once(kernel).chain(tiny).collect();
        let memory = self.memory.unwrap_or(tane::MEMORY);
        jail.boots_from(&tane::provide(&kernels, at.most_kernels(), memory)?);
        // Whoever holds an image's lock is named.
        jail.read("/proc/locks");
        options.allow(&mut jail, &at);
        match self.memory_limit {
            Some(u64::MAX) => {}
            limit => drop(jail.memory(limit.unwrap_or(MEMORY))),
        }
        if let Some(limit) = self.milliseconds {
            jail.time(Duration::from_millis(limit));
        }
        let held = jailed(jail.enter())?;

        let opened = options.open_files(&at, &hooks)?;
        if let Some(link) = link {
            let sealed = link.seal();
            sealed.map_err(|e| Failure::of_io(&e, "open the image"))?;
        }
        let booted = opened.boot(|what| {
            let tiny = tiny.filter(|_| what.is_plain());
            self.boot(tiny.unwrap_or(kernel))
        })?;

        jailed(Jail::new().enter())?;
        let image = booted.attach()?;
        let notices = lock(&notices).drain(..).collect();
        Ok((
            image,
            Opened {
                held: match held.files {
                    Files::Fully => 0,
                    Files::Partly => 1,
                    Files::No => 2,
                },
                notices: List(notices),
            },
        ))
    }
}
