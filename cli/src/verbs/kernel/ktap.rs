//! What KUnit says of its tests while a kernel boots: KTAP, Linux's
//! Documentation/dev-tools/ktap.rst, among the other lines of the kernel's log.

use serde_json::{json, Value};
use tane_lab::message;

/// How a test ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Passed,
    Failed,
    Skipped,
}

impl End {
    fn name(self) -> &'static str {
        match self {
            End::Passed => "passed",
            End::Failed => "failed",
            End::Skipped => "skipped",
        }
    }
}

/// A test that has ended; or a suite that failed by itself, which has no test's name.
#[derive(Debug, PartialEq, Eq)]
pub struct Done {
    pub suite: String,
    pub test: Option<String>,
    pub end: End,
    /// Why it was skipped.
    pub why: Option<String>,
    /// What was said while it ran.
    pub said: Vec<String>,
}

impl Done {
    pub fn json(&self) -> Value {
        json!({
            "suite": self.suite, "test": self.test, "result": self.end.name(),
            "why": self.why, "log": self.said,
        })
    }
}

/// How many there were of each.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub passed: u64,
    pub failed: u64,
    pub skipped: u64,
}

/// Reads the log, line by line.
#[derive(Debug, Default)]
pub struct Reader {
    pub counts: Counts,
    /// How many suites were announced, and how many of them have ended.
    announced: Option<u64>,
    ended: u64,
    suite: Option<String>,
    /// Tests that failed in the suite.
    failed_here: u64,
    said: Vec<String>,
}

/// What a line is.
#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    /// One of the report, as it is there; what ended with it, if something did.
    Report(String, Option<Done>),
    /// The kernel's, of something else.
    Other,
}

const VERSION: &str = "KTAP version ";
const SUBTEST: &str = "# Subtest: ";

impl Reader {
    /// Whether there was a report at all; KUnit without tests has one.
    pub fn has_begun(&self) -> bool {
        self.announced.is_some()
    }

    /// Whether there are tests to come: the kernel ended among them, perhaps.
    pub fn is_unfinished(&self) -> bool {
        self.announced
            .is_some_and(|announced| self.ended < announced)
    }

    /// How many suites there were to be.
    pub fn suites(&self) -> u64 {
        self.announced.unwrap_or(0)
    }

    /// The suite that runs.
    pub fn suite(&self) -> Option<&str> {
        self.suite.as_deref()
    }

    /// The next line of the log.
    pub fn read(&mut self, line: &str) -> Line {
        let line = message(line);
        let text = line.trim_start_matches(' ');
        let depth = (line.len() - text.len()) / 4;
        if self.announced.is_none() {
            return self.begin(depth, text, line);
        }
        if !self.is_unfinished() {
            return Line::Other;
        }
        if let Some(name) = text.strip_prefix(SUBTEST).filter(|_| depth == 1) {
            self.suite = Some(name.to_owned());
            self.failed_here = 0;
            self.said.clear();
            return Line::Report(line.to_owned(), None);
        }
        if text.starts_with(VERSION) || is_plan(text) {
            return Line::Report(line.to_owned(), None);
        }
        if let Some((good, name, skipped)) = result(text) {
            let done = self.end(depth, good, name, skipped);
            return Line::Report(line.to_owned(), done);
        }
        // Other words of the kernel's may say why a test fails.
        self.said.push(line.to_owned());
        match text.starts_with('#') {
            true => Line::Report(line.to_owned(), None),
            false => Line::Other,
        }
    }

    /// The report's own version and plan.
    fn begin(&mut self, depth: usize, text: &str, line: &str) -> Line {
        if depth > 0 {
            return Line::Other;
        }
        if text.starts_with(VERSION) {
            return Line::Report(line.to_owned(), None);
        }
        let plan = text
            .strip_prefix("1..")
            .and_then(|count| count.parse().ok());
        match plan {
            Some(count) => {
                self.announced = Some(count);
                Line::Report(line.to_owned(), None)
            }
            None => Line::Other,
        }
    }

    fn end(&mut self, depth: usize, good: bool, name: &str, skip: Option<&str>) -> Option<Done> {
        let suite = || self.suite.clone().unwrap_or_else(|| name.to_owned());
        let end = match (good, skip) {
            (_, Some(_)) => End::Skipped,
            (true, None) => End::Passed,
            (false, None) => End::Failed,
        };
        match depth {
            0 => {
                self.ended += 1;
                // Of a suite that failed because of its tests they have told.
                let alone = end == End::Failed && self.failed_here == 0;
                let said = std::mem::take(&mut self.said);
                self.suite = None;
                self.counts.failed += u64::from(alone);
                alone.then(|| Done {
                    suite: name.to_owned(),
                    test: None,
                    end,
                    why: None,
                    said,
                })
            }
            1 => {
                match end {
                    End::Passed => self.counts.passed += 1,
                    End::Failed => self.counts.failed += 1,
                    End::Skipped => self.counts.skipped += 1,
                }
                self.failed_here += u64::from(end == End::Failed);
                Some(Done {
                    suite: suite(),
                    test: Some(name.to_owned()),
                    end,
                    why: skip.filter(|why| !why.is_empty()).map(str::to_owned),
                    said: std::mem::take(&mut self.said),
                })
            }
            // What one parameter of a test came to is in the test's result.
            _ => None,
        }
    }
}

