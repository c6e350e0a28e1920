//! Looks after workers: counts what they report, starts another when one dies or
//! hangs, and prints a row of docs/hostile.md.

use super::{foreign, known, limit, setting};
use crate::common::TempDir;
use serde_json::{json, Value};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError};
use std::time::Duration;
use tane_test_support::skip;

/// Images for each file system where nobody asks for more: all of them within
/// two minutes.
const COUNT: u64 = 12;

const NEWS: &str = "what the kernel does wrong and tests/hostile/known.rs does not name";

#[derive(Default)]
struct Tally {
    counts: BTreeMap<String, u64>,
    warnings: BTreeMap<String, Vec<u64>>,
    deaths: BTreeMap<String, Vec<String>>,
    /// How often: twice, if it does so with a fresh kernel too.
    hangs: BTreeMap<u64, u32>,
    /// What must not be: the caller crashed, or could not be freed.
    failures: Vec<String>,
    slowest: u64,
    lines: Vec<Value>,
}

impl Tally {
    fn count(&self, result: &str) -> u64 {
        self.counts.get(result).copied().unwrap_or_default()
    }

    fn add(&mut self, line: Value) {
        let seed = line["seed"].as_u64().unwrap_or_default();
        if line["hang"].is_string() {
            *self.hangs.entry(seed).or_default() += 1;
        } else if let Some(result) = line["result"].as_str() {
            let hung = self.hangs.contains_key(&seed);
            let result = if hung { "hung" } else { result };
            *self.counts.entry(result.to_owned()).or_default() += 1;
            self.slowest = self.slowest.max(line["ms"].as_u64().unwrap_or_default());
            for warning in line["warnings"].as_array().into_iter().flatten() {
                let warning = warning.as_str().unwrap_or_default();
                self.warnings
                    .entry(warning.to_owned())
                    .or_default()
                    .push(seed);
            }
            if result == "died" {
                let place = line["place"].as_str().unwrap_or_default().to_owned();
                let alone = line["alone"].as_bool().unwrap_or_default();
                let seed = if alone {
                    seed.to_string()
                } else {
                    format!("{seed} (not alone)")
                };
                self.deaths.entry(place).or_default().push(seed);
            }
            if result == "no useful error" {
                let error = &line["error"];
                self.failures
                    .push(format!("seed {seed}: no useful error: {error}"));
            }
            self.lines.push(line);
        }
    }

    /// Tried, refused, mounted with errors, without, died, hung, warnings.
    fn row(&self, name: &str) -> String {
        let tried: u64 = self.counts.values().sum();
        let results = ["refused", "errors", "fine", "died", "hung"].map(|r| self.count(r));
        let [refused, errors, fine, died, hung] = results;
        let warnings: usize = self.warnings.values().map(Vec::len).sum();
        let slowest = self.slowest as f64 / 1000.0;
        format!("| {name} | {tried} | {refused} | {errors} | {fine} | {warnings} | {died} | {hung} | {slowest:.1} s |")
    }

    /// What nobody has looked at yet.
    fn news(&self, name: &str) -> Vec<String> {
        let warnings = self
            .warnings
            .iter()
            .filter(|(place, _)| !known::warns(place));
        let warnings = warnings.map(|(place, seeds)| format!("WARNING {place}: {seeds:?}"));
        // One that a fresh kernel comes back from was a matter of the host's speed.
        let hangs = self
            .hangs
            .iter()
            .filter(|(_, times)| **times > 1)
            .map(|(seed, _)| *seed);
        let hangs = hangs.filter(|seed| !known::hangs(name, *seed));
        let hangs = hangs.map(|seed| format!("seed {seed} hangs"));
        let deaths = self.deaths.iter().filter(|_| !known::dies(name));
        let deaths = deaths.map(|(place, seeds)| format!("died: {place}: {seeds:?}"));
        warnings.chain(hangs).chain(deaths).collect()
    }

    fn findings(&self, name: &str) -> String {
        let mut text = String::new();
        for (place, seeds) in &self.deaths {
            text += &format!("{name} died: {place}: seeds {}\n", seeds.join(" "));
        }
        for (place, seeds) in &self.warnings {
            let mut seeds = seeds.clone();
            seeds.dedup();
            let shown: Vec<_> = seeds.iter().take(8).map(u64::to_string).collect();
            let more = if seeds.len() > 8 { " ..." } else { "" };
            let shown = shown.join(" ");
            text += &format!(
                "{name} warning: {place}: {} seeds: {shown}{more}\n",
                seeds.len()
            );
        }
        if !self.hangs.is_empty() {
            text += &format!("{name} hangs: seeds {:?}\n", self.hangs.keys());
        }
        text
    }
}

fn start(name: &str, dir: &Path, first: u64, end: u64) -> (Child, Receiver<Value>) {
    let program = std::env::current_exe().expect("this program");
    let mut child = Command::new(program)
        .args(["--exact", "worker", "--ignored", "--nocapture"])
        .env("TANE_HOSTILE_WORKER", format!("{name} {first} {end}"))
        .env("TANE_HOSTILE_WORKER_DIR", dir)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a worker");
    let out = BufReader::new(child.stdout.take().expect("its stdout"));
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for line in out.split(b'\n').map_while(Result::ok) {
            let value = serde_json::from_slice::<Value>(&line).ok();
            if value.is_some_and(|value| value.is_object() && sender.send(value).is_err()) {
                return;
            }
        }
    });
    (child, receiver)
}

