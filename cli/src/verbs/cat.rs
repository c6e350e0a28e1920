//! tane cat: files to standard output.

use crate::failure::Result;
use crate::interrupt;
use crate::output::Output;
use crate::session::Global;
use crate::session::{for_each_image, Access};
use std::ffi::OsString;
use tane_linux::{Errno, Kind, Root};

/// Write files of an image to standard output
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tane cat disk.img:/etc/os-release
  tane cat disk.img:/boot/vmlinuz >vmlinuz
  tane cat disk.img:/var/log/a.gz disk.img:/var/log/b.gz | zcat")]
pub struct Args {
    /// Files in images
    #[arg(required = true, value_name = "IMAGE:/PATH")]
    pub files: Vec<OsString>,
}

pub fn run(args: Args, global: &Global) -> Result<u8> {
    let global = &global.copying();
    let mut out = Output::new();
    let mut buffer = vec![0; 1 << 20];
    for_each_image(&args.files, Access::Read, global, |root, items| {
        let mut all_well = true;
        for item in items {
            all_well &= match one(root, item.path(), &mut buffer, &mut out)? {
                Ok(()) => true,
                Err(e) => item.complain(e),
            };
        }
        // Whoever reads it need not wait until the image is closed.
        out.flush()?;
        Ok(all_well)
    })
}

/// Outer failures concern the output, inner ones the file.
fn one(
    root: &Root,
    path: &[u8],
    buffer: &mut [u8],
    out: &mut Output,
) -> Result<std::result::Result<(), Errno>> {
    // O_NONBLOCK: opening a fifo must not wait for a writer that cannot come.
    let fd = match root.open(path, libc::O_RDONLY | libc::O_NONBLOCK) {
        Ok(fd) => fd,
        Err(e) => return Ok(Err(e)),
    };
    match root.sys().fstat(&fd).map(|s| s.kind()) {
        Ok(Kind::File) => {}
        Ok(Kind::Directory) => return Ok(Err(Errno(libc::EISDIR))),
        Ok(_) => return Ok(Err(Errno(libc::ENXIO))),
        Err(e) => return Ok(Err(e)),
    }
    loop {
        interrupt::check()?;
        match root.sys().read(&fd, buffer) {
            Ok(0) => return Ok(Ok(())),
            Ok(n) => out.bytes(&buffer[..n])?,
            Err(e) => return Ok(Err(e)),
        }
    }
}
