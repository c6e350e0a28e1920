//! What it costs that Linux is in another process: the same calls by this crate and by a
//! kernel in this process, in turn, medians of so many.
//! usage: jailed_cost IMAGE FILE DIRECTORY

use std::path::Path;
use std::time::Instant;
use tane_jailed::{direct, Image, MountOptions, Tree};

const TURNS: usize = 15;
const CALLS: u32 = 200;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}

/// In microseconds.
fn each(calls: u32, call: &mut dyn FnMut() -> Outcome<()>) -> Outcome<f64> {
    let start = Instant::now();
    for _ in 0..calls {
        call()?;
    }
    Ok(start.elapsed().as_secs_f64() * 1e6 / f64::from(calls))
}

type Call<'a> = &'a mut dyn FnMut() -> Outcome<()>;

fn compare(what: &str, calls: u32, there: Call, here: Call) -> Outcome<()> {
    let (mut a, mut b) = (Vec::new(), Vec::new());
    for _ in 0..TURNS {
        a.push(each(calls, there)?);
        b.push(each(calls, here)?);
    }
    let (a, b) = (median(a), median(b));
    println!("{what:32} jailed {a:9.1} us, here {b:9.1} us");
    Ok(())
}

fn list(tree: &Tree, path: &Path) -> Outcome<()> {
    for entry in tree.read_dir(path)? {
        entry?;
    }
    Ok(())
}

fn main() -> Outcome<()> {
    let args: Vec<_> = std::env::args_os().skip(1).collect();
    let [disk, name, dir] = &args[..] else {
        return Err("usage: jailed_cost IMAGE FILE DIRECTORY".into());
    };
    let dir = Path::new(dir);
    let options = MountOptions::new();
    compare(
        "open, mount, read, end",
        1,
        &mut || {
            let mount = Image::open(disk)?.mount(None, &options)?;
            mount.read(name)?;
            Ok(())
        },
        &mut || {
            let mount = direct::Image::open(disk)?.mount(None, &options)?;
            mount.read(name)?;
            Ok(())
        },
    )?;
    let there = Image::open(disk)?.mount(None, &options)?;
    let here = direct::Image::open(disk)?.mount(None, &options)?;
    let (there, here): (&Tree, &Tree) = (&there, &here);
    let do_both = |what: &str, call: fn(&Tree, &Path, &Path) -> Outcome<()>| {
        let name = Path::new(name);
        compare(what, CALLS, &mut || call(there, name, dir), &mut || {
            call(here, name, dir)
        })
    };
    do_both("metadata by path", |tree, name, _| {
        tree.metadata(name)?;
        Ok(())
    })?;
    do_both("read of a file by path", |tree, name, _| {
        tree.read(name)?;
        Ok(())
    })?;
    do_both("listing", |tree, _, dir| list(tree, dir))?;
    for len in [64, 4096, 65536] {
        let (a, b) = (there.open(name)?, here.open(name)?);
        let (mut to, mut other) = (vec![0; len], vec![0; len]);
        compare(
            &format!("read_at of {len} bytes"),
            CALLS,
            &mut || a.read_at(&mut to, 0).map(drop).map_err(Into::into),
            &mut || b.read_at(&mut other, 0).map(drop).map_err(Into::into),
        )?;
    }
    Ok(())
}
