//! What a call costs by a worker and by a kernel in this process, in turn, medians.
//! usage: worker_cost IMAGE FILE

use std::time::Instant;
use tane_worker::Options;

const TURNS: usize = 7;
const CALLS: u32 = 500;

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}

fn each(call: impl Fn()) -> f64 {
    let start = Instant::now();
    (0..CALLS).for_each(|_| call());
    start.elapsed().as_secs_f64() * 1e6 / f64::from(CALLS)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args_os().skip(1);
    let (Some(disk), Some(name)) = (args.next(), args.next()) else {
        return Err("usage: worker_cost IMAGE FILE".into());
    };
    let image = Options::new().open(&disk)?;
    let there = image.mount(None, &Default::default())?;
    let there = there.open_file(&name, libc::O_RDONLY, 0)?;
    let image = tane::Image::open(&disk)?;
    let here = image.mount(None, &tane::MountOptions::new())?;
    let here = here.open(&name)?;
    for len in [64, 4096, 65536, 1 << 20] {
        let (mut a, mut b) = (Vec::new(), Vec::new());
        let room = std::cell::RefCell::new(vec![0; len]);
        for _ in 0..TURNS {
            b.push(each(|| drop(here.read_at(&mut room.borrow_mut(), 0))));
            a.push(each(|| drop(there.pread(&mut room.borrow_mut(), 0))));
        }
        let (a, b) = (median(a), median(b));
        println!(
            "pread of {len:7} bytes: worker {a:8.2} us, here {b:8.2} us, ratio {:.1}",
            a / b
        );
    }
    Ok(())
}
