//! `--trace`: the system calls of programs as they are made, a line for each, as strace(1)
//! has them with -f and -T.
//!
//! ```text
//! trace/signatures.txt  what the arguments of each call are
//! trace/signatures.rs   the same, read
//! trace/decode.rs       an argument as text
//! trace/names.rs        names of flags, errors and signals
//! ```
//!
//! What a call reads is shown when it begins, and what it writes when it is over. If another
//! thread's call comes in between, the line ends with `<unfinished ...>`, and goes on in
//! one of its own.

mod decode;
mod names;
mod signatures;

use crate::tell;
use crate::verbs::syscall;
use decode::{show, Reader};
use serde_json::json;
use signatures::{Parameter, Signatures};
use std::fs::File;
use std::io::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tane::programs::{CallEnd, ProgramCall, ProgramTracer};

/// Shows calls in a file, or on standard error.
pub struct Trace {
    signatures: Signatures,
    is_json: bool,
    state: Mutex<State>,
}

struct State {
    file: Option<File>,
    /// Whose line has no end yet.
    open: Option<u32>,
}

impl State {
    /// What cannot be written any more, such as to a full disk, is lost: the program is not
    /// to suffer from it.
    fn write(&mut self, text: &str) {
        let _ = match &mut self.file {
            Some(file) => file.write_all(text.as_bytes()),
            None => std::io::stderr().write_all(text.as_bytes()),
        };
    }

    /// Nobody's line is open.
    fn interrupt(&mut self) {
        if self.open.take().is_some() {
            self.write(" <unfinished ...>\n");
        }
    }
}

impl Trace {
    /// `None`: standard error.
    pub fn new(file: Option<File>) -> Self {
        Self {
            signatures: Signatures::new(),
            is_json: tell::is_json(),
            state: Mutex::new(State { file, open: None }),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self, thread: u32, text: &str) {
        let mut state = self.state();
        state.interrupt();
        state.open = Some(thread);
        state.write(&format!("[{thread}] {text}"));
    }

    fn end(&self, thread: u32, name: &str, text: &str) {
        let mut state = self.state();
        if state.open != Some(thread) {
            state.interrupt();
            state.write(&format!("[{thread}] <... {name} resumed>"));
        }
        state.open = None;
        state.write(&format!("{text}\n"));
    }

    fn tell_json(&self, call: &ProgramCall, name: &str, words: &[String], end: &End) {
        let mut told = json!({"thread": call.thread, "call": name, "arguments": words});
        let nanoseconds = u64::try_from(end.passed.as_nanos()).unwrap_or(u64::MAX);
        match end.how {
            CallEnd::Returned(value) => told["result"] = json!(value),
            CallEnd::Elsewhere => {}
        }
        if let Some(errno) = end.errno() {
            told["error"] = json!(names::error(errno));
        }
        told["nanoseconds"] = json!(nanoseconds);
        let line = json!({ "trace": told });
        self.state().write(&format!("{line}\n"));
    }
}

struct End {
    how: CallEnd,
    passed: Duration,
}

impl End {
    fn errno(&self) -> Option<i32> {
        match self.how {
            CallEnd::Returned(value @ -4095..=-1) => i32::try_from(-value).ok(),
            _ => None,
        }
    }

    fn text(&self, is_address: bool) -> String {
        let result = match (self.how, self.errno()) {
            (_, Some(errno)) => format!("-1 {} ({})", names::error(errno), names::said(errno)),
            (CallEnd::Returned(value), None) if is_address => format!("{value:#x}"),
            (CallEnd::Returned(value), None) => value.to_string(),
            (CallEnd::Elsewhere, None) => "?".into(),
        };
        format!(" = {result} <{:.6}>", self.passed.as_secs_f64())
    }

    /// The result, if there was one.
    fn value(&self) -> Option<u64> {
        match self.how {
            CallEnd::Returned(value) => u64::try_from(value).ok(),
            CallEnd::Elsewhere => None,
        }
    }
}

fn name_of(number: i64) -> String {
    let known = u32::try_from(number).ok().and_then(syscall::by_number);
    known.map_or_else(|| format!("syscall_{number:#x}"), str::to_owned)
}

impl ProgramTracer for Trace {
    fn call(&self, call: &ProgramCall, make: &mut dyn FnMut() -> CallEnd) {
        let name = name_of(call.number);
        let parameters = self.signatures.of(&name);
        let memory = |address, bytes: &mut [u8]| call.read(address, bytes);
        let reader = Reader {
            memory: &memory,
            args: &call.args,
        };
        let one = |at: usize, parameter: &Parameter, result| show(&reader, at, parameter, result);
        // Those up to the first that the call writes.
        let early = parameters.iter().position(|it| it.is_written);
        let early = early.unwrap_or(parameters.len());
        let before: Vec<_> = (0..early)
            .map(|at| one(at, &parameters[at], None))
            .collect();
        let is_last = matches!(name.as_str(), "exit" | "exit_group");
        if is_last && !self.is_json {
            // Who waits for the end may be faster than this thread.
            let words = before.join(", ");
            self.begin(call.thread, &format!("{name}({words})"));
            self.end(call.thread, &name, " = ?");
            make();
            return;
        }
        if is_last {
            let how = CallEnd::Elsewhere;
            let passed = Duration::ZERO;
            self.tell_json(call, &name, &before, &End { how, passed });
            make();
            return;
        }
        if !self.is_json {
            let words = before.join(", ");
            self.begin(call.thread, &format!("{name}({words}"));
        }
        let begun = Instant::now();
        let how = make();
        let passed = begun.elapsed();
        let end = End { how, passed };
        let late = early..parameters.len();
        let after: Vec<_> = late
            .map(|at| one(at, &parameters[at], Some(end.value())))
            .collect();
        if self.is_json {
            let words = [before, after].concat();
            self.tell_json(call, &name, &words, &end);
            return;
        }
        let comma = match before.is_empty() || after.is_empty() {
            true => "",
            false => ", ",
        };
        let is_address = matches!(name.as_str(), "mmap" | "mremap" | "brk");
        let text = format!("{comma}{}){}", after.join(", "), end.text(is_address));
        self.end(call.thread, &name, &text);
    }
}
