//! The results for people.

use crate::promise::{Promise, Target};
use crate::report::{Figure, Report, TANE};
use std::fmt::Write;

/// Three digits, or all before the point.
pub fn number(value: f64) -> String {
    match value {
        v if v < 10.0 => format!("{v:.2}"),
        v if v < 100.0 => format!("{v:.1}"),
        v => format!("{v:.0}"),
    }
}

pub fn list(chosen: &[&Promise]) -> String {
    let mut text = String::new();
    for p in chosen {
        let (name, set, target) = (p.name, p.set.name(), p.target_text());
        let _ = writeln!(text, "{name:<17} {set:<9} {target:<9} {}", p.what);
    }
    text
}

/// Whether a promise is kept, if that was measured.
pub fn kept(promise: &Promise, report: &Report) -> Option<bool> {
    let figure = |ours: bool| report.of(promise).find(|f| (f.subject == TANE) == ours);
    let ours = figure(true)?.sample.median;
    match promise.target {
        Target::Faster(times) => Some(figure(false)?.sample.median / ours >= times),
        Target::AtMost(most) => Some(ours <= most),
        Target::None => None,
    }
}

pub fn results(chosen: &[&Promise], report: &Report) -> String {
    let mut text = format!(
        "{}\nmedians of {} runs; ratio: how many times what tane takes\n",
        report.machine.summary(),
        report.runs
    );
    for promise in chosen {
        let verdict = match kept(promise, report) {
            Some(true) => "kept",
            Some(false) => "MISSED",
            None => "",
        };
        let target = promise.target_text();
        let _ = writeln!(
            text,
            "\n{}: {}  {target} {verdict}",
            promise.name, promise.what
        );
        let ours = report.of(promise).find(|f| f.subject == TANE);
        for figure in report.of(promise) {
            row(&mut text, figure, ours);
        }
        for missing in report.missing.iter().filter(|m| m.promise == promise.name) {
            let _ = writeln!(text, "  {:<18} {}", missing.subject, missing.why);
        }
    }
    text
}

fn row(text: &mut String, figure: &Figure, ours: Option<&Figure>) {
    let sample = &figure.sample;
    let ratio = match ours {
        Some(ours) if ours.subject != figure.subject => {
            format!("{:.2}×", sample.median / ours.sample.median)
        }
        _ => String::new(),
    };
    let range = format!("{} to {}", number(sample.min), number(sample.max));
    let (median, unit) = (number(sample.median), &figure.unit);
    let line = format!(
        "  {:<18} {median:>6} {unit}  {range:<16} {ratio}",
        figure.subject
    );
    let _ = writeln!(text, "{}", line.trim_end());
}
