//! Signals of what runs patched: calls that the net caught, traps of sites, and frames that
//! show the program where it would be without us.

use super::remote::{mappings, Registers, Task};
use super::{gate, Rig, RUNTIME};
use std::io;
use tane_rewrite::live;

impl Rig {
    /// A signal is about to be delivered; the one that will be, or 0.
    pub(super) fn signal(&mut self, task: Task, signal: i32) -> io::Result<i32> {
        let mut registers = task.registers()?;
        if signal == libc::SIGSYS && self.caught(task, &mut registers)? {
            task.set_registers(&registers)?;
            return Ok(0);
        }
        if signal == libc::SIGTRAP {
            let at = registers.rip.wrapping_sub(1);
            let text = self
                .texts_of(task)
                .iter()
                .find(|text| (text.start..text.end).contains(&at));
            let to = text.and_then(|text| {
                Some(text.trampolines + u64::from(text.plan.resume((at - text.start) as u32)?))
            });
            if let Some(to) = to {
                self.seen.resumed += 1;
                registers.rip = to;
                task.set_registers(&registers)?;
                return Ok(0);
            }
        }
        if self.moved_out(task, &mut registers) {
            self.seen.moved_out += 1;
            task.set_registers(&registers)?;
        }
        Ok(signal)
    }

    /// A call by the net: it is proven to be code, and goes through the gate.
    fn caught(&mut self, task: Task, registers: &mut Registers) -> io::Result<bool> {
        let mut info = [0u8; 128];
        task.ptrace(libc::PTRACE_GETSIGINFO, 0, info.as_mut_ptr() as u64)?;
        if info[8..12] != 1i32.to_le_bytes() {
            return Ok(false);
        }
        let site = registers.rip - 2;
        let all = self.texts_of(task);
        let text = all
            .iter()
            .find(|text| (text.start..text.end).contains(&site))
            .cloned();
        let file = text.as_ref().map_or_else(
            || {
                let all = mappings(task).unwrap_or_default();
                let at = all
                    .into_iter()
                    .find(|it| (it.start..it.end).contains(&site));
                at.map_or("nowhere".into(), |it| it.path)
            },
            |text| text.file.clone(),
        );
        *self.seen.caught.entry(file).or_insert(0) += 1;
        registers.rcx = registers.rip;
        registers.rip = RUNTIME + gate::at::toy_net();
        if let Some(text) = text {
            let at = (site - text.start) as u32;
            self.cache.prove(&text.key, at);
            if let Some(patch) = text.plan.patch_of(at) {
                let stub = RUNTIME + gate::at::toy_remote();
                let first = text.start + u64::from(patch.at);
                for group in live::steps(patch) {
                    for (offset, byte) in group {
                        task.write(first + offset as u64, &[byte])?;
                    }
                    const SYNC_CORE: u64 = 1 << 5;
                    task.call(stub, libc::SYS_membarrier, [SYNC_CORE, 0, 0, 0, 0, 0])?;
                }
                if let Some(resume) = text.plan.resume(at + 2) {
                    registers.rcx = text.trampolines + u64::from(resume);
                }
            }
        }
        Ok(true)
    }

    /// If the task is in a trampoline or the gate, it is put where the program would be.
    fn moved_out(&self, task: Task, registers: &mut Registers) -> bool {
        let texts = self.texts_of(task);
        let original = |at: u64| {
            texts.iter().find_map(|text| {
                let offset = u32::try_from(at.checked_sub(text.trampolines)?).ok()?;
                Some(text.start + u64::from(text.plan.original(offset)?))
            })
        };
        if let Some(at) = original(registers.rip) {
            registers.rip = at;
            return true;
        }
        let offset = registers.rip.wrapping_sub(RUNTIME);
        if offset >= gate::at::toy_remote() {
            return false;
        }
        let r = &*registers;
        let it = gate::inside(offset, r.rax, r.rcx, r.r9, r.gs_base, |at| self.area(at));
        let behind = original(it.back).unwrap_or(it.back);
        registers.rcx = behind;
        registers.rip = if it.done { behind } else { behind - 2 };
        (registers.r9, registers.gs_base) = (it.r9, it.gs);
        true
    }
}
