//! The table in docs/promises.md.

use crate::promise::{Promise, Target};
use crate::report::{Figure, Report, TANE};
use crate::table::{kept, number};
use std::fmt::Write;

/// With the figures of a report, or columns to be filled.
pub fn table(chosen: &[&Promise], report: Option<&Report>) -> String {
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
    for promise in chosen {
        let (ours, others, verdict) = match report {
            Some(report) => figures(promise, report),
            None => Default::default(),
        };
        let _ = writeln!(text, "{} {ours} | {others} | {verdict} |", begin(promise));
    }
    text
}

/// The columns that no run changes.
fn begin(promise: &Promise) -> String {
    let command = match promise.name {
        "build-default" => {
            "`rm -r build/kernel-default; xtask kernel --config default --force`".to_string()
        }
        name => format!("`tane-bench --only {name}`"),
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
        } else {
            others.push(format!(
                "{} {value}{}",
                figure.subject,
                ratio(promise, figure, report)
            ));
        }
    }
    let missing = report.missing.iter().filter(|m| m.promise == promise.name);
    others.extend(missing.map(|m| format!("{} not measured", m.subject)));
    let verdict = match kept(promise, report) {
        Some(true) => "yes",
        Some(false) => "no",
        None => "",
    };
    (ours, others.join("; "), verdict)
}

/// What a promise to be so many times faster is judged by.
fn ratio(promise: &Promise, figure: &Figure, report: &Report) -> String {
    let ours = report.of(promise).find(|f| f.subject == TANE);
    match (promise.target, ours) {
        (Target::Faster(_), Some(ours)) => {
            format!(" ({:.2}×)", figure.sample.median / ours.sample.median)
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::promise::PROMISES;

    #[test]
    fn the_docs_have_every_promise_and_its_target() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/promises.md");
        let text = std::fs::read_to_string(path).unwrap();
        for promise in PROMISES {
            let row = begin(promise);
            assert!(text.contains(&row), "docs/promises.md lacks: {row}");
        }
    }
}
