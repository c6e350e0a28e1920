//! Recording which functions calls go through: the kernel's function graph tracer.

use crate::call::{Call, Calls};
use crate::error::{Error, Result};
use crate::format::Format;
use crate::{ring, Lab};
use tane::Kernel;

/// What to record. Made by [`Lab::graph`].
#[derive(Clone)]
pub struct Graph<'a> {
    lab: &'a Lab,
    functions: Vec<String>,
    depth: u32,
    buffer: u64,
}

/// A call before and one after, between which is what was asked for: around them are
/// those that turn the recording on and off.
const MARK: i64 = 108;
const MARKED: &str = "sys_getegid";

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
        let format = Format::parse(&lab.get("events/ftrace/funcgraph_exit/format")?)?;
        let thread = thread_id(lab.kernel());
        // The names are read first: that is no part of what is recorded.
        lab.symbols()?;
        let off = Off(lab);
        self.prepare(thread)?;
        lab.set("tracing_on", "1")?;
        number(lab.kernel(), MARK);
        let result = work();
        number(lab.kernel(), MARK);
        lab.set("tracing_on", "0")?;
        let calls = self.collect(&format, thread);
        drop(off);
        Ok((result, calls?))
    }

    fn prepare(&self, thread: u64) -> Result<()> {
        let lab = self.lab;
        lab.set("tracing_on", "0")?;
        lab.set("current_tracer", "nop")?;
        lab.set("buffer_size_kb", &(self.buffer / 1024).max(4).to_string())?;
        lab.set("max_graph_depth", &self.depth.to_string())?;
        lab.set("set_graph_function", "")?;
        for function in &self.functions {
            let refused = |why: &str| Error::Refused {
                what: function.clone(),
                why: why.to_owned(),
            };
            if function.is_empty() || function.contains(char::is_whitespace) {
                return Err(refused("the name of a function is one word"));
            }
            lab.add("set_graph_function", &format!("{function}\n"))
                .map_err(|_| refused("no function that can be traced has this name"))?;
        }
        lab.set("set_ftrace_pid", &thread.to_string())?;
        lab.set("trace", "")?;
        lab.set("current_tracer", "function_graph")
    }

    fn collect(&self, format: &Format, thread: u64) -> Result<Calls> {
        const PAGE: usize = 4096;
        let lab = self.lab;
        let mut calls = Calls::default();
        for cpu in lab.mount.read_dir("per_cpu")? {
            let cpu = cpu?.file_name().to_string_lossy().into_owned();
            for page in lab.drain(&format!("per_cpu/{cpu}/trace_pipe_raw"), PAGE)? {
                let (records, lost) = ring::records(&page)?;
                calls.lost |= lost;
                for record in records {
                    let kind = record.get(..2).map(|b| u16::from_le_bytes([b[0], b[1]]));
                    if kind == Some(format.id) && format.get(record, "common_pid")? == thread {
                        calls.calls.push(self.call(format, record)?);
                    }
                }
            }
        }
        calls.calls.sort_by_key(|call| (call.start, call.depth));
        calls.calls = without_marks(calls.calls);
        Ok(calls)
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

/// What lies between the two marks; what was before the second one, where the first
/// was lost; all, where neither was recorded.
fn without_marks(mut calls: Vec<Call>) -> Vec<Call> {
    let marks = (0..calls.len()).filter(|&n| calls[n].function == MARKED && calls[n].depth == 0);
    let marks: Vec<_> = marks.collect();
    if let Some(last) = marks.last() {
        calls.truncate(*last);
    }
    if marks.len() > 1 {
        let behind = calls.iter().skip(marks[0] + 1);
        let inside = behind.take_while(|call| call.depth > 0).count();
        calls.drain(..=marks[0] + inside);
    }
    calls
}

/// A call without arguments that always has an answer.
fn number(kernel: &Kernel, call: i64) -> u64 {
    // SAFETY: no arguments.
    unsafe { kernel.syscall(call, [0; 6]) as u64 }
}

/// This thread's number in that kernel.
fn thread_id(kernel: &Kernel) -> u64 {
    const GETTID: i64 = 186;
    number(kernel, GETTID)
}

/// Whatever happens in between, afterwards nothing is recorded.
struct Off<'a>(&'a Lab);

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
