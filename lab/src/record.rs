//! What was recorded of several threads: their calls, and events among them.

use crate::bpf::Data;
use crate::call::Calls;

/// Calls of one thread of the kernel's.
#[derive(Clone, Debug, Default)]
pub struct Thread {
    /// Its number in that kernel.
    pub id: u64,
    /// What it is called there.
    pub name: String,
    /// In the order in which they began.
    pub calls: Calls,
}

/// A tracepoint or a probe that was reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// When, in ns since the kernel booted; the kernel says it in whole µs.
    pub time: u64,
    /// Whose, by its number in that kernel.
    pub thread: u64,
    /// On which CPU.
    pub cpu: u32,
    /// Which: of a tracepoint without its group, of a probe the function.
    pub name: String,
    /// Its fields, in the kernel's words.
    pub text: String,
    /// Functions that were under way, the innermost first, if that was asked for: every
    /// address of code that was on the stack.
    pub stack: Vec<String>,
}

/// All that was recorded.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// Those with calls, by their numbers.
    pub threads: Vec<Thread>,
    /// By their times.
    pub events: Vec<Event>,
    /// What programs of BPF have found out, by their files.
    pub programs: Vec<(String, Data)>,
    /// Records of calls that had no room any more; each call takes one or two.
    pub lost_calls: u64,
    /// Events that had no room any more.
    pub lost_events: u64,
    /// Hits of probes and programs while another one was at work on the same CPU: there is no event.
    pub lost_hits: u64,
}

impl Event {
    /// The value of a field, which the kernel writes as `name=value`.
    pub fn field(&self, name: &str) -> Option<&str> {
        let mut words = self.text.split_whitespace();
        words.find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
    }
}

/// The events in the text of a file `trace`, in its order.
pub(crate) fn events(text: &str) -> Vec<Event> {
    let mut events: Vec<Event> = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        if let Some(function) = line.strip_prefix(" => ") {
            if let Some(event) = events.last_mut() {
                event.stack.push(function.trim().to_owned());
            }
        } else if let Some(event) = event(line) {
            // The stack of the one before.
            if event.name != "<stack trace>" {
                events.push(event);
            }
        }
    }
    events
}

/// `            tane-1     [000]     0.123456: name: fields`
fn event(line: &str) -> Option<Event> {
    let (task, rest) = line.split_once(" [")?;
    let (cpu, rest) = rest.split_once(']')?;
    let (time, rest) = rest.trim_start().split_once(": ")?;
    let (_, thread) = task.trim_end().rsplit_once('-')?;
    let (seconds, micro) = time.trim().rsplit(' ').next()?.split_once('.')?;
    let (seconds, micro): (u64, u64) = (seconds.parse().ok()?, micro.parse().ok()?);
    let (name, text) = match rest.split_once(": ") {
        Some(both) => both,
        None => (rest.trim_end_matches(':'), ""),
    };
    Some(Event {
        time: seconds * 1_000_000_000 + micro * 1000,
        thread: thread.parse().ok()?,
        cpu: cpu.parse().ok()?,
        name: name.trim().to_owned(),
        text: text.trim().to_owned(),
        stack: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# tracer: nop
#
            tane-1       [000] .....     0.123456: ext4_es_insert: dev 254,0 ino 2 a=1
            tane-1       [000] .....     0.123457: <stack trace>
 => ext4_map_blocks
 => vfs_read
CPU:0 [LOST 5 EVENTS]
   kworker/0:1-9       [001] d..1.    12.000001: p0: (vfs_write+0x0/0x1a0) size=3 aa=7
            tane-1       [000] .....    12.000002: empty:
";

    #[test]
    fn lines_of_the_kernel_are_events() {
        let events = events(TEXT);
        let names: Vec<_> = events.iter().map(|e| &e.name[..]).collect();
        assert_eq!(names, ["ext4_es_insert", "p0", "empty"]);
        assert_eq!(events[0].time, 123_456_000);
        assert_eq!((events[0].thread, events[0].cpu), (1, 0));
        assert_eq!(events[0].stack, ["ext4_map_blocks", "vfs_read"]);
        assert_eq!((events[1].thread, events[1].cpu), (9, 1));
        assert_eq!(events[1].time, 12_000_001_000);
        assert_eq!(events[1].field("size"), Some("3"));
        assert_eq!(events[1].field("a"), None);
        assert_eq!(events[2].text, "");
    }
}
