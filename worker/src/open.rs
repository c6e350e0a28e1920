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
use tane::{Image, ImageOptions, Kernel, Selector};

/// Private memory, unless the caller says otherwise, in bytes; as for the command.
const MEMORY: u64 = 4 << 30;
/// How long Linux may go round in circles; as for the command.
const HANG: Duration = Duration::from_secs(180);

/// The first call.
#[derive(Clone, Default)]
pub(crate) struct Setup {
    pub image: PathBuf,
    pub write: bool,
    pub format: Option<String>,
    pub overlay: Option<PathBuf>,
    pub trust: List<PathBuf>,
    pub with: List<PathBuf>,
    /// Images below it, and the selector of each or nothing.
    pub lower: List<PathBuf>,
    pub lower_selectors: List<String>,
    pub secrets: List<Vec<u8>>,
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
        image, write, format, overlay, trust, with, lower, lower_selectors, secrets, kernel, tiny, memory, cpus,
        cmdline, memory_limit, milliseconds, stuck
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

    fn options(&self, notices: &Arc<Mutex<Vec<String>>>) -> Result<ImageOptions> {
        let mut options = ImageOptions::new();
        options.write(self.write);
        if let Some(format) = &self.format {
            let format = format.parse();
            options.format(format.map_err(|e: String| Failure::new(libc::EINVAL, e))?);
        }
        if let Some(file) = &self.overlay {
            options.overlay(file);
        }
        for place in &self.trust.0 {
            options.trust(place);
        }
        for image in &self.with.0 {
            options.with(image);
        }
        for (image, selector) in self.lower.0.iter().zip(&self.lower_selectors.0) {
            let selector = match selector.as_str() {
                "" => None,
                text => Some(Selector::parse(text)?),
            };
            options.lower(image, selector);
        }
        for secret in &self.secrets.0 {
            options.secret(secret.as_slice());
        }
        let notices = notices.clone();
        options.notice(move |text| lock(&notices).push(text.into()));
        Ok(options)
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
        let notices = Arc::default();
        let mut options = self.options(&notices)?;
        let link = link.map(Arc::new);
        if let Some(link) = link.clone() {
            let notices = notices.clone();
            options.servers(move |address| {
                let (disk, said) = link.open_and_tell(address)?;
                if !said.is_empty() {
                    lock(&notices).push(said);
                }
                Ok(disk)
            });
        }
        let mut kernel = self.kernel.as_deref().unwrap_or(Path::new(""));
        let tiny = self.tiny.as_deref();
        let mut jail = Jail::new();
        jail.boots(true);
        // Whoever holds an image's lock is named; what does not exist, when it is opened.
        let others = [kernel, Path::new("/proc/locks")];
        for path in others.into_iter().chain(tiny) {
            if path.exists() {
                jail.read(path);
            }
        }
        options.allow(&mut jail, &self.image);
        match self.memory_limit {
            Some(u64::MAX) => {}
            limit => drop(jail.memory(limit.unwrap_or(MEMORY))),
        }
        if let Some(limit) = self.milliseconds {
            jail.time(Duration::from_millis(limit));
        }
        let held = jailed(jail.enter())?;

        let opened = options.open_files(&self.image)?;
        if let Some(link) = link {
            let sealed = link.seal();
            sealed.map_err(|e| Failure::of_io(&e, "open the image"))?;
        }
        if let Some(tiny) = tiny.filter(|_| opened.is_plain()) {
            kernel = tiny;
        }
        let kernel = self.boot(kernel)?;

        jailed(Jail::new().enter())?;
        let image = opened.attach(&kernel)?;
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
