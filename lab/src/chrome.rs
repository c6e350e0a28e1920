//! What was recorded as trace viewers read it: the trace event format of
//! chrome://tracing and Perfetto, with complete events and times in µs.

use crate::call::{micro, Call, Calls};
use crate::record::{Event, Record};
use std::fmt::Write;

/// All is one process's: the kernel's.
const PROCESS: u32 = 1;

impl Calls {
    /// The JSON that chrome://tracing and Perfetto read: complete events, times in µs.
    pub fn chrome(&self) -> String {
        let calls = self.calls.iter().map(|call| complete(1, call));
        document(calls, self.lost)
    }
}

impl Record {
    /// The JSON that chrome://tracing and Perfetto read: a track for each thread, calls as
    /// complete events, tracepoints and probes as instants, all by ascending times in µs.
    pub fn chrome(&self) -> String {
        let names = self.threads.iter().map(|thread| {
            format!(
                "{{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":{PROCESS},\"tid\":{},\
                 \"args\":{{\"name\":{}}}}}",
                thread.id,
                quoted(&thread.name)
            )
        });
        let mut timed: Vec<(u64, String)> = Vec::new();
        for thread in &self.threads {
            let calls = thread.calls.calls.iter();
            timed.extend(calls.map(|call| (call.start, complete(thread.id, call))));
        }
        timed.extend(self.events.iter().map(|event| (event.time, instant(event))));
        // Of a call and the first one in it, which may begin at once, the outer is first.
        timed.sort_by_key(|(time, _)| *time);
        let timed = timed.into_iter().map(|(_, line)| line);
        document(names.chain(timed), self.lost_calls + self.lost_events)
    }
}

fn document(lines: impl Iterator<Item = String>, lost: u64) -> String {
    let lines: Vec<_> = lines.collect();
    format!(
        "{{\"displayTimeUnit\":\"ns\",\"otherData\":{{\"lost\":{lost}}},\"traceEvents\":[\n{}\n]}}\n",
        lines.join(",\n")
    )
}

fn complete(thread: u64, call: &Call) -> String {
    format!(
        "{{\"name\":{},\"ph\":\"X\",\"pid\":{PROCESS},\"tid\":{thread},\"ts\":{},\"dur\":{},\
         \"args\":{{\"value\":\"{:#x}\"}}}}",
        quoted(&call.function),
        micro(call.start),
        micro(call.duration),
        call.value
    )
}

fn instant(event: &Event) -> String {
    format!(
        "{{\"name\":{},\"ph\":\"i\",\"s\":\"t\",\"pid\":{PROCESS},\"tid\":{},\"ts\":{},\
         \"args\":{{\"text\":{}}}}}",
        quoted(&event.name),
        event.thread,
        micro(event.time),
        quoted(&event.text)
    )
}

/// As a string of JSON.
pub fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for c in text.chars() {
        let _ = match c {
            '"' | '\\' => write!(quoted, "\\{c}"),
            c if c < ' ' => write!(quoted, "\\u{:04x}", c as u32),
            c => write!(quoted, "{c}"),
        };
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Thread;

    fn call(function: &str, depth: u32, start: u64, duration: u64) -> Call {
        Call {
            function: function.into(),
            depth,
            start,
            duration,
            value: 0,
        }
    }

    #[test]
    fn names_that_json_could_not_hold_are_escaped() {
        let calls = vec![call("a\"\\\n", 0, 1234, 5)];
        let json = Calls { calls, lost: 0 }.chrome();
        let value: serde_json::Value = serde_json::from_str(&json).unwrap();
        let event = &value["traceEvents"][0];
        assert_eq!(event["name"], "a\"\\\n");
        assert_eq!(event["ts"], 1.234);
        assert_eq!(event["dur"], 0.005);
    }

    #[test]
    fn what_threads_did_is_in_one_order() {
        let thread = |id, calls| Thread {
            id,
            name: format!("thread {id}"),
            calls: Calls { calls, lost: 0 },
        };
        let record = Record {
            threads: vec![
                thread(1, vec![call("a", 0, 10, 90), call("b", 1, 10, 5)]),
                thread(2, vec![call("c", 0, 7, 50)]),
            ],
            events: vec![Event {
                time: 12,
                thread: 2,
                cpu: 0,
                name: "e".into(),
                text: "x=1".into(),
                stack: Vec::new(),
            }],
            programs: Vec::new(),
            lost_calls: 3,
            lost_events: 4,
            lost_hits: 0,
        };
        let value: serde_json::Value = serde_json::from_str(&record.chrome()).unwrap();
        let events = value["traceEvents"].as_array().unwrap();
        let names: Vec<_> = events.iter().map(|e| e["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["thread_name", "thread_name", "c", "a", "b", "e"]);
        assert_eq!(value["otherData"]["lost"], 7);
        assert_eq!(Record::default().chrome().matches("traceEvents").count(), 1);
        serde_json::from_str::<serde_json::Value>(&Record::default().chrome()).unwrap();
    }
}
