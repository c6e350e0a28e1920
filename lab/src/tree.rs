//! Calls put together: what was called from the same functions is one line, with how
//! often, how long in all and how long by itself.

use crate::call::{micro, Calls};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Calls of one function from the same functions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// What it is called in the kernel; of the root, nothing.
    pub function: String,
    /// How often it was called.
    pub count: u64,
    /// How long that took in all, in ns.
    pub total: u64,
    /// Without what was called from it, in ns.
    pub own: u64,
    /// The errnos that it returned, and how often each.
    pub errors: BTreeMap<i32, u64>,
    /// What was called from it, the longest first.
    pub inside: Vec<Node>,
}

impl Calls {
    /// The same calls put together. The root stands for all of them.
    pub fn tree(&self) -> Node {
        // By index, with their parents' indices in a path; the root is the first.
        let mut nodes = vec![Node::default()];
        let mut below: Vec<BTreeMap<&str, usize>> = vec![BTreeMap::new()];
        let mut path = vec![0];
        for (n, call) in self.calls.iter().enumerate() {
            // What was around it may be lost.
            path.truncate(1 + call.depth as usize);
            let parent = path[path.len() - 1];
            let next = nodes.len();
            let at = *below[parent].entry(&call.function).or_insert(next);
            if at == next {
                below.push(BTreeMap::new());
                nodes.push(Node {
                    function: call.function.clone(),
                    ..Node::default()
                });
            }
            let node = &mut nodes[at];
            node.count += 1;
            node.total += call.duration;
            node.own += self.own(n);
            if let Some(errno) = call.errno() {
                *node.errors.entry(errno).or_insert(0) += 1;
            }
            path.push(at);
        }
        // Children have higher indices than their parents.
        for at in (0..nodes.len()).rev() {
            let mut inside: Vec<_> = below[at]
                .values()
                .map(|n| std::mem::take(&mut nodes[*n]))
                .collect();
            inside.sort_by(|a, b| {
                b.total
                    .cmp(&a.total)
                    .then_with(|| a.function.cmp(&b.function))
            });
            nodes[at].inside = inside;
        }
        let mut root = nodes.swap_remove(0);
        root.total = root.inside.iter().map(|node| node.total).sum();
        root
    }
}

impl Node {
    /// A line for each function with its times in µs, those below it behind it and
    /// further in. What took less than `least` ns in all is left out, and counted.
    pub fn text(&self, least: u64) -> String {
        let mut text = String::new();
        let _ = writeln!(
            text,
            "{:>14} {:>12} {:>8}  function",
            "total µs", "by itself", "calls"
        );
        let mut left_out = 0;
        for node in &self.inside {
            node.lines(0, least, &mut text, &mut left_out);
        }
        if left_out > 0 {
            let least = micro(least);
            let _ = writeln!(
                text,
                "{left_out} lines of less than {least} µs are left out"
            );
        }
        text
    }

    fn lines(&self, depth: usize, least: u64, text: &mut String, left_out: &mut u64) {
        if self.total < least {
            *left_out += self.size();
            return;
        }
        let (total, own) = (micro(self.total), micro(self.own));
        let _ = write!(
            text,
            "{total:>14} {own:>12} {:>8}  {:indent$}{}",
            self.count,
            "",
            self.function,
            indent = 2 * depth
        );
        for (errno, times) in &self.errors {
            let _ = match *times == self.count {
                true => write!(text, " = -{errno}"),
                false => write!(text, " = -{errno} ({times} of {})", self.count),
            };
        }
        text.push('\n');
        for node in &self.inside {
            node.lines(depth + 1, least, text, left_out);
        }
    }

    /// How many lines it would be with all that is in it.
    fn size(&self) -> u64 {
        1 + self.inside.iter().map(Node::size).sum::<u64>()
    }

    /// How many levels there are below it.
    pub fn depth(&self) -> usize {
        let inside = self.inside.iter().map(|node| 1 + node.depth());
        inside.max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::Call;

    fn calls(list: &[(&str, u32, u64, u64, i64)]) -> Calls {
        let call = |&(function, depth, start, duration, value): &(&str, _, _, _, i64)| Call {
            function: function.to_owned(),
            depth,
            start,
            duration,
            value: value as u64,
        };
        Calls {
            calls: list.iter().map(call).collect(),
            lost: 0,
        }
    }

    #[test]
    fn calls_from_the_same_functions_are_one_line() {
        let calls = calls(&[
            ("open", 0, 0, 100, 0),
            ("walk", 1, 10, 20, 0),
            ("look", 2, 12, 5, -2),
            ("walk", 1, 40, 50, 0),
            ("look", 2, 50, 30, -2),
            ("open", 0, 200, 10, -2),
        ]);
        let tree = calls.tree();
        assert_eq!(tree.total, 110);
        let [open] = &tree.inside[..] else {
            panic!("{tree:?}")
        };
        assert_eq!((open.count, open.total, open.own), (2, 110, 40));
        let [walk] = &open.inside[..] else {
            panic!("{tree:?}")
        };
        assert_eq!((walk.count, walk.total, walk.own), (2, 70, 35));
        assert_eq!(walk.inside[0].errors, BTreeMap::from([(2, 2)]));
        assert_eq!(tree.depth(), 3);
        let text = tree.text(36);
        assert!(
            text.contains("0.110        0.040        2  open = -2 (1 of 2)"),
            "{text}"
        );
        assert!(
            text.ends_with("1 lines of less than 0.036 µs are left out\n"),
            "{text}"
        );
    }

    #[test]
    fn calls_whose_callers_are_lost_hang_where_they_can() {
        let tree = calls(&[("deep", 7, 0, 5, 0), ("outer", 0, 10, 5, 0)]).tree();
        let names: Vec<_> = tree.inside.iter().map(|n| &n.function[..]).collect();
        assert_eq!(names, ["deep", "outer"]);
        assert_eq!(Calls::default().tree(), Node::default());
    }
}
