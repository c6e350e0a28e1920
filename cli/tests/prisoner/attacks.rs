//! Attacks on the host, as a table (attacks.txt), and what becomes of them.

use super::filter::{Filters, Verdict, I386, X86_64};
use super::{names, Outcome, Prisoner};
use std::collections::BTreeSet;
use std::ffi::CString;
use std::path::Path;

/// `FIRST` of host/src/provisions.rs.
const KERNEL: u64 = 40;

/// The lowest descriptor of a file, but for kernel images and what the standard ones are.
fn a_file(pid: u32) -> Option<u64> {
    let all = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("its files");
    let files = all.flatten().filter(|fd| {
        let found = fd.path().metadata();
        found.is_ok_and(|found| found.is_file())
    });
    let numbers = files.filter_map(|fd| fd.file_name().to_str()?.parse().ok());
    numbers.filter(|fd| (3..KERNEL).contains(fd)).min()
}

/// Tries all in a process of this class, which has so many filters; what is wrong with what
/// becomes of them. Of those that end the process, each takes a new one: one for each call
/// is done, or one in all. `place`: a directory outside of what it was given. `start` gives
/// what holds the process, and its number.
pub fn try_all<Held>(
    class: char,
    filters: usize,
    each_call: bool,
    place: &Path,
    start: impl Fn() -> (Held, u32),
) -> Vec<String> {
    let all = all();
    let mut wrong = Vec::new();
    let (held, pid) = start();
    let mut thread = Prisoner::behind(pid, filters);
    let found = Filters::of(&thread);
    let mut deadly = Vec::new();
    for attack in &all {
        if attack.kills(&found, &thread, pid, place) {
            deadly.push(attack);
        } else {
            wrong.extend(attack.run(&mut thread, &found, pid, class, place));
            assert!(thread.is_alive(), "{class}: {}", attack.line);
        }
    }
    drop((thread, held));
    let mut calls = BTreeSet::new();
    deadly.retain(|attack| calls.insert(if each_call { attack.call } else { "" }));
    assert!(!deadly.is_empty());
    for attack in deadly {
        let (held, pid) = start();
        let mut thread = Prisoner::behind(pid, filters);
        wrong.extend(attack.run(&mut thread, &found, pid, class, place));
        drop((thread, held));
    }
    wrong
}

/// A system call, and the classes of jail in which it may succeed.
pub struct Attack {
    pub line: &'static str,
    allowed: &'static str,
    pub call: &'static str,
    arguments: Vec<&'static str>,
}

/// All of them.
pub fn all() -> Vec<Attack> {
    let lines = include_str!("attacks.txt").lines();
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    let parse = |line: &'static str| {
        let (words, what) = line.split_once("  # ").expect("what it is");
        assert!(!what.is_empty());
        let mut words = words.split_whitespace();
        let (allowed, call) = (words.next(), words.next());
        Attack {
            line,
            allowed: allowed.expect("classes").trim_matches('-'),
            call: call.expect("a call"),
            arguments: words.collect(),
        }
    };
    lines.map(parse).collect()
}

impl Attack {
    fn number(&self) -> (u32, u32) {
        let number = |name: &str| {
            let hex = name.strip_prefix("0x");
            let hex = hex.and_then(|hex| u32::from_str_radix(hex, 16).ok());
            hex.or_else(|| names::number(name))
                .unwrap_or_else(|| panic!("no call: {}", self.line))
        };
        match self.call.strip_prefix("int80:") {
            Some(call) => (I386, number(call)),
            None => (X86_64, number(self.call)),
        }
    }

    /// Its arguments, whose texts are put into the prisoner's memory. `place`: a directory
    /// outside of what the command was given.
    fn arguments(&self, thread: &Prisoner, pid: u32, place: &Path) -> Vec<u64> {
        let mut texts = 0;
        let mut text = |text: &str| {
            let text = text.replace("$S", place.to_str().expect("UTF-8"));
            let text = CString::new(text).expect("no NUL");
            texts += 1;
            thread.poke(thread.room + 512 * texts, &text)
        };
        let argument = |word: &&str| match *word {
            "HERE" => libc::AT_FDCWD as u64,
            "NONE" => u64::MAX,
            "FILE" => a_file(pid).unwrap_or(u64::MAX),
            "KERNEL" => KERNEL,
            "ME" => pid.into(),
            "PARENT" => std::process::id().into(),
            // Behind all texts.
            "ZEROS" => thread.room + 16384,
            "ONES" => {
                let at = thread.room + 12288;
                thread.write(at, &[0xff; 64]);
                at
            }
            word if word.starts_with('"') => text(word.trim_matches('"')),
            word => {
                let hex = word.strip_prefix("0x");
                let hex = hex.map(|hex| u64::from_str_radix(hex, 16));
                let number = hex.unwrap_or_else(|| word.parse::<i64>().map(|n| n as u64));
                number.unwrap_or_else(|e| panic!("{word}: {e}: {}", self.line))
            }
        };
        self.arguments.iter().map(argument).collect()
    }

    /// Whether it would end the process.
    pub fn kills(&self, filters: &Filters, thread: &Prisoner, pid: u32, place: &Path) -> bool {
        let (architecture, number) = self.number();
        let arguments = self.arguments(thread, pid, place);
        filters.judge(architecture, number, &arguments) == Verdict::Killed
    }

    /// Has the prisoner do it; what is wrong with the outcome. What the filters should
    /// have stopped is not tried.
    pub fn run(
        &self,
        thread: &mut Prisoner,
        filters: &Filters,
        pid: u32,
        class: char,
        place: &Path,
    ) -> Option<String> {
        let (architecture, number) = self.number();
        let arguments = self.arguments(thread, pid, place);
        let verdict = filters.judge(architecture, number, &arguments);
        let may = self.allowed.contains(class) || self.allowed == "*";
        let is_harmless = self.call.starts_with("open") || self.allowed.contains('!');
        if verdict == Verdict::Allowed && !may && !is_harmless {
            return Some(format!("{class}: the filter lets it pass: {}", self.line));
        }
        let outcome = match architecture {
            X86_64 => thread.call(number.into(), &arguments),
            _ => thread.call_of_32_bits(number.into(), &arguments),
        };
        let is_right = match (verdict, &outcome) {
            (Verdict::Killed, Outcome::Killed(signal)) => *signal == libc::SIGSYS,
            (Verdict::Fails(errno), Outcome::Returned(n)) => *n == -i64::from(errno) && !may,
            (Verdict::Allowed, Outcome::Returned(n)) => may != (-4095..0).contains(n),
            _ => false,
        };
        let wrong = || format!("{class}: {verdict:?}, {outcome:?}: {}", self.line);
        (!is_right).then(wrong)
    }
}
