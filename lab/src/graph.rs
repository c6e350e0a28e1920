//! Recording which functions calls go through: the kernel's function graph tracer.

use crate::call::{Call, Calls};
use crate::error::{Error, Result};
use crate::format::Format;
use crate::nearest::no_such;
use crate::{ring, Lab};
use std::collections::BTreeMap;
use tane::Kernel;

/// What to record. Made by [`Lab::graph`].
#[derive(Clone)]
pub struct Graph<'a> {
    pub(crate) lab: &'a Lab,
    functions: Vec<String>,
    depth: u32,
    buffer: u64,
}

/// A call before and one after, between which is what was asked for: around them are
/// those that turn the recording on and off.
const MARK: i64 = 108;
pub(crate) const MARKED: &str = "sys_getegid";

impl Lab {
    /// Record the kernel functions that calls of this thread go through.
    pub fn graph(&self) -> Graph<'_> {
        Graph {
            lab: self,
            functions: Vec::new(),
            depth: 0,
            buffer: 4 << 20,
        }
    }
}

impl Graph<'_> {
    /// Only calls inside of this function, or of functions that match a pattern with
    /// asterisks; several may be named.
    pub fn function(mut self, name: &str) -> Self {
        self.functions.push(name.to_owned());
        self
    }

    /// Only so many levels of calls; 0, as at first, for all there are.
    pub fn depth(mut self, levels: u32) -> Self {
        self.depth = levels;
        self
    }

    /// Bytes of kernel memory for the record, on each CPU; a call takes some 100.
    pub fn buffer(mut self, bytes: u64) -> Self {
        self.buffer = bytes;
        self
    }

    /// Run `work` and say what it was in the kernel, on this thread. What other
    /// threads do for it is not in it; interrupts that this thread takes are.
    pub fn run<T>(&self, work: impl FnOnce() -> T) -> Result<(T, Calls)> {
        let lab = self.lab;
        let _turn = lab.recording.lock().unwrap_or_else(|e| e.into_inner());
        let thread = thread_id(lab.kernel());
        // The names are read first: that is no part of what is recorded.
        lab.symbols()?;
        let off = Off(lab);
        self.prepare(&[thread])?;
        lab.set("tracing_on", "1")?;
        mark(lab.kernel());
        let result = work();
        mark(lab.kernel());
        lab.set("tracing_on", "0")?;
        let collected = self.collect();
        drop(off);
        let (mut threads, lost) = collected?;
        let calls = threads.remove(&thread).unwrap_or_default();
        Ok((result, Calls { lost, ..calls }))
    }

    /// In kB, as the kernel wants it.
    pub(crate) fn kilobytes(&self) -> String {
        (self.buffer / 1024).max(4).to_string()
    }

    /// `threads`: of these, and of those that they start if the kernel was told so; of all
    /// if there are none.
    pub(crate) fn prepare(&self, threads: &[u64]) -> Result<()> {
        let lab = self.lab;
        lab.set("tracing_on", "0")?;
        lab.set("current_tracer", "nop")?;
        lab.set("buffer_size_kb", &self.kilobytes())?;
        lab.set("max_graph_depth", &self.depth.to_string())?;
        lab.set("set_graph_function", "")?;
        for function in &self.functions {
            let refused = |why: String| Error::Refused {
                what: function.clone(),
                why,
            };
            if function.is_empty() || function.contains(char::is_whitespace) {
                return Err(refused("the name of a function is one word".into()));
            }
            let added = lab.add("set_graph_function", &format!("{function}\n"));
            if added.is_err() {
                let known = lab.functions()?;
                let known = known.iter().map(String::as_str);
                return Err(refused(no_such(
                    "function that can be traced",
                    function,
                    known,
                )));
            }
        }
        if !self.functions.is_empty() {
            lab.add("set_graph_function", &format!("{MARKED}\n"))?;
        }
        lab.set("set_ftrace_pid", &list(threads))?;
        lab.set("trace", "")?;
        lab.set("current_tracer", "function_graph")
    }

    /// Calls by thread, between the marks, and how many records were lost.
    pub(crate) fn collect(&self) -> Result<(BTreeMap<u64, Calls>, u64)> {
        const PAGE: usize = 4096;
        let lab = self.lab;
        let format = Format::parse(&lab.get("events/ftrace/funcgraph_exit/format")?)?;
        let lost = lost(lab, "per_cpu")?;
        let mut all = Vec::new();
        for cpu in lab.mount.read_dir("per_cpu")? {
            let cpu = cpu?.file_name().to_string_lossy().into_owned();
            for page in lab.drain(&format!("per_cpu/{cpu}/trace_pipe_raw"), PAGE)? {
                for record in ring::records(&page)? {
                    let kind = record.get(..2).map(|b| u16::from_le_bytes([b[0], b[1]]));
                    if kind == Some(format.id) {
                        let thread = format.get(record, "common_pid")?;
                        all.push((thread, self.call(&format, record)?));
                    }
                }
            }
        }
        all.sort_by_key(|(_, call)| (call.start, call.depth));
        let mut threads = BTreeMap::<u64, Calls>::new();
        for (thread, call) in between_marks(all, |(_, call)| is_mark(call)) {
            threads.entry(thread).or_default().calls.push(call);
        }
        Ok((threads, lost))
    }

    fn call(&self, format: &Format, record: &[u8]) -> Result<Call> {
        let start = format.get(record, "calltime")?;
        Ok(Call {
            function: self.lab.symbols()?.name(format.get(record, "func")?),
            depth: format.get(record, "depth")? as u32,
            start,
            duration: format.get(record, "rettime")?.saturating_sub(start),
            value: format.get(record, "retval")?,
        })
    }
}

