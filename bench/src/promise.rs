//! What is measured and what is promised of it.

use crate::target::Target;
use serde::{Deserialize, Serialize};

/// A group of measurements, and one picture.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Set {
    Syscalls,
    Ramfs,
    Instructions,
    Threads,
    Net,
    Files,
    Create,
    Caches,
    Xarray,
    Probes,
    Boot,
    Programs,
    Checked,
    Cat,
    Extract,
    Mount,
    Make,
    Python,
    Build,
}

impl Set {
    pub const ALL: [Set; 19] = [
        Self::Syscalls,
        Self::Ramfs,
        Self::Instructions,
        Self::Threads,
        Self::Net,
        Self::Files,
        Self::Create,
        Self::Caches,
        Self::Xarray,
        Self::Probes,
        Self::Boot,
        Self::Programs,
        Self::Checked,
        Self::Cat,
        Self::Extract,
        Self::Mount,
        Self::Make,
        Self::Python,
        Self::Build,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Syscalls => "syscalls",
            Self::Ramfs => "ramfs",
            Self::Instructions => "instructions",
            Self::Threads => "threads",
            Self::Net => "net",
            Self::Files => "files",
            Self::Create => "create",
            Self::Caches => "caches",
            Self::Xarray => "xarray",
            Self::Probes => "probes",
            Self::Boot => "boot",
            Self::Programs => "programs",
            Self::Checked => "checked",
            Self::Cat => "cat",
            Self::Extract => "extract",
            Self::Mount => "mount",
            Self::Make => "make",
            Self::Python => "python",
            Self::Build => "build",
        }
    }

    /// The heading of its table and picture.
    pub fn title(self) -> &'static str {
        match self {
            Self::Syscalls => "System calls, one thread",
            Self::Ramfs => "Reading and writing files in memory",
            Self::Instructions => "Instructions of one warm call inside tane",
            Self::Threads => "The same calls from several threads",
            Self::Net => "TCP and UDP",
            Self::Files => "Files on ext4 in a disk file",
            Self::Create => "1,000 threads or processes at once",
            Self::Caches => "Two threads writing: what sharing cache lines costs",
            Self::Xarray => "XArray beside hash tables, inside the kernel",
            Self::Probes => "Finding one of many probes by its address",
            Self::Boot => "Start to first call, and memory then",
            Self::Programs => "What ordinary programs pay, on this Linux and on the host",
            Self::Checked => "Checked code beside native code and the host",
            Self::Cat => "One small file out of an ext4 image, whole process",
            Self::Extract => "A tree out of an image, whole process",
            Self::Mount => "A tree out of an ext4 image, by cp -a from a mount of it",
            Self::Make => "An ext4 image of a tree, whole process",
            Self::Python => "Many small files out of an ext4 image, by Python",
            Self::Build => "Building a kernel image",
        }
    }
}

/// One row of the table: a measurement, with a target if it is promised.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Promise {
    pub name: String,
    pub set: Set,
    pub what: String,
    /// Of the figures, less being better unless the target says otherwise.
    pub unit: String,
    pub target: Target,
    /// Its place on a curve, if it is one of a series.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub point: Option<Point>,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Point {
    /// The diagram of the set's picture.
    pub panel: String,
    pub x: f64,
    /// Bytes that are moved in the measured time; 0 if that is not the matter.
    pub bytes: u64,
}

impl Promise {
    pub fn new(
        name: impl Into<String>,
        set: Set,
        what: impl Into<String>,
        unit: &str,
        target: Target,
    ) -> Self {
        Self {
            name: name.into(),
            set,
            what: what.into(),
            unit: unit.into(),
            target,
            point: None,
        }
    }

    pub fn at(mut self, panel: &str, x: f64, bytes: u64) -> Self {
        let panel = panel.into();
        self.point = Some(Point { panel, x, bytes });
        self
    }

    pub fn target_text(&self) -> String {
        self.target.text(&self.unit)
    }

    /// Bytes in a figure's time, in GB (10^9) a second.
    pub fn gigabytes(&self, figure: f64) -> Option<f64> {
        let bytes = self.point.as_ref().map(|p| p.bytes).filter(|b| *b > 0)?;
        let seconds = figure * seconds(&self.unit)?;
        Some(bytes as f64 / seconds / 1e9)
    }
}

/// What a unit of time is.
pub fn seconds(unit: &str) -> Option<f64> {
    match unit {
        "ns" => Some(1e-9),
        "µs" => Some(1e-6),
        "ms" => Some(1e-3),
        "s" => Some(1.0),
        _ => None,
    }
}

/// The rows that `only` names, by name or set; all if it names none.
pub fn choose(all: Vec<Promise>, only: &[String]) -> Result<Vec<Promise>, String> {
    let named = |p: &Promise, word: &str| p.name == word || p.set.name() == word;
    if let Some(word) = only.iter().find(|w| !all.iter().any(|p| named(p, w))) {
        return Err(format!(
            "nothing is called {word}; --list shows what there is"
        ));
    }
    let wanted = |p: &Promise| only.is_empty() || only.iter().any(|w| named(p, w));
    Ok(all.into_iter().filter(wanted).collect())
}

/// A size as names and labels have it: 1, 64, 4k, 200k, 1m.
pub fn short_size(bytes: usize) -> String {
    match bytes {
        b if b >= 1 << 20 => format!("{}m", b >> 20),
        b if b >= 1 << 10 => format!("{}k", b >> 10),
        b => b.to_string(),
    }
}

/// A size for people: 1 B, 4 KiB, 1 MiB.
pub fn size(bytes: usize) -> String {
    match bytes {
        b if b >= 1 << 20 && b % (1 << 20) == 0 => format!("{} MiB", b >> 20),
        b if b >= 1 << 10 => format!("{} KiB", b >> 10),
        b => format!("{b} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sets;

    fn names(only: &[&str]) -> Result<Vec<String>, String> {
        let only: Vec<_> = only.iter().map(|w| w.to_string()).collect();
        let found = choose(sets::promises(), &only)?;
        Ok(found.into_iter().map(|p| p.name).collect())
    }

    #[test]
    fn names_and_sets_choose() {
        assert_eq!(names(&[]).unwrap().len(), sets::promises().len());
        assert_eq!(names(&["cat", "getppid"]).unwrap(), ["getppid", "cat"]);
        let make = names(&["make"]).unwrap();
        assert_eq!(make, ["make-many", "make-large"]);
        let error = names(&["ctx"]).unwrap_err();
        assert!(error.contains("ctx") && error.contains("--list"), "{error}");
    }

    #[test]
    fn every_name_is_used_once_and_no_set_is_empty() {
        let all = sets::promises();
        let mut names: Vec<_> = all.iter().map(|p| &p.name).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), all.len());
        for set in Set::ALL {
            assert!(all.iter().any(|p| p.set == set), "{}", set.name());
        }
    }
}