fn is_plan(text: &str) -> bool {
    let count = text.strip_prefix("1..");
    count.is_some_and(|count| count.parse::<u64>().is_ok())
}

/// Of "not ok 3 name # SKIP reason": whether it was good, the name, why it was skipped.
fn result(text: &str) -> Option<(bool, &str, Option<&str>)> {
    let (good, rest) = match text.strip_prefix("not ok ") {
        Some(rest) => (false, rest),
        None => (true, text.strip_prefix("ok ")?),
    };
    let (number, name) = rest.split_once(' ')?;
    number.parse::<u32>().ok()?;
    Some(match name.split_once(" # SKIP") {
        Some((name, why)) => (good, name, Some(why.trim())),
        // A diagnosis may stand behind it, as "# Suite does nothing".
        None => (good, name.split(" # ").next().unwrap_or(name), None),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "\
[    0.010000] Linux version 6.12
[    0.100000] KTAP version 1
[    0.100000] 1..3
[    0.100000]     KTAP version 1
[    0.100000]     # Subtest: list
[    0.100000]     # module: list
[    0.100000]     1..3
[    0.100000]     ok 1 adds
[    0.100000]         KTAP version 1
[    0.100000]         # Subtest: sorts
[    0.100000]         ok 1 a parameter
[    0.100000]     ok 2 sorts # SKIP not today
[    0.100000]     # deletes: EXPECTATION FAILED at lib/list-test.c:7
[    0.100000]     Expected a == b, but
[    0.100000]         a == 1 (0x1)
[    0.100000]     not ok 3 deletes
[    0.100000] # list: pass:1 fail:1 skip:1 total:3
[    0.100000] not ok 1 list
[    0.100000]     KTAP version 1
[    0.100000]     # Subtest: setup
[    0.100000] not ok 2 setup
[    0.100000] ok 3 empty # SKIP
[    0.200000] ok 4 is said by nobody
";

    fn read(log: &str) -> (Reader, Vec<Done>, Vec<String>) {
        let (mut reader, mut done, mut report) = (Reader::default(), Vec::new(), Vec::new());
        for line in log.lines() {
            if let Line::Report(line, ended) = reader.read(line) {
                report.push(line);
                done.extend(ended);
            }
        }
        (reader, done, report)
    }

    #[test]
    fn each_test_is_told_with_how_it_ended_and_what_was_said() {
        let (reader, done, _) = read(LOG);
        let told = |done: &Done| (done.suite.clone(), done.test.clone(), done.end);
        let own = |suite: &str, test: &str, end| (suite.to_owned(), Some(test.to_owned()), end);
        let told: Vec<_> = done.iter().map(told).collect();
        let expected = [
            own("list", "adds", End::Passed),
            own("list", "sorts", End::Skipped),
            own("list", "deletes", End::Failed),
            ("setup".to_owned(), None, End::Failed),
        ];
        assert_eq!(told, expected);
        assert_eq!(done[1].why.as_deref(), Some("not today"));
        assert_eq!(done[2].said.len(), 3, "{:?}", done[2].said);
        let counts = Counts {
            passed: 1,
            failed: 2,
            skipped: 1,
        };
        assert_eq!(reader.counts, counts);
        assert!(!reader.is_unfinished());
    }

    #[test]
    fn the_report_is_what_the_kernel_said_without_times_and_other_words() {
        let (_, _, report) = read(LOG);
        assert_eq!(report[0], "KTAP version 1");
        assert!(report.contains(&"    not ok 3 deletes".to_owned()));
        let others = ["Linux version 6.12", "ok 4 is said by nobody"];
        assert!(!report.iter().any(|line| others.contains(&line.as_str())));
    }

    #[test]
    fn a_report_that_breaks_off_is_unfinished() {
        let (reader, _, _) = read(&LOG[..LOG.find("not ok 3").unwrap()]);
        assert!(reader.is_unfinished());
        assert_eq!(reader.suite(), Some("list"));
        let (reader, _, _) = read("[    0.1] nothing of tests\n");
        assert!(!reader.has_begun());
    }
}
