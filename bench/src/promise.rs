//! What is promised.

/// A group of measurements.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Set {
    Syscalls,
    Boot,
    Cat,
    Extract,
    Build,
}

impl Set {
    pub fn name(self) -> &'static str {
        match self {
            Self::Syscalls => "syscalls",
            Self::Boot => "boot",
            Self::Cat => "cat",
            Self::Extract => "extract",
            Self::Build => "build",
        }
    }
}

/// When a promise is kept.
#[derive(Clone, Copy, Debug)]
pub enum Target {
    /// So many times faster than the host's own kernel.
    Faster(f64),
    /// At most so much, in the promise's unit.
    AtMost(f64),
    /// Only reported.
    None,
}

pub struct Promise {
    pub name: &'static str,
    pub set: Set,
    pub what: &'static str,
    pub unit: &'static str,
    pub target: Target,
}

impl Promise {
    pub fn target_text(&self) -> String {
        match self.target {
            Target::Faster(times) => format!("≥ {times}×"),
            Target::AtMost(most) => format!("≤ {most} {}", self.unit),
            Target::None => String::new(),
        }
    }
}

const fn promise(
    name: &'static str,
    set: Set,
    what: &'static str,
    unit: &'static str,
    target: Target,
) -> Promise {
    Promise {
        name,
        set,
        what,
        unit,
        target,
    }
}

use Set::*;
use Target::{AtMost, Faster};

#[rustfmt::skip]
pub const PROMISES: &[Promise] = &[
    promise("getppid", Syscalls, "getppid", "ns", Faster(11.0)),
    promise("open-close", Syscalls, "open and close a file on tmpfs", "ns", Faster(7.0)),
    promise("pread-1", Syscalls, "pread of 1 B on tmpfs", "ns", Faster(8.0)),
    promise("pwrite-1", Syscalls, "pwrite of 1 B on tmpfs", "ns", Faster(8.0)),
    promise("pread-4k", Syscalls, "pread of 4 KiB on tmpfs", "ns", Faster(5.0)),
    promise("pwrite-4k", Syscalls, "pwrite of 4 KiB on tmpfs", "ns", Faster(5.0)),
    promise("boot-default", Boot, "`default` image, 256 MiB: start to first call", "ms", AtMost(25.0)),
    promise("boot-tiny", Boot, "`tiny` image, 256 MiB: start to first call", "ms", AtMost(6.0)),
    promise("resident-default", Boot, "`default` image, 256 MiB: resident after boot", "MB", AtMost(45.0)),
    promise("resident-tiny", Boot, "`tiny` image, 256 MiB: resident after boot", "MB", AtMost(16.0)),
    promise("cat", Cat, "one small file out of ext4, whole process", "ms", AtMost(40.0)),
    promise("extract-many", Extract, "10,000 small files out of ext4, whole process", "ms", AtMost(400.0)),
    promise("extract-large", Extract, "one file of 256 MiB out of ext4, whole process", "ms", AtMost(250.0)),
    promise("build-default", Build, "clean build of the `default` image", "s", Target::None),
];

/// The promises that `only` names, by name or set; all if it names none.
pub fn choose(only: &[String]) -> Result<Vec<&'static Promise>, String> {
    let named = |p: &Promise, word: &str| p.name == word || p.set.name() == word;
    if let Some(word) = only.iter().find(|w| !PROMISES.iter().any(|p| named(p, w))) {
        return Err(format!(
            "nothing is called {word}; --list shows what there is"
        ));
    }
    let wanted = |p: &&Promise| only.is_empty() || only.iter().any(|w| named(p, w));
    Ok(PROMISES.iter().filter(wanted).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_sets_choose() {
        let words = |list: &[&str]| list.iter().map(|w| w.to_string()).collect::<Vec<_>>();
        assert_eq!(choose(&[]).unwrap().len(), PROMISES.len());
        let names = |only: &[&str]| -> Vec<_> {
            let found = choose(&words(only)).unwrap();
            found.iter().map(|p| p.name).collect()
        };
        assert_eq!(names(&["cat", "getppid"]), ["getppid", "cat"]);
        assert_eq!(names(&["extract"]), ["extract-many", "extract-large"]);
        assert!(choose(&words(&["ctx"])).is_err());
    }
}
