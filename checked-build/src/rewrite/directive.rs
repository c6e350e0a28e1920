//! The assembler's directives: frames, files and lines, and sections.

use super::{way, Rewriter};
use crate::frame::Frame;
use crate::Error;

/// More than a source includes.
const MOST_FILES: usize = 1 << 16;

/// Sections with addresses of constructors, and of destructors.
pub const INIT: &str = ".init_array";
pub const FINI: &str = ".fini_array";

/// Whether a section is one of these, with a priority or without.
pub fn is_of(section: &str, array: &str) -> bool {
    let rest = section.strip_prefix(array);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

impl Rewriter {
    pub(super) fn ends_in_call(&mut self) {
        if let Some((at, labels)) = self.called.take() {
            self.gaps += 1;
            self.out
                .insert_str(at, &format!("ud2\n.Lgap{}:\n", self.gaps));
            self.stopped = true;
            self.waiting = labels;
        }
    }

    /// Of labels that only later jumps lead to. GCC tells of the frame behind them.
    pub(super) fn declare_heights(&mut self) {
        let pushes = self.frame.height();
        // What the assembler fills the gap before them with leads there, too.
        let gap = format!(".Lgap{}", self.gaps);
        let labels = std::mem::take(&mut self.waiting);
        let gap = labels.first().map(|_| gap);
        for label in labels.iter().chain(&gap).filter(|_| pushes > 0) {
            self.declare_height(label, pushes);
        }
    }

    /// Where in the code a line of the source begins, for those who ask at a trap.
    pub(super) fn declare_line(&mut self) {
        if !std::mem::take(&mut self.begins_line) {
            return;
        }
        self.lines += 1;
        let (label, file, line) = (format!(".Ltmodline{}", self.lines), self.file, self.place.1);
        self.emit(format!("{label}:\n.pushsection .tmod.lines,\"\",@progbits"));
        self.emit(format!(".quad {label}\n.long {file}, {line}\n.popsection"));
    }

    /// By their numbers, each with a zero behind it.
    pub(super) fn name_files(&mut self) {
        let number = |(number, _): &(String, String)| number.parse::<usize>().ok();
        let most = self.files.iter().filter_map(number).max().unwrap_or(0);
        self.emit(".section .tmod.files,\"\",@progbits");
        for wanted in 0..=most.min(MOST_FILES) {
            let found = self.files.iter().find(|file| number(file) == Some(wanted));
            let name = found.map_or(String::new(), |(_, name)| name.clone());
            self.emit(format!(".asciz \"{name}\""));
        }
    }

    pub(super) fn directive(&mut self, line: &str, word: &str, rest: &str) -> Result<(), Error> {
        match word {
            ".cfi_endproc" | ".cfi_restore_state" | ".cfi_def_cfa_offset" | ".cfi_def_cfa" => {
                self.ends_in_call();
            }
            _ => {}
        }
        if self.stopped && self.told_anew(word, rest)? {
            return Ok(());
        }
        match word {
            ".file" => self.file(rest),
            ".loc" => {
                let mut numbers = rest.split_ascii_whitespace().filter_map(|n| n.parse().ok());
                let (file, line) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
                let name = self
                    .files
                    .iter()
                    .find(|(number, _)| *number == file.to_string());
                let name = name.map_or(String::new(), |(_, name)| name.clone());
                self.place = (name, line);
                self.file = file as usize;
                self.begins_line = true;
            }
            ".cfi_startproc" | ".cfi_endproc" => {
                self.within = word == ".cfi_startproc";
                let flat = self.within && self.flat.pop().unwrap_or(false);
                (self.frame, self.before) = (Frame::begin(flat), None);
                self.stopped = false;
            }
            // It stands between an instruction and what that does to the frame.
            ".cfi_remember_state" => {
                let frame = self.before.as_ref().unwrap_or(&self.frame);
                self.remembered.push(frame.clone());
            }
            ".cfi_def_cfa_offset" | ".cfi_def_cfa" => self.before = None,
            ".cfi_restore_state" => self.frame = self.remembered.pop().unwrap_or_default(),
            _ if word.starts_with(".cfi_") || word == ".ident" => {}
            ".section" | ".text" | ".data" | ".bss" => {
                let name = if word == ".section" { rest } else { word };
                let parts = [".text", ".data", ".bss", ".rodata"];
                if name.starts_with(".tdata") || name.starts_with(".tbss") {
                    return self.error("thread-local variables are not supported");
                }
                if name.starts_with(".ctors") || name.starts_with(".preinit_array") {
                    return self.error("constructors of this kind are not supported: call them");
                }
                let section = name.split(',').next().unwrap_or_default();
                let is_array = |array| is_of(section.trim_matches('"'), array);
                self.kept = parts.iter().any(|part| name.starts_with(part))
                    || is_array(INIT)
                    || is_array(FINI);
                if self.kept {
                    self.emit(line);
                }
            }
            _ if self.kept => {
                self.emit(line);
                // The linker gives it a slot of the table.
                if let Some(label) = way(line).filter(|_| self.within) {
                    self.declare_height(label, 0);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn declare_height(&mut self, label: &str, pushes: usize) {
        self.emit(".pushsection .tmod.heights,\"\",@progbits");
        self.emit(format!(".quad {label}\n.long {pushes}\n.popsection"));
    }

    /// `.file 1 "dir" "name"` or `.file 1 "name"`
    fn file(&mut self, rest: &str) {
        let Some((number, names)) = rest.split_once(' ') else {
            return;
        };
        if let Some(name) = names.split('"').rfind(|part| !part.trim().is_empty()) {
            self.files.push((number.into(), name.into()));
        }
    }
}