/// One worker until its end: true if it is done, else the seed to go on with.
fn watch(name: &str, dir: &Path, first: u64, end: u64, tally: &mut Tally) -> Result<bool, u64> {
    let (mut child, lines) = start(name, dir, first, end);
    // A worker cuts a hang itself, and ends itself if that fails.
    let patience = limit() * 2 + Duration::from_secs(120);
    let mut current = first;
    let mut what = String::from("the start");
    let mut skipped = false;
    let mut done = false;
    loop {
        match lines.recv_timeout(patience) {
            Ok(line) => {
                if let Some(text) = line["what"].as_str() {
                    current = line["seed"].as_u64().unwrap_or(current);
                    what = format!("{}: {text}", line["kind"].as_str().unwrap_or_default());
                }
                skipped |= line["skip"].is_string();
                done |= line["end"].is_boolean();
                tally.add(line);
            }
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                let _ = child.kill();
                tally
                    .failures
                    .push(format!("seed {current}: hangs past any limit: {what}"));
                break;
            }
        }
    }
    let status = child.wait().expect("the worker's status");
    if done || skipped {
        assert!(status.success(), "a worker for {name}: {status}");
        return Ok(!skipped);
    }
    if tally.failures.is_empty()
        || !tally
            .failures
            .iter()
            .any(|f| f.starts_with(&format!("seed {current}:")))
    {
        tally.failures.push(format!(
            "seed {current}: the caller ended with {status}: {what}"
        ));
    }
    Err(current + 1)
}

/// Every image of this file system: an error or a mount, in time, and the caller
/// lives. What the kernel itself does wrong is printed, with the seeds, and fails the
/// test unless it is known.
///
/// TANE_HOSTILE_SEED and TANE_HOSTILE_COUNT choose the images, TANE_HOSTILE_LIMIT
/// the seconds for each, TANE_HOSTILE_DIR where sound images and reports stay.
pub fn hunt(name: &str) {
    let temporary = TempDir::new();
    let kept = std::env::var_os("TANE_HOSTILE_DIR").map(PathBuf::from);
    let dir = kept.as_deref().unwrap_or(temporary.path()).join(name);
    let first = setting("TANE_HOSTILE_SEED", 0);
    let end = first + setting("TANE_HOSTILE_COUNT", COUNT);
    go_through(name, &dir, first..end, kept.is_some().then_some(&dir));
}

/// The same for the images of another project, each once to be read and once to be
/// written.
pub fn hunt_foreign(package: &str) {
    let dir = foreign::dir(package);
    let count = foreign::load(&dir).len() as u64 * foreign::TIMES;
    if count == 0 {
        let remedy = "scripts/foreign-images fetches them";
        return skip(format!("no images in build/foreign/{package}: {remedy}"));
    }
    let report = std::env::var_os("TANE_HOSTILE_DIR").map(|dir| PathBuf::from(dir).join(package));
    if let Some(report) = &report {
        std::fs::create_dir_all(report).expect("a directory");
    }
    go_through(package, &dir, 0..count, report.as_ref());
}

fn go_through(name: &str, dir: &Path, seeds: Range<u64>, report_to: Option<&PathBuf>) {
    let Range {
        start: mut first,
        end,
    } = seeds;
    let mut tally = Tally::default();
    while first < end {
        match watch(name, dir, first, end, &mut tally) {
            Ok(true) => break,
            Ok(false) => return skip(format!("a tool that makes {name} is missing")),
            Err(next) => first = next,
        }
    }
    println!("{}\n{}", tally.row(name), tally.findings(name));
    if let Some(to) = report_to {
        let report = json!({
            "row": tally.row(name), "findings": tally.findings(name),
            "failures": tally.failures, "images": tally.lines,
        });
        std::fs::write(to.join("report.json"), report.to_string()).expect("the report");
    }
    assert!(tally.failures.is_empty(), "{}", tally.failures.join("\n"));
    let news = tally.news(name);
    assert!(news.is_empty(), "{NEWS}:\n{}", news.join("\n"));
}

#[test]
fn what_the_kernel_does_wrong_is_news_unless_it_is_known() {
    let mut tally = Tally::default();
    let warns = |place: &str| json!({"seed": 1, "result": "fine", "warnings": [place]});
    tally.add(warns("fs/inode.c:336 drop_nlink"));
    tally.add(json!({"seed": 2, "hang": "once"}));
    assert_eq!(tally.news("minix"), [""; 0]);
    tally.add(warns("fs/inode.c:12 other"));
    tally.add(json!({"seed": 2, "hang": "with a fresh kernel too"}));
    tally.add(json!({"seed": 3, "result": "died", "place": "kernel BUG at x.c:1, in f"}));
    assert_eq!(tally.news("minix").len(), 3);
}
