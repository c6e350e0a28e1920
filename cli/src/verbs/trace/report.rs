//! A record on standard error or in a file: never among what the verb writes.

use super::{programs, Form};
use crate::failure::{Failure, Result, SOME_FAILED};
use crate::names::plain;
use crate::session::spare;
use crate::session::Global;
use crate::tell;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use tane_lab::{quoted, Event, Record, Thread};

/// Where a record goes, open since before the jail.
pub struct Output(Option<(File, String)>);

impl Output {
    /// Standard error without a path.
    pub fn open(path: Option<&Path>, global: &Global) -> Result<Output> {
        let Some(path) = path else {
            return Ok(Output(None));
        };
        spare::spare(path, "", global)?;
        let file = File::create(path).map_err(|e| Failure::of_host(path, &e))?;
        Ok(Output(Some((
            file,
            plain(path.as_os_str().as_bytes()).to_string(),
        ))))
    }

    pub fn write(self, text: &str) -> Result<()> {
        let (done, name) = match self.0 {
            Some((mut file, name)) => (file.write_all(text.as_bytes()), name),
            None => (
                io::stderr().write_all(text.as_bytes()),
                "standard error".into(),
            ),
        };
        match done {
            // Who read it has left.
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            Err(e) => Err(Failure::new(SOME_FAILED, format!("{name}: {e}"))),
            Ok(()) => Ok(()),
        }
    }
}

/// Says what is missing in a record.
pub fn tell_losses(record: &Record) {
    if record.lost_calls > 0 {
        let text = format!("{} events of calls lost, the oldest", record.lost_calls);
        tell::warning(&format!("{text}: --buffer says how much is kept"));
    }
    if record.lost_events > 0 {
        let text = format!("{} events lost, the oldest", record.lost_events);
        tell::warning(&format!("{text}: --buffer says how much is kept"));
    }
    if record.lost_hits > 0 {
        let n = record.lost_hits;
        tell::warning(&format!(
            "{n} hits lost: another probe was at work on that CPU"
        ));
    }
}

/// How a record is written.
pub struct Report {
    pub form: Form,
    /// In ns.
    pub least: Option<u64>,
}

impl Report {
    pub fn write(&self, record: &Record, output: Output) -> Result<()> {
        let is_drawn = matches!(self.form, Form::Chrome | Form::Flame);
        if is_drawn && !record.programs.is_empty() {
            tell::warning("what programs found out is not drawn: --as text or json has it");
        }
        let text = match self.form {
            Form::Text => self.text(record),
            Form::Json => json(record),
            Form::Chrome => record.chrome(),
            Form::Flame => record.flame(self.least(record)),
        };
        tell_losses(record);
        output.write(&text)
    }

    fn least(&self, record: &Record) -> u64 {
        /// Of what took longest.
        const PART: u64 = 200;
        let longest = || {
            record
                .threads
                .iter()
                .map(|thread| thread.calls.tree().total)
                .max()
        };
        self.least.unwrap_or_else(|| longest().unwrap_or(0) / PART)
    }

    fn text(&self, record: &Record) -> String {
        let least = self.least(record);
        let mut text = String::new();
        if record.threads.is_empty() && record.programs.is_empty() {
            text += "no calls\n";
        }
        for thread in &record.threads {
            let count = thread.calls.calls.len();
            let _ = writeln!(
                text,
                "thread {} ({}): {count} calls",
                thread.id, thread.name
            );
            text += &thread.calls.tree().text(least);
        }
        if !record.events.is_empty() {
            let _ = writeln!(text, "{:>14} {:>8}  event", "at µs", "thread");
        }
        for event in &record.events {
            text += &line(event);
        }
        for (_, data) in &record.programs {
            text += &programs::text(data);
        }
        text
    }
}

/// For people. Of an image are names in it.
pub fn line(event: &Event) -> String {
    let (micro, thread) = (event.time / 1000, event.thread);
    let mut text = format!("{micro:>14} {thread:>8}  {}:", event.name);
    if !event.text.is_empty() {
        let _ = write!(text, " {}", plain(event.text.as_bytes()));
    }
    text.push('\n');
    for function in &event.stack {
        let _ = writeln!(text, "{:>27}{function}", "");
    }
    text
}

fn json(record: &Record) -> String {
    let mut text: String = record.threads.iter().map(calls).collect();
    text.extend(record.events.iter().map(event));
    text.extend(record.programs.iter().map(programs::json));
    let count: usize = record
        .threads
        .iter()
        .map(|thread| thread.calls.calls.len())
        .sum();
    let _ = writeln!(
        text,
        "{{\"trace\":{{\"calls\":{count},\"events\":{},\"lost_calls\":{},\"lost_events\":{}}}}}",
        record.events.len(),
        record.lost_calls,
        record.lost_events
    );
    text
}

fn calls(thread: &Thread) -> String {
    let mut text = String::new();
    for (n, call) in thread.calls.calls.iter().enumerate() {
        let errno = call
            .errno()
            .map_or("null".into(), |errno| errno.to_string());
        let _ = writeln!(
            text,
            "{{\"call\":{{\"thread\":{},\"thread_name\":{},\"function\":{},\"depth\":{},\
             \"start\":{},\"total\":{},\"own\":{},\"value\":\"{:#x}\",\"errno\":{errno}}}}}",
            thread.id,
            quoted(&thread.name),
            quoted(&call.function),
            call.depth,
            call.start,
            call.duration,
            thread.calls.own(n),
            call.value
        );
    }
    text
}

/// A line for a program.
pub fn event(event: &Event) -> String {
    let stack: Vec<_> = event
        .stack
        .iter()
        .map(|function| quoted(function))
        .collect();
    format!(
        "{{\"event\":{{\"time\":{},\"thread\":{},\"cpu\":{},\"name\":{},\"text\":{},\
         \"stack\":[{}]}}}}\n",
        event.time,
        event.thread,
        event.cpu,
        quoted(&event.name),
        quoted(&event.text),
        stack.join(",")
    )
}
