//! What was recorded: which functions called which, and how long each took.

use std::fmt;

/// One call of a kernel function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// What it is called in the kernel.
    pub function: String,
    /// How many recorded calls are around it.
    pub depth: u32,
    /// When it began, in ns since the kernel booted.
    pub start: u64,
    /// How long it took, in ns, with the calls in it and with what the recording of
    /// those takes, some 300 ns each.
    pub duration: u64,
    /// What it left in the register of return values. Of a function that returns
    /// nothing, or less than 64 bits, what else was there.
    pub value: u64,
}

/// Calls of one thread, in the order in which they began.
#[derive(Clone, Debug, Default)]
pub struct Calls {
    /// One after the other; what is in a call follows it.
    pub calls: Vec<Call>,
    /// Records that were lost, of which each call takes one or two: there were more
    /// than [`Graph::buffer`](crate::Graph::buffer) has room for.
    pub lost: u64,
}

impl Call {
    /// The errno that it returned, if what it returned is one: 1 to 4095.
    pub fn errno(&self) -> Option<i32> {
        // A function that returns an int leaves what is above it as it likes.
        let whole = self.value as i64;
        let value = if whole < 0 {
            whole
        } else {
            i64::from(self.value as i32)
        };
        (-4095..0).contains(&value).then(|| -value as i32)
    }
}

impl Calls {
    /// The calls right inside the one with this index.
    fn inside(&self, index: usize) -> impl Iterator<Item = &Call> {
        let outer = self.calls[index].depth;
        let rest = self.calls[index + 1..].iter();
        rest.take_while(move |call| call.depth > outer)
            .filter(move |call| call.depth == outer + 1)
    }

    /// What a call took by itself, without the calls in it, in ns.
    pub fn own(&self, index: usize) -> u64 {
        let inside: u64 = self.inside(index).map(|call| call.duration).sum();
        self.calls[index].duration.saturating_sub(inside)
    }
}

/// Nanoseconds as microseconds, exactly.
pub(crate) fn micro(ns: u64) -> String {
    format!("{}.{:03}", ns / 1000, ns % 1000)
}

/// A line for each call: the time it took, and without the calls in it, in µs.
impl fmt::Display for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.lost > 0 {
            writeln!(
                f,
                "calls are missing: the buffer was too small for {} records",
                self.lost
            )?;
        }
        if !self.calls.is_empty() {
            writeln!(f, "{:>12} {:>12}  function", "µs", "by itself")?;
        }
        for (n, call) in self.calls.iter().enumerate() {
            let (all, own) = (micro(call.duration), micro(self.own(n)));
            let indent = 2 * call.depth as usize;
            write!(f, "{all:>12} {own:>12}  {:indent$}{}", "", call.function)?;
            match call.errno() {
                Some(errno) => writeln!(f, " = -{errno}")?,
                None => writeln!(f)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(function: &str, depth: u32, start: u64, duration: u64, value: u64) -> Call {
        let function = function.to_owned();
        Call {
            function,
            depth,
            start,
            duration,
            value,
        }
    }

    fn calls() -> Calls {
        let calls = vec![
            call("outer", 0, 1000, 5000, 0),
            call("first", 1, 1500, 1000, 0),
            call("deep", 2, 1600, 400, 0xffff_ffe4),
            call("second", 1, 3000, 2000, -28i64 as u64),
            call("other", 0, 9000, 1, 1),
        ];
        Calls { calls, lost: 0 }
    }

    #[test]
    fn a_call_takes_by_itself_what_those_in_it_do_not() {
        let calls = calls();
        let own: Vec<_> = (0..5).map(|n| calls.own(n)).collect();
        assert_eq!(own, [2000, 600, 400, 2000, 1]);
    }

    #[test]
    fn errors_are_seen_in_ints_and_longs() {
        let errors: Vec<_> = calls().calls.iter().map(Call::errno).collect();
        assert_eq!(errors, [None, None, Some(28), Some(28), None]);
        assert_eq!(call("f", 0, 0, 0, 1 << 63).errno(), None);
    }

    #[test]
    fn text_has_a_line_for_each_call() {
        let text = calls().to_string();
        let lines: Vec<_> = text.lines().skip(1).map(str::trim_start).collect();
        assert_eq!(lines[0], "5.000        2.000  outer");
        assert_eq!(lines[2], "0.400        0.400      deep = -28");
        assert_eq!(lines.len(), 5);
    }
}
