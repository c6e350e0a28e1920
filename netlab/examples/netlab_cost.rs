//! What a laboratory costs: so many kernels in a row, each with its cable to the next one. How
//! long they took to start, by the host's clock and of its processors, and what memory this
//! process then has for itself (the image's pages, which all share, counted once: Pss).
//!
//! cargo run --release -p tane-netlab --example netlab_cost -- IMAGE [KERNELS]

use std::path::Path;
use std::time::Instant;
use tane_netlab::{Lab, Options, Plan};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let image = words.next().ok_or("IMAGE [KERNELS]")?;
    let count: usize = words.next().map_or(Ok(100), |word| word.parse())?;
    let nodes = (0..count).map(|n| format!("[[node]]\nname = \"n{n}\"\nmemory = \"32M\"\n"));
    let links = (1..count).map(|n| format!("[[link]]\nbetween = [\"n{}\", \"n{n}\"]\n", n - 1));
    let text: String = nodes.chain(links).collect();
    let plan = Plan::parse(Path::new("row"), &text)?;
    let options = Options {
        image: Some(image.into()),
        ..Options::default()
    };
    let before = pss()?;
    let (began, used) = (Instant::now(), processor()?);
    let lab = Lab::start(&plan, &options, &|| false)?;
    let (took, used) = (began.elapsed().as_secs_f64(), processor()? - used);
    let memory = (pss()? - before) as f64 / f64::from(1 << 20);
    println!("{count} kernels: {took:.3} s, {used:.3} s of processors, {memory:.0} MiB");
    let began = Instant::now();
    drop(lab);
    println!("to end them: {:.3} s", began.elapsed().as_secs_f64());
    Ok(())
}

/// What all threads have used, in seconds.
fn processor() -> std::io::Result<f64> {
    // SAFETY: plain data, which the call fills.
    let usage = unsafe {
        let mut usage = std::mem::zeroed::<libc::rusage>();
        if libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) != 0 {
            return Err(std::io::Error::last_os_error());
        }
        usage
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    Ok(seconds(usage.ru_utime) + seconds(usage.ru_stime))
}

/// In bytes.
fn pss() -> Result<u64, Box<dyn std::error::Error>> {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup")?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    Ok(number.ok_or("no Pss")?.parse::<u64>()? << 10)
}