/// What is between marks, of which the last says that something ended: one before it that
/// it began, and so on; all, where there is none. What is before the first is kept if that
/// is the end of something, whose beginning was lost or is the kernel's boot.
pub(crate) fn between_marks<T>(all: Vec<T>, is_mark: impl Fn(&T) -> bool) -> Vec<T> {
    let marks = all.iter().filter(|one| is_mark(one)).count();
    let mut inside = marks == 0 || marks % 2 == 1;
    let mut kept = all;
    kept.retain(|one| {
        let mark = is_mark(one);
        inside ^= mark;
        inside && !mark
    });
    kept
}

/// Records that were lost on all CPUs. `dir` has a directory for each.
pub(crate) fn lost(lab: &Lab, dir: &str) -> Result<u64> {
    let mut lost = 0;
    for cpu in lab.mount.read_dir(dir)? {
        let cpu = cpu?.file_name().to_string_lossy().into_owned();
        let stats = lab.get(&format!("{dir}/{cpu}/stats"))?;
        let lines = stats.lines().filter_map(|line| line.split_once(": "));
        let counts = lines.filter(|(name, _)| ["overrun", "dropped events"].contains(name));
        lost += counts
            .filter_map(|(_, n)| n.trim().parse::<u64>().ok())
            .sum::<u64>();
    }
    Ok(lost)
}

/// The kernel that was booted with [`boot_words`](crate::boot_words) has just booted: what
/// follows is no part of its boot, until a recording starts.
pub fn booted(kernel: &Kernel) {
    mark(kernel);
}

/// Numbers of threads, as the kernel reads them.
pub(crate) fn list(threads: &[u64]) -> String {
    let words: Vec<_> = threads.iter().map(u64::to_string).collect();
    words.join(" ")
}

fn is_mark(call: &Call) -> bool {
    call.function == MARKED && call.depth == 0
}

/// A call that says where in a record something began or ended.
pub(crate) fn mark(kernel: &Kernel) {
    number(kernel, MARK);
}

/// A call without arguments that always has an answer.
fn number(kernel: &Kernel, call: i64) -> u64 {
    // SAFETY: no arguments.
    unsafe { kernel.syscall(call, [0; 6]) as u64 }
}

/// This thread's number in that kernel.
pub(crate) fn thread_id(kernel: &Kernel) -> u64 {
    const GETTID: i64 = 186;
    number(kernel, GETTID)
}

/// Whatever happens in between, afterwards nothing is recorded.
pub(crate) struct Off<'a>(pub &'a Lab);

impl Drop for Off<'_> {
    fn drop(&mut self) {
        for (file, text) in [
            ("tracing_on", "0"),
            ("current_tracer", "nop"),
            ("set_ftrace_pid", ""),
            ("set_graph_function", ""),
            ("max_graph_depth", "0"),
        ] {
            // Nobody is there to hear of an error.
            let _ = self.0.set(file, text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::between_marks;

    #[test]
    fn what_is_between_marks_is_kept() {
        let kept = |text: &str| {
            let kept = between_marks(text.chars().collect(), |c| *c == '|');
            kept.into_iter().collect::<String>()
        };
        for (all, wanted) in [
            ("ab", "ab"),
            ("a|bc|d", "bc"),
            ("ab|c", "ab"),
            ("a|b|c|d|e", "bd"),
            ("boot|look|work|", "bootwork"),
        ] {
            assert_eq!(kept(all), wanted, "{all}");
        }
    }
}
