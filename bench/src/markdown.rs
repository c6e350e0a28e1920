//! The table in docs/promises.md: every row that has a target.

use crate::promise::{Promise, Set};
use crate::report::{Figure, Report, TANE};
use crate::table::number;
use crate::target::{judge, Target};
use std::fmt::Write;

/// With the figures of a report, or columns to be filled.
pub fn table(chosen: &[Promise], report: Option<&Report>) -> String {
    let mut text = String::new();
    if let Some(report) = report {
        let (date, machine) = (&report.machine.date, report.machine.summary());
        let _ = writeln!(
            text,
            "Run of {date}, medians of {}: {machine}.\n",
            report.runs
        );
    }
    text += "| promise | target | measured by | tane | beside it | kept |\n";
    text += "|---|---|---|---|---|---|\n";
    for promise in chosen.iter().filter(|p| is_documented(p)) {
        let (ours, others, verdict) = match report {
            Some(report) => figures(promise, report),
            None => Default::default(),
        };
        let _ = writeln!(text, "{} {ours} | {others} | {verdict} |", begin(promise));
    }
    text
}

fn is_documented(promise: &Promise) -> bool {
    promise.target != Target::None || promise.set == Set::Build
}

/// The columns that no run changes.
fn begin(promise: &Promise) -> String {
    let command = match promise.set {
        Set::Build => {
            "`rm -r build/kernel-default; xtask kernel --config default --force`".to_string()
        }
        _ => format!("`tane bench --only {}`", promise.name),
    };
    let target = promise.target_text();
    format!("| {} | {target} | {command} |", promise.what)
}

fn figures(promise: &Promise, report: &Report) -> (String, String, &'static str) {
    let mut ours = String::new();
    let mut others = Vec::new();
    for figure in report.of(promise) {
        let value = format!("{} {}", number(figure.sample.median), figure.unit);
        if figure.subject == TANE {
            ours = value;
            continue;
        }
        let note = match figure.note.as_str() {
            "" => String::new(),
            note => format!(", {note}"),
        };
        let ratio = ratio(promise, figure, report);
        others.push(format!("{}{note} {value}{ratio}", figure.subject));
    }
    let missing = report.missing_of(promise);
    others.extend(missing.map(|m| {
        let why = m.why.lines().next().unwrap_or_default();
        format!("{} not measured: {why}", m.subject)
    }));
    let verdict = match judge(promise, report).kept {
        Some(true) => "yes",
        Some(false) => "no",
        None => "",
    };
    (ours, others.join("; "), verdict)
}

/// What a promise to be so many times faster is judged by.
fn ratio(promise: &Promise, figure: &Figure, report: &Report) -> String {
    match promise.target {
        Target::Faster(_) | Target::Bulk { .. } | Target::Than { .. } | Target::Best(_) => report
            .ratio(promise, &figure.subject, TANE)
            .map_or(String::new(), |r| format!(" ({}×)", number(r.median))),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_docs_have_every_promise_and_its_target() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/promises.md");
        let text = std::fs::read_to_string(path).unwrap();
        for promise in crate::sets::promises().iter().filter(|p| is_documented(p)) {
            let row = begin(promise);
            assert!(text.contains(&row), "docs/promises.md lacks: {row}");
        }
    }

    #[test]
    fn the_docs_have_no_promise_that_nothing_measures() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/promises.md");
        let text = std::fs::read_to_string(path).unwrap();
        let all = crate::sets::promises();
        let rows: Vec<_> = all.iter().filter(|p| is_documented(p)).map(begin).collect();
        let measured = text.lines().filter(|l| l.contains("| `tane bench --only"));
        for line in measured {
            let known = rows.iter().any(|row| line.starts_with(row));
            assert!(known, "docs/promises.md has {line}");
        }
    }
}
