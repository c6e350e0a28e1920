//! What a checkpoint and the way back cost, beside booting and mounting:
//! `cargo run --release -p tane --example checkpoint -- IMAGE DISK`, where DISK is an image
//! of a file system that the kernel image knows. It is copied into memory.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Instant;
use tane::images::{buffer, Backend, Ram};
use tane::{DiskOptions, Kernel, Mount, MountOptions, Result};

const ROUNDS: usize = 61;
const PAGE: usize = 4096;

fn disk_of(path: &str) -> std::io::Result<Arc<Ram>> {
    let file = File::open(path)?;
    let ram = Ram::new(file.metadata()?.len())?;
    let mut piece = vec![0; 1 << 16];
    let mut at = 0;
    while at < ram.size() {
        let n = file.read_at(&mut piece, at)?;
        if piece[..n].iter().any(|byte| *byte != 0) {
            ram.write(&[buffer(&piece[..n])], at)?;
        }
        at += n as u64;
    }
    Ok(Arc::new(ram))
}

fn start(image: &str, disk: &Arc<Ram>) -> Result<(Kernel, Mount)> {
    let kernel = Kernel::builder().image(image).boot()?;
    let disk = kernel.add_disk(disk.clone(), &DiskOptions::new())?;
    let mount = MountOptions::new().mount(&kernel, disk.device())?;
    Ok((kernel, mount))
}

/// The least and the median, in µs.
fn tell(what: &str, mut times: Vec<f64>) {
    times.sort_by(f64::total_cmp);
    println!("{what:34} {:8.0} {:8.0}", times[0], times[times.len() / 2]);
}

fn micros(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e6
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let (Some(image), Some(disk)) = (words.next(), words.next()) else {
        return Err("usage: checkpoint IMAGE DISK".into());
    };
    let disk = disk_of(&disk)?;
    println!("{:34} {:>8} {:>8}", "µs", "least", "median");
    let mut times = Vec::new();
    for _ in 0..11 {
        let began = Instant::now();
        let (kernel, mount) = start(&image, &disk)?;
        times.push(micros(began));
        mount.unmount()?;
        drop(kernel);
    }
    tell("boot and mount", times);

    let (kernel, mount) = start(&image, &disk)?;
    // Memory of the kernel's own, whose pages are written one by one.
    let file = kernel.tree("/")?.create("pages")?;
    file.write_all_at(&vec![1; 3000 * PAGE], 0)?;
    let began = Instant::now();
    let mut checkpoint = kernel.checkpoint()?;
    tell("the first checkpoint", vec![micros(began)]);

    for pages in [0, 60, 300, 3000] {
        let dirty = |byte| -> std::io::Result<f64> {
            let began = Instant::now();
            for page in 0..pages {
                file.write_all_at(&[byte], (page * PAGE) as u64)?;
            }
            Ok(micros(began))
        };
        let (mut writing, mut back, mut again) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..ROUNDS {
            writing.push(dirty(round as u8)?);
            let began = Instant::now();
            kernel.rollback(&checkpoint)?;
            back.push(micros(began));
        }
        for round in 0..ROUNDS {
            dirty(round as u8)?;
            let began = Instant::now();
            // The one before is not needed any more.
            checkpoint = kernel.checkpoint()?;
            again.push(micros(began));
        }
        tell(&format!("write to {pages} pages, one byte each"), writing);
        tell(&format!("rollback, {pages} pages"), back);
        tell(&format!("another checkpoint, {pages} pages"), again);
    }
    drop((file, checkpoint));
    mount.unmount()?;
    Ok(())
}
