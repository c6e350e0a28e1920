//! `--stat`: what a program asked of its Linux.

use crate::tell;
use crate::verbs::syscall;
use serde_json::json;
use std::fmt::Write;
use std::time::Duration;
use tane::{CallCount, ProgramCounts};

/// On standard error: standard output is the program's.
pub fn tell(counts: &ProgramCounts, passed: Duration) {
    let mut calls = counts.calls.clone();
    calls.sort_by_key(|one| std::cmp::Reverse((one.nanoseconds, one.calls)));
    match tell::is_json() {
        true => eprintln!("{}", json(&calls, counts, passed)),
        false => eprint!("{}", table(&calls, counts, passed)),
    }
}

fn name(one: &CallCount) -> String {
    syscall::by_number(one.number).map_or_else(|| format!("{}", one.number), str::to_owned)
}

fn seconds(nanoseconds: u64) -> f64 {
    Duration::from_nanos(nanoseconds).as_secs_f64()
}

fn json(calls: &[CallCount], counts: &ProgramCounts, passed: Duration) -> serde_json::Value {
    let calls = calls.iter().map(|one| {
        json!({
            "call": name(one),
            "calls": one.calls,
            "errors": one.errors,
            "nanoseconds": one.nanoseconds,
        })
    });
    json!({"stat": {
        "nanoseconds": u64::try_from(passed.as_nanos()).unwrap_or(u64::MAX),
        "faults": counts.faults,
        "signals": counts.signals,
        "calls": calls.collect::<Vec<_>>(),
    }})
}

/// As strace(1) has it with -c -w.
fn table(calls: &[CallCount], counts: &ProgramCounts, passed: Duration) -> String {
    let mut text = format!("{:>12} {:>9} {:>9} call\n", "seconds", "calls", "errors");
    let mut line = |seconds: f64, calls: u64, errors: u64, name: &str| {
        let errors = match errors {
            0 => String::new(),
            some => some.to_string(),
        };
        // Writing to a text does not fail.
        let _ = writeln!(text, "{seconds:>12.6} {calls:>9} {errors:>9} {name}");
    };
    for one in calls {
        line(seconds(one.nanoseconds), one.calls, one.errors, &name(one));
    }
    let sum = |of: fn(&CallCount) -> u64| calls.iter().map(of).sum();
    let all = sum(|one| one.nanoseconds);
    line(
        seconds(all),
        sum(|one| one.calls),
        sum(|one| one.errors),
        "all",
    );
    let _ = writeln!(
        text,
        "{:.6} s from start to end, {} faults, {} signals",
        passed.as_secs_f64(),
        counts.faults,
        counts.signals
    );
    text
}
