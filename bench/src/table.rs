//! The results for people.

use crate::interrupt;
use crate::promise::{Promise, Set};
use crate::report::{Figure, Report, TANE};
use crate::sample::Sample;
use crate::target::judge;
use std::fmt::Write;

/// Three digits, or all before the point.
pub fn number(value: f64) -> String {
    match value.abs() {
        v if v < 0.01 && v > 0.0 => format!("{value:.4}"),
        v if v < 10.0 => format!("{value:.2}"),
        v if v < 100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

pub fn list(chosen: &[Promise]) -> String {
    let mut text = String::new();
    for p in chosen {
        let (name, set, target) = (&p.name, p.set.name(), p.target_text());
        let line = format!("{name:<26} {set:<12} {target:<24} {}", p.what);
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

pub fn results(report: &Report) -> String {
    let mut text = format!(
        "{}\nmedians of {} runs [quartiles]; ratio: how many times what tane takes [quartiles]\n",
        report.machine.summary(),
        report.runs
    );
    for set in Set::ALL {
        let rows: Vec<_> = report.promises.iter().filter(|p| p.set == set).collect();
        if rows.is_empty() {
            continue;
        }
        let _ = writeln!(text, "\n── {}: {} ──", set.name(), set.title());
        for promise in rows {
            section(&mut text, promise, report);
        }
    }
    let _ = write!(text, "\n{}", summary(report));
    let versions = format!("versions: {}", report.machine.versions_text());
    for line in wrapped(&format!("method: {}", report.method), WIDTH) {
        let _ = writeln!(text, "{line}");
    }
    for line in wrapped(&versions, WIDTH) {
        let _ = writeln!(text, "{line}");
    }
    text
}

/// Of lines of words.
const WIDTH: usize = 100;

/// Lines of at most so many signs, unless a word has more.
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.into()),
        }
    }
    lines
}

fn section(text: &mut String, promise: &Promise, report: &Report) {
    let verdict = judge(promise, report);
    let target = match (verdict.kept, promise.target_text()) {
        (_, target) if target.is_empty() => String::new(),
        (Some(true), target) => format!("   {target} kept"),
        (Some(false), target) => format!("   {target} MISSED: {}", verdict.shortfall),
        (None, target) => format!("   {target} not judged"),
    };
    let _ = writeln!(text, "\n{}: {}{target}", promise.name, promise.what);
    for figure in report.of(promise) {
        row(text, promise, figure, report);
    }
    for missing in report.missing_of(promise) {
        // An oops has many lines; the JSON has them all.
        let why = missing.why.lines().next().unwrap_or_default();
        let _ = writeln!(text, "  {:<24} {why}", missing.subject);
    }
}

fn row(text: &mut String, promise: &Promise, figure: &Figure, report: &Report) {
    let sample = &figure.sample;
    let ratio = match report.ratio(promise, &figure.subject, TANE) {
        Some(ratio) if figure.subject != TANE => {
            format!("{}× {}", number(ratio.median), spread(&ratio))
        }
        _ => String::new(),
    };
    let speed = promise.gigabytes(sample.median);
    let speed = speed.map_or(String::new(), |s| format!("{} GB/s", number(s)));
    let note = match figure.note.as_str() {
        "" => String::new(),
        note => format!("({note})"),
    };
    let (median, unit) = (number(sample.median), &figure.unit);
    let line = format!(
        "  {:<24} {median:>7} {unit:<3} {:<19} {speed:<10} {ratio:<22} {note}",
        figure.subject,
        spread(sample)
    );
    let _ = writeln!(text, "{}", line.trim_end());
}

fn spread(sample: &Sample) -> String {
    format!("[{}, {}]", number(sample.lower), number(sample.upper))
}

/// How many targets were met, and which were not.
fn summary(report: &Report) -> String {
    let mut counts = [0; 3];
    let mut missed = Vec::new();
    for promise in &report.promises {
        if promise.target_text().is_empty() {
            continue;
        }
        match judge(promise, report).kept {
            Some(true) => counts[0] += 1,
            Some(false) => {
                counts[1] += 1;
                missed.push(promise.name.as_str());
            }
            None => counts[2] += 1,
        }
    }
    let [kept, short, open] = counts;
    let mut text = format!("targets: {kept} kept, {short} missed, {open} not judged\n");
    if !missed.is_empty() {
        let _ = writeln!(text, "missed: {}", missed.join(", "));
    }
    text += &interruption(report).unwrap_or_default();
    text
}

/// Which rows an interrupted run lacks, if it is one.
pub fn interruption(report: &Report) -> Option<String> {
    if !report.interrupted {
        return None;
    }
    let cut = |p: &&Promise| report.missing_of(p).any(|m| m.why == interrupt::WHY);
    let lacks: Vec<_> = report.promises.iter().filter(cut).collect();
    let names: Vec<_> = lacks.iter().map(|p| p.name.as_str()).collect();
    let (count, all) = (names.len(), report.promises.len());
    Some(match count {
        0 => "INTERRUPTED: every row has figures, some of fewer runs\n".to_string(),
        _ => format!(
            "INTERRUPTED: {count} of {all} rows were not measured: {}\n",
            names.join(", ")
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::HOST;
    use crate::target::Target;

    #[test]
    fn numbers_have_three_digits() {
        let pairs = [
            (0.12, "0.12"),
            (9.994, "9.99"),
            (34.56, "34.6"),
            (1234.5, "1234"),
        ];
        for (value, text) in pairs {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn the_table_has_target_figure_spread_ratio_and_what_falls_short() {
        let promise = Promise::new("x", Set::Ramfs, "a call", "ns", Target::Faster(16.0));
        let promise = promise.at("read", 4096.0, 4096);
        let mut report = Report::empty();
        report.promises = vec![promise.clone()];
        let versions = &mut report.machine.versions;
        versions.insert("debugfs".into(), "debugfs 1.47.0 (5-Feb-2023)".into());
        let sample = |runs: [f64; 3]| Sample::of(runs.to_vec()).unwrap();
        report.add(&promise, TANE, sample([10.0, 12.0, 14.0]));
        report.add_noted(&promise, HOST, "tmpfs", sample([120.0, 120.0, 140.0]));
        report.miss(&promise, "memcpy", "no memory");
        let text = results(&report);
        for part in [
            "── ramfs: Reading",
            "x: a call   ≥ 16× MISSED: 10.0 of 16 times host's speed",
            "tane                        12.0 ns  [11.0, 13.0]",
            "341 GB/s",
            "(tmpfs)",
            "10.0× [10.0, 11.0]",
            "memcpy                   no memory",
            "targets: 0 kept, 1 missed, 0 not judged",
            "missed: x",
            "\nmethod: Contestants take turns, each round",
            "\nversions: debugfs 1.47.0",
        ] {
            assert!(text.contains(part), "no {part:?} in\n{text}");
        }
    }

    #[test]
    fn lines_end_between_words() {
        assert_eq!(wrapped("one two  three", 7), ["one two", "three"]);
        assert_eq!(wrapped("longer than that", 3), ["longer", "than", "that"]);
        assert_eq!(wrapped("", 3), [""]);
    }

    #[test]
    fn the_list_has_every_row_with_its_set_and_target() {
        let all = crate::sets::promises();
        let text = list(&all);
        assert_eq!(text.lines().count(), all.len());
        let line = text.lines().find(|l| l.starts_with("getppid ")).unwrap();
        let words: Vec<_> = line.split_whitespace().collect();
        assert_eq!(words, ["getppid", "syscalls", "≥", "16×", "getppid(2)"]);
    }
}
