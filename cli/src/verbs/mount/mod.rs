//! tane mount: a file system of an image, as a directory of the host.

use std::ffi::OsString;
use std::path::PathBuf;

/// Mount a file system of an image on a directory, by FUSE
#[derive(clap::Args)]
#[command(after_help = "\
Served by this process until it is unmounted: by Ctrl-C, tane umount or
fusermount3 -u. Mounted by root, the permissions in the image hold for all users.
Mounted by somebody else, it is theirs alone, and they are root in it.

Examples:
  tane mount disk.img /mnt
  tane mount --background disk.img@2:/home /mnt && cp -a /mnt/. backup; tane umount /mnt
  tane mount --rw disk.img /mnt")]
pub struct Args {
    /// The image, or a directory in it
    #[arg(value_name = "IMAGE[:/PATH]")]
    pub image: OsString,
    /// An existing directory
    pub dir: PathBuf,
    /// Let the image be changed
    #[arg(short = 'w', long)]
    pub rw: bool,
    /// Return as soon as it is mounted, and serve it in the background
    #[arg(short, long)]
    pub background: bool,
    /// Let other users in, with the permissions in the image (root: always)
    #[arg(long)]
    pub allow_other: bool,
    /// Once all files were found to have no extended attributes, say that these are
    /// not supported, instead of giving empty lists: cp -a is faster then. Some
    /// programs take it for an error (mkfs.erofs)
    #[arg(long, conflicts_with = "rw")]
    pub xattrs_if_any: bool,
    /// Threads that serve
    #[arg(long, hide = true, value_name = "N")]
    pub threads: Option<usize>,
    /// Where to say that it is mounted
    #[arg(long, hide = true, value_name = "FD")]
    pub ready: Option<i32>,
    /// Serve it, for who is on the other side of this socket
    #[arg(long, hide = true, value_name = "FD")]
    pub serve: Option<i32>,
}

impl Args {
    /// Whether this process only mounts, and looks into no image.
    pub fn supervises(&self) -> bool {
        self.serve.is_none()
    }

    /// Permissions are checked by users of the host.
    #[cfg(feature = "fuse")]
    fn many_users(&self) -> bool {
        is_root() || self.allow_other
    }
}

#[cfg(not(feature = "fuse"))]
pub fn run(_: Args, _: &crate::session::Global) -> crate::failure::Result<u8> {
    Err(crate::failure::Failure::usage(
        "this tane was built without FUSE: build it with --features fuse",
    ))
}

#[cfg(feature = "fuse")]
mod background;
#[cfg(feature = "fuse")]
mod serve;
#[cfg(feature = "fuse")]
mod supervise;

#[cfg(feature = "fuse")]
pub fn run(args: Args, global: &crate::session::Global) -> crate::failure::Result<u8> {
    match args.serve {
        None => supervise::run(&args),
        Some(fd) => serve::run(&args, &tane_fuse::Link::inherited(fd), global),
    }
}

#[cfg(feature = "fuse")]
fn is_root() -> bool {
    // SAFETY: takes and changes nothing.
    unsafe { libc::geteuid() == 0 }
}
