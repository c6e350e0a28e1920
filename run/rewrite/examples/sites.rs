//! How many system calls of each class there are in files: `sites FILE...`.

use std::collections::BTreeMap;
use tane_rewrite::{find, Class, Counts, Elf};

fn main() {
    let mut failed = false;
    println!(
        "{:<60} {:>5} {:>5} {:>5} {:>5} {:>5}",
        "file", "all", "a", "b", "c", "none"
    );
    for name in std::env::args().skip(1) {
        let read = std::fs::read(&name).map_err(|e| e.to_string());
        let elf = read.and_then(|file| Ok((Elf::parse(&file).map_err(|e| e.to_string())?, file)));
        let (elf, file) = match elf {
            Ok(both) => both,
            Err(e) => {
                eprintln!("{name}: {e}");
                failed = true;
                continue;
            }
        };
        let mut sites = Vec::new();
        for segment in &elf.segments {
            let code = &file[segment.offset..][..segment.size];
            sites.extend(find(code, segment.address, &elf.functions));
        }
        let c = Counts::of(&sites);
        println!(
            "{name:<60} {:>5} {:>5} {:>5} {:>5} {:>5}",
            c.all, c.number, c.error, c.movable, c.stays
        );
        let mut why = BTreeMap::new();
        for site in &sites {
            if let Class::Stays(reason) = site.class {
                *why.entry(reason).or_insert(0) += 1;
            }
        }
        if !why.is_empty() {
            println!("    none: {why:?}");
        }
    }
    std::process::exit(i32::from(failed));
}
