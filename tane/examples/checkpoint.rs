//! What a checkpoint and the way back cost, beside booting and mounting:
//! `cargo run --release -p tane --example checkpoint -- IMAGE DISK`, where DISK is an image
//! of a file system that the kernel image knows. It is copied into memory.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tane::images::{buffer, Backend, Ram};
use tane::{DiskOptions, Kernel, Mount, MountOptions, Result};

const ROUNDS: usize = 61;
const PAGE: usize = 4096;
const TRIED: Duration = Duration::from_secs(3);

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

/// A damaged file system is mounted, listed and taken away.
fn attempt(kernel: &Kernel, ram: &Ram, device: &Path, seed: u64) -> std::io::Result<()> {
    let at = (seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) % (256 << 10)) & !511;
    ram.write(&[buffer(&[seed as u8; 512])], at)?;
    if let Ok(mount) = MountOptions::new().mount(kernel, device) {
        mount.read_dir("/").map(Iterator::count).ok();
    }
    Ok(())
}

/// How often that is done in a second, going back each time and starting anew each time.
fn attempts(image: &str, path: &str) -> std::result::Result<(), Box<dyn std::error::Error>> {
    let kernel = Kernel::builder().image(image).boot()?;
    let ram = disk_of(path)?;
    let disk = kernel.add_disk(ram.clone(), &DiskOptions::new())?;
    let checkpoint = kernel.checkpoint()?;
    let (began, mut done) = (Instant::now(), 0);
    while began.elapsed() < TRIED {
        attempt(&kernel, &ram, &disk.device(), done)?;
        kernel.rollback(&checkpoint)?;
        done += 1;
    }
    println!("attempts a second, going back {:12.0}", rate(done, began));
    let (began, mut done) = (Instant::now(), 0);
    while began.elapsed() < TRIED {
        let kernel = Kernel::builder().image(image).boot()?;
        let undo = ram.clone().remember()?;
        let disk = kernel.add_disk(ram.clone(), &DiskOptions::new())?;
        attempt(&kernel, &ram, &disk.device(), done)?;
        drop((disk, kernel));
        undo.undo()?;
        done += 1;
    }
    println!("the same, starting anew       {:12.0}", rate(done, began));
    Ok(())
}

fn rate(done: u64, since: Instant) -> f64 {
    done as f64 / since.elapsed().as_secs_f64()
}

fn micros(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e6
}

/// What this thread has used of the processor, in µs: others may want it, too.
fn processor() -> f64 {
    // SAFETY: a plain structure of ours.
    let used = unsafe {
        let mut used = std::mem::zeroed::<libc::timespec>();
        libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut used);
        used
    };
    used.tv_sec as f64 * 1e6 + used.tv_nsec as f64 / 1e3
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let (Some(image), Some(path)) = (words.next(), words.next()) else {
        return Err("usage: checkpoint IMAGE DISK".into());
    };
    let disk = disk_of(&path)?;
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
    let (began, used) = (Instant::now(), processor());
    let mut checkpoint = kernel.checkpoint()?;
    tell("the first checkpoint", vec![micros(began)]);
    tell("  of the processor", vec![processor() - used]);

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
    drop(kernel);
    attempts(&image, &path)
}
