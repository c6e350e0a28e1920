//! Reads every file of an image and says how long what took.
//!
//!     walk IMAGE

use std::time::Instant;
use tane::{Dir, DiskOptions, FileType, Kernel, MountOptions, Result};

#[derive(Clone)]
struct Totals {
    files: u64,
    bytes: u64,
    buffer: Vec<u8>,
}

fn walk(dir: &Dir, totals: &mut Totals) -> Result<()> {
    let mut entries = dir.read_dir()?;
    while let Some(entry) = entries.next_entry()? {
        let name = entry.file_name();
        let kind = match entry.file_type() {
            Some(kind) => kind,
            None => dir.metadata(name)?.file_type(),
        };
        match kind {
            FileType::Dir => walk(&dir.open_dir(name)?, totals)?,
            FileType::File => {
                let file = dir.open(name)?;
                let mut at = 0;
                while let Ok(n @ 1..) = file.read_at(&mut totals.buffer, at) {
                    at += n as u64;
                }
                totals.bytes += at;
                totals.files += 1;
            }
            _ => {}
        }
    }
    Ok(())
}

fn main() -> Result<()> {
    let image = std::env::args_os().nth(1).expect("usage: walk IMAGE");
    let start = Instant::now();
    let kernel = Kernel::boot()?;
    let booted = start.elapsed();
    let disk = kernel.open_disk(&image, DiskOptions::new().snapshot(true))?;
    let found = start.elapsed();
    let mount = MountOptions::new().mount(&kernel, disk.device())?;
    let mounted = start.elapsed();
    let mut totals = Totals {
        files: 0,
        bytes: 0,
        buffer: vec![0; 1 << 20],
    };
    walk(&mount.open_dir("/")?, &mut totals)?;
    let walked = start.elapsed();
    walk(&mount.open_dir("/")?, &mut totals.clone())?;
    let again = start.elapsed();
    mount.unmount()?;
    let unmounted = start.elapsed();
    disk.remove()?;
    let removed = start.elapsed();
    drop(kernel);
    let all = start.elapsed();
    println!("boot {booted:.1?}");
    println!("disk {:.1?}", found - booted);
    println!("mount {:.1?}", mounted - found);
    let (files, bytes) = (totals.files, totals.bytes);
    println!("{files} files, {bytes} bytes {:.1?}", walked - mounted);
    println!("again, from the cache {:.1?}", again - walked);
    println!("unmount {:.1?}", unmounted - again);
    println!("remove {:.1?}", removed - unmounted);
    println!("halt {:.1?}", all - removed);
    println!("all {all:.1?}");
    Ok(())
}
