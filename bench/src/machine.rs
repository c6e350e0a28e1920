//! What the figures were measured on, and with which versions.

use crate::paths::Paths;
use crate::tool;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;

#[derive(Default, Deserialize, Serialize)]
pub struct Machine {
    pub date: String,
    pub cpu: String,
    pub cpus: usize,
    pub memory_mib: u64,
    pub virtual_machine: bool,
    pub system: String,
    pub kernel: String,
    /// Of the CPU's flaws, as the host's kernel tells: they make its calls slow.
    pub mitigations: BTreeMap<String, String>,
    /// Processes that wanted to run, on average of the last minute.
    pub load: f64,
    pub root: bool,
    /// Of tane, the kernel images and the peers.
    pub versions: BTreeMap<String, String>,
}

impl Machine {
    pub fn look(paths: &Paths) -> Self {
        let cpuinfo = read("/proc/cpuinfo");
        let first = |text: &str| text.split_whitespace().next().unwrap_or("").to_string();
        Self {
            date: tool::first_line("date", &["-u", "+%F"]).unwrap_or_default(),
            cpu: field(&cpuinfo, "model name", ':'),
            cpus: std::thread::available_parallelism().map_or(1, |n| n.get()),
            memory_mib: first(&field(&read("/proc/meminfo"), "MemTotal", ':'))
                .parse()
                .map_or(0, |kib: u64| kib / 1024),
            virtual_machine: field(&cpuinfo, "flags", ':')
                .split(' ')
                .any(|flag| flag == "hypervisor"),
            system: field(&read("/etc/os-release"), "PRETTY_NAME", '=')
                .trim_matches('"')
                .to_string(),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_string(),
            mitigations: mitigations(),
            load: first(&read("/proc/loadavg")).parse().unwrap_or(0.0),
            // SAFETY: takes and changes nothing.
            root: unsafe { libc::geteuid() } == 0,
            versions: versions(paths),
        }
    }

    /// A warning if others use the machine.
    pub fn busy(&self) -> Option<String> {
        (self.load > 0.5 * self.cpus as f64).then(|| {
            format!(
                "the machine is busy (load {} on {} CPUs): figures are worse than on a quiet one",
                self.load, self.cpus
            )
        })
    }

    /// In one line.
    pub fn summary(&self) -> String {
        format!(
            "{}{}, {} CPUs, {} MiB, {}, Linux {}, load {}, tane {}",
            self.cpu,
            if self.virtual_machine {
                " (virtual machine)"
            } else {
                ""
            },
            self.cpus,
            self.memory_mib,
            self.system,
            self.kernel,
            self.load,
            self.versions.get("tane").map_or("?", String::as_str)
        )
    }

    /// Of images and peers, in one line; of an image's SHA-256 the beginning.
    pub fn versions_text(&self) -> String {
        let others = self.versions.iter().filter(|(name, _)| *name != "tane");
        let one = |(name, version): (&String, &String)| {
            let short = version.split(' ').map(|word| match word.len() {
                64 => &word[..12],
                _ => word,
            });
            let version = short.collect::<Vec<_>>().join(" ");
            // Some name themselves.
            match version.starts_with(name.as_str()) {
                true => version,
                false => format!("{name} {version}"),
            }
        };
        others.map(one).collect::<Vec<_>>().join("; ")
    }
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// The value of the first line that begins with `name`.
fn field(text: &str, name: &str, separator: char) -> String {
    text.lines()
        .find(|line| line.starts_with(name))
        .and_then(|line| line.split_once(separator))
        .map(|(_, value)| value.trim().to_string())
        .unwrap_or_default()
}

fn mitigations() -> BTreeMap<String, String> {
    let entries = fs::read_dir("/sys/devices/system/cpu/vulnerabilities");
    entries
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let text = fs::read_to_string(entry.path()).ok()?;
            let name = entry.file_name().to_string_lossy().into_owned();
            Some((name, text.trim().to_string()))
        })
        .collect()
}

fn versions(paths: &Paths) -> BTreeMap<String, String> {
    let mut versions = BTreeMap::new();
    let root = paths.root.to_string_lossy();
    let git = ["-C", &root, "describe", "--always", "--dirty", "--tags"];
    let package = env!("CARGO_PKG_VERSION");
    let mut note = |name: &str, version: Option<String>| {
        if let Some(version) = version.filter(|v| !v.is_empty()) {
            versions.insert(name.to_string(), version);
        }
    };
    let described = paths.root.exists().then(|| tool::first_line("git", &git));
    let described = described.flatten().unwrap_or_else(|| package.to_string());
    note("tane", Some(described));
    for config in ["default", "tiny", "smp"] {
        let Ok(image) = paths.image(config) else {
            continue;
        };
        let text = read(&image.with_extension("manifest").to_string_lossy());
        let version = ["release", "sha256"].map(|name| field(&text, name, ':'));
        note(
            &format!("tane-{config}.elf"),
            Some(version.join(" ").trim().into()),
        );
    }
    note("debugfs", tool::first_line("debugfs", &["-V"]));
    let seven_zip = match tool::find("7zz") {
        Some(_) => "7zz",
        None => "7z",
    };
    note("7-Zip", tool::first_line(seven_zip, &[]));
    note("guestfish", tool::first_line("guestfish", &["--version"]));
    note("fuse2fs", tool::first_line("fuse2fs", &["-V"]));
    note("linux.uml", tool::first_line("linux.uml", &["--version"]));
    note("mount", tool::first_line("mount", &["--version"]));
    note("cp", tool::first_line("cp", &["--version"]));
    versions
}
