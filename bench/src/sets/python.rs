//! Many small files out of an image, by Python: our package and dissect's, each time
//! in a new interpreter that has its modules loaded. The image is opened, all files
//! are found and read whole, and it is closed.

use crate::paths::Paths;
use crate::promise::{Promise, Set};
use crate::race::{race, Contestant};
use crate::report::{Report, TANE};
use crate::target::Target;
use crate::tool;
use crate::workload::{source, Kind, Workload};
use std::fs;
use std::path::{Path, PathBuf};

const DISSECT: &str = "dissect.extfs";
/// It is `python/bench/read_files.py`, which can also be run alone.
const SCRIPT: &str = include_str!("../../../python/bench/read_files.py");

pub fn promises() -> Vec<Promise> {
    let row = |name: &str, how: &str, target| {
        let what = format!("10,000 small files out of ext4 by Python, {how}");
        Promise::new(name, Set::Python, what, "ms", target)
    };
    let read_many = "`read_many()`, jailed";
    vec![
        row("python-many", read_many, Target::than(DISSECT, 10.0)),
        row("python-many-open", "`open().read()`, jailed", Target::None),
    ]
}

pub fn measure(promise: &Promise, paths: &Paths, report: &mut Report) -> Result<(), String> {
    let python = interpreter(&paths.root)?;
    let script = paths.scratch.join("read_files.py");
    fs::write(&script, SCRIPT).map_err(|e| format!("{}: {e}", script.display()))?;
    let image = Workload::get(paths, Kind::Many)?.image;
    let job = Job { python, script };
    let source = source(paths, Kind::Many)?;
    let (_, wanted) = job.run("host", &source.0)?;
    drop(source);
    let lane = |subject, reader| {
        let (job, image, wanted) = (&job, &image, &wanted);
        Contestant::new(subject, move || match job.run(reader, image)? {
            (time, found) if found == *wanted => Ok(time),
            _ => Err("what it read is not what the files hold".into()),
        })
    };
    let ours = match promise.name.as_str() {
        "python-many" => "tane, read_many()",
        _ => "tane, open()",
    };
    let mut lanes = vec![lane(TANE, ours)];
    if promise.name == "python-many" {
        lanes.push(lane("tane, no jail", "the same, no jail"));
    }
    match job.has("dissect.extfs") {
        true => lanes.push(lane(DISSECT, DISSECT)),
        false => {
            let why = format!(
                "not installed: {} -m pip install dissect.extfs",
                job.shown()
            );
            report.miss(promise, DISSECT, &why);
        }
    }
    race(promise, report.runs, lanes, report);
    Ok(())
}

/// The one that has our package: that of its tests, else the system's.
fn interpreter(root: &Path) -> Result<PathBuf, String> {
    let own = root.join("build/venv/bin/python");
    let known = [
        Some(own).filter(|path| path.is_file()),
        tool::find("python3"),
    ];
    let has = |python: &PathBuf| has(python, "tane");
    let found = known.into_iter().flatten().find(has);
    found.ok_or_else(|| "no Python has the package: pip install ./python".into())
}

fn has(python: &Path, module: &str) -> bool {
    let mut command = tool::command(python, ["-c", &format!("import {module}")]);
    tool::output(&mut command).is_ok()
}

struct Job {
    python: PathBuf,
    script: PathBuf,
}

impl Job {
    fn has(&self, module: &str) -> bool {
        has(&self.python, module)
    }

    fn shown(&self) -> String {
        self.python.display().to_string()
    }

    /// Milliseconds, and what says which files with what content were found.
    fn run(&self, reader: &str, image: &Path) -> Result<(f64, String), String> {
        let mut command = tool::command(&self.python, [&self.script]);
        command.args(["--reader", reader, "--image"]).arg(image);
        // The package brings its own kernel image.
        command.env_remove("TANE_IMAGE");
        let output = tool::output(&mut command)?;
        let text = String::from_utf8_lossy(&output.stdout);
        let (time, found) = text.trim().split_once(' ').unwrap_or_default();
        let time = time.parse().map_err(|_| format!("it printed: {text}"))?;
        Ok((time, found.to_string()))
    }
}
