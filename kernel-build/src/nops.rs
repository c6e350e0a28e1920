// SPDX-License-Identifier: GPL-2.0-only
//! The room for a call at each function's start, five instructions of one byte as
//! compilers leave it, made one instruction of five: a thread that was between two
//! of them would go on in the middle of the call that is written there.

use std::fs;
use std::path::Path;

use crate::Result;

const APART: [u8; 5] = [0x90; 5];
const JOINED: [u8; 5] = [0x0f, 0x1f, 0x44, 0x00, 0x00];
const SYMBOLS: u32 = 2;

/// Join them in an image that has any, in place; how many it has.
pub fn join(vmlinux: &Path) -> Result<usize> {
    let failed = |e: std::io::Error| format!("{}: {e}", vmlinux.display());
    let mut elf = Elf(fs::read(vmlinux).map_err(failed)?);
    let sites = elf
        .sites()
        .map_err(|e| format!("{}: {e}", vmlinux.display()))?;
    let mut apart = 0;
    for &site in &sites {
        let at = elf.place(site).unwrap_or(usize::MAX - JOINED.len());
        match elf.0.get_mut(at..at + JOINED.len()) {
            Some(bytes) if bytes == APART => {
                bytes.copy_from_slice(&JOINED);
                apart += 1;
            }
            Some(bytes) if bytes == JOINED => {}
            _ => {
                let name = vmlinux.display();
                return Err(format!("{name}: no room for a call at {site:#x}"));
            }
        }
    }
    if apart > 0 {
        fs::write(vmlinux, &elf.0).map_err(failed)?;
    }
    Ok(sites.len())
}

/// A 64-bit ELF file that our own linker has written.
struct Elf(Vec<u8>);

struct Section {
    kind: u32,
    allocated: bool,
    address: u64,
    at: usize,
    len: usize,
    link: usize,
}

impl Elf {
    fn word(&self, at: usize, len: usize) -> Result<u64> {
        let bytes = at.checked_add(len).and_then(|end| self.0.get(at..end));
        let bytes = bytes.ok_or("the file ends too early")?;
        Ok(bytes.iter().rev().fold(0, |n, &b| n << 8 | u64::from(b)))
    }

    fn sections(&self) -> Result<Vec<Section>> {
        let table = self.word(40, 8)? as usize;
        (0..self.word(60, 2)? as usize)
            .map(|n| {
                let at = table.saturating_add(n * 64);
                Ok(Section {
                    kind: self.word(at + 4, 4)? as u32,
                    allocated: self.word(at + 8, 8)? & 2 != 0,
                    address: self.word(at + 16, 8)?,
                    at: self.word(at + 24, 8)? as usize,
                    len: self.word(at + 32, 8)? as usize,
                    link: self.word(at + 40, 4)? as usize,
                })
            })
            .collect()
    }

    /// Where in the file the byte at an address is.
    fn place(&self, address: u64) -> Option<usize> {
        const NOTHING: u32 = 8;
        let sections = self.sections().ok()?;
        let section = sections.iter().find(|s| {
            let inside = (s.address..s.address.saturating_add(s.len as u64)).contains(&address);
            s.allocated && s.kind != NOTHING && inside
        })?;
        Some(section.at + (address - section.address) as usize)
    }

    fn symbol(&self, sections: &[Section], name: &str) -> Result<Option<u64>> {
        let Some(table) = sections.iter().find(|s| s.kind == SYMBOLS) else {
            return Ok(None);
        };
        let names = sections.get(table.link).ok_or("no names of symbols")?;
        let wanted = [name.as_bytes(), &[0]].concat();
        for at in (table.at..table.at + table.len).step_by(24) {
            let text = names.at + self.word(at, 4)? as usize;
            if self.0.get(text..text + wanted.len()) == Some(&wanted[..]) {
                return self.word(at + 8, 8).map(Some);
            }
        }
        Ok(None)
    }

    /// The starts of functions with such room, as the table of them has them before it is
    /// relocated.
    fn sites(&self) -> Result<Vec<u64>> {
        let sections = self.sections()?;
        let table = (
            self.symbol(&sections, "__start_mcount_loc")?,
            self.symbol(&sections, "__stop_mcount_loc")?,
        );
        let (Some(start), Some(stop)) = table else {
            return Ok(Vec::new());
        };
        let place = |at| self.place(at).ok_or("its table of functions is not in it");
        (start..stop)
            .step_by(8)
            .map(|at| self.word(place(at)?, 8))
            .collect()
    }
}
