//! Texts of a process, and their patches.

use super::gate;
use super::remote::{mappings, Mapping, Task};
use super::{process, Rig, DISTANCE, RUNTIME};
use std::io::{self, Error};
use tane_rewrite::{find, Elf, Layout, Plan, Version, When};

/// A text that is patched in a process.
#[derive(Clone, Debug)]
pub(super) struct Text {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) trampolines: u64,
    pub(super) file: String,
    pub(super) key: tane_rewrite::Key,
    pub(super) plan: std::rc::Rc<Plan>,
}

impl Text {
    fn is_patched(&self, task: Task) -> bool {
        let mut bytes = [0; 5];
        let mut now = self
            .plan
            .patches
            .iter()
            .filter(|it| it.when == When::Mapping);
        now.next().is_some_and(|patch| {
            let at = self.start + u64::from(patch.at);
            task.read(at, &mut bytes).is_ok() && bytes == patch.new
        })
    }
}

impl Rig {
    /// Patches what is mapped and not patched yet.
    pub(super) fn patch(&mut self, task: Task) -> io::Result<()> {
        let all = mappings(task)?;
        let pid = process(task.0);
        let mut texts = self.texts.remove(&pid).unwrap_or_default();
        // Another file may be where one was, or the same one again.
        texts.retain(|text| {
            let same = |it: &Mapping| it.start == text.start && it.path == text.file;
            all.iter().any(same) && text.is_patched(task)
        });
        for it in all.iter().filter(|it| it.code && it.inode != 0) {
            if texts.iter().any(|text| text.start == it.start) || it.start == RUNTIME {
                continue;
            }
            texts.extend(self.patch_one(task, it, &all)?);
        }
        self.texts.insert(pid, texts);
        Ok(())
    }

    fn patch_one(&mut self, task: Task, it: &Mapping, all: &[Mapping]) -> io::Result<Option<Text>> {
        let change = std::fs::metadata(&it.path).map(|file| {
            use std::os::unix::fs::MetadataExt;
            (
                file.dev(),
                file.ctime() as u64 * 1_000_000_000 + file.ctime_nsec() as u64,
            )
        });
        let Ok((device, change)) = change else {
            return Ok(None);
        };
        let version = Version::Inode {
            device,
            inode: it.inode,
            change,
        };
        let key = (version, it.offset);
        let size = (it.end - it.start) as usize;
        let mut code = vec![0; size];
        task.read(it.start, &mut code)?;
        let distance = if it.start < 1 << 31 {
            -DISTANCE
        } else {
            DISTANCE
        };
        let known = self.cache.get(key.clone(), || {
            let file = std::fs::read(&it.path).unwrap_or_default();
            let functions = Elf::parse(&file).map(|elf| {
                let Some(own) = elf
                    .segments
                    .iter()
                    .find(|s| s.offset as u64 & !0xfff == it.offset)
                else {
                    return Vec::new();
                };
                let base = own.address - (own.offset as u64 - it.offset);
                elf.functions
                    .iter()
                    .map(|at| at.wrapping_sub(base))
                    .collect()
            });
            find(&code, 0, &functions.unwrap_or_default())
        });
        let plan_key = (key.clone(), distance, known.proven.len());
        let plan = self.plans.entry(plan_key).or_insert_with(|| {
            let layout = Layout {
                distance,
                room: 1 << 20,
                gates: gate::GATES,
            };
            Plan::new(&code, &known.sites, &known.proven, layout).into()
        });
        if plan.trampolines.is_empty() {
            return Ok(None);
        }
        let plan = std::rc::Rc::clone(plan);
        let stub = RUNTIME + gate::at::toy_remote();
        let rwx = (libc::PROT_READ | libc::PROT_EXEC) as u64;
        let own = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        let place = it.start.wrapping_add_signed(distance);
        let length = plan.trampolines.len() as u64;
        // Trampolines of what is gone may be there, and nothing else.
        let mut there = all
            .iter()
            .filter(|it| it.start < place + length && place < it.end);
        if let Some(it) = there.find(|it| !it.code || !it.path.is_empty()) {
            return Err(Error::other(format!(
                "{it:x?} is where trampolines would be"
            )));
        }
        let region = [place, length, rwx, own as u64, u64::MAX, 0];
        task.call(stub, libc::SYS_mmap, region)?;
        task.write(place, &plan.trampolines)?;
        plan.apply(&mut code)
            .map_err(|e| Error::other(format!("{}: {e}", it.path)))?;
        task.write(it.start, &code)?;
        Ok(Some(Text {
            start: it.start,
            end: it.end,
            trampolines: place,
            file: it.path.clone(),
            key,
            plan,
        }))
    }
}
