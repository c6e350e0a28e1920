// SPDX-License-Identifier: GPL-2.0-only
//! Runs Kbuild, the same way everywhere: the result depends on the inputs
//! only, not on who builds, where and when.

use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use crate::{command, Result};

use crate::build::Job;

/// Build vmlinux in the image's own directory.
pub fn vmlinux(job: &Job) -> Result<()> {
    job.run(make(job)?.arg("vmlinux"), &job.recipe().name)
}

/// What Kbuild takes beside an image for modules that fit it.
pub fn prepare_modules(job: &Job) -> Result<()> {
    let title = format!("{}: preparing for modules", job.recipe().name);
    job.run(make(job)?.arg("modules_prepare"), &title)
}

/// The modules that a directory's Kbuild or Makefile names, into that directory.
pub fn modules(job: &Job, directory: &Path) -> Result<()> {
    let mut make = make(job)?;
    make.arg(format!("M={}", directory.display()));
    job.run(make.arg("modules"), &directory.display().to_string())
}

/// Kbuild of the image's own directory.
fn make(job: &Job) -> Result<Command> {
    let mut make = Command::new("make");
    make.arg("-C").arg(&job.source.tree);
    make.arg(format!("O={}", job.out.display()));
    make.arg(format!("-j{}", job.order.jobs));
    environment(&mut make, job)?;
    // What debug information calls a file depends on neither clone nor image.
    make.arg(format!(
        "KCFLAGS=-fdebug-prefix-map={}=.",
        job.layout().build().display()
    ));
    cache(&mut make, job);
    Ok(make)
}

/// Where ccache is installed, what another clone compiled is not compiled again: paths
/// below build/ are hashed as relative ones.
fn cache(make: &mut Command, job: &Job) {
    if command::output(Command::new("ccache").arg("--version")).is_err() {
        return;
    }
    make.args(["CC=ccache gcc", "HOSTCC=ccache gcc"])
        .env("CCACHE_BASEDIR", job.layout().build())
        .env("CCACHE_NOHASHDIR", "1");
}

/// What a build takes of its caller's environment; Kbuild and gcc would take a hundred names
/// more (LLVM, KCPPFLAGS, CPATH, CONFIG_SMP), and so would the make that may be our caller.
const TAKEN: &[&str] = &[
    "HOME",
    // LC_ALL goes before it, but ccache tells apart what was compiled with another.
    "LANG",
    "LD_LIBRARY_PATH",
    "PATH",
    "PKG_CONFIG_PATH",
    "TMPDIR",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
];

fn is_taken(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    // How ccache is set up, and where the compilers of some distributions find things.
    name.starts_with(b"CCACHE_")
        || name.starts_with(b"NIX_")
        || TAKEN.iter().any(|taken| taken.as_bytes() == name)
}

/// Settings for every make in the tree.
pub fn environment(command: &mut Command, job: &Job) -> Result<()> {
    only_what_is_taken(command);
    command
        .env("ARCH", "tane")
        .env("LC_ALL", "C")
        .env("LOCALVERSION", "")
        .env("KBUILD_BUILD_USER", "tane")
        .env("KBUILD_BUILD_HOST", "tane")
        .env("KBUILD_BUILD_VERSION", "1")
        .env("KBUILD_BUILD_TIMESTAMP", timestamp(job)?);
    Ok(())
}

fn only_what_is_taken(command: &mut Command) {
    let taken = std::env::vars_os().filter(|(name, _)| is_taken(name));
    command.env_clear().envs(taken);
}

/// The date of the source, in the form that `uname -v` shows.
fn timestamp(job: &Job) -> Result<String> {
    let makefile = job.source.tree.join("Makefile");
    let found = std::fs::metadata(&makefile).map_err(|e| format!("{}: {e}", makefile.display()))?;
    let date = format!("--date=@{}", found.mtime());
    let text = command::output(Command::new("date").args(["-u", &date]).env("LC_ALL", "C"))?;
    Ok(text.trim().to_string())
}

/// What a build runs, and Debian's package that has it.
const TOOLS: [(&str, &str); 14] = [
    ("ar", "binutils"),
    ("awk", "mawk"),
    ("bc", "bc"),
    ("bison", "bison"),
    ("flex", "flex"),
    ("gcc", "gcc"),
    ("ld", "binutils"),
    ("make", "make"),
    ("patch", "patch"),
    ("perl", "perl"),
    ("python3", "python3"),
    ("sha256sum", "coreutils"),
    ("tar", "tar"),
    ("xz", "xz-utils"),
];

/// Those that are not there, and what has them.
pub fn missing_tools() -> Vec<(&'static str, &'static str)> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = |name: &str| std::env::split_paths(&path).any(|dir| dir.join(name).is_file());
    let tools = TOOLS.into_iter();
    tools.filter(|(name, _)| !is_there(name)).collect()
}

fn remedy() -> String {
    let mut packages = TOOLS.map(|(_, package)| package).to_vec();
    packages.dedup();
    format!(
        "a build takes what Debian has in {}, libc6-dev and libelf-dev",
        packages.join(", ")
    )
}

/// What compiles and links, with versions.
pub fn tools() -> Result<String> {
    let mut first_lines = String::new();
    for tool in ["gcc", "ld"] {
        let text = command::output(Command::new(tool).arg("--version").env("LC_ALL", "C"))
            .map_err(|e| format!("{e}\n{}", remedy()))?;
        first_lines += text.lines().next().unwrap_or_default();
        first_lines += "; ";
    }
    Ok(first_lines.trim_end_matches("; ").to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_kbuild_or_gcc_would_take_of_an_environment_is_not_passed_on() {
        for name in [
            "LLVM",
            "KCFLAGS",
            "KCPPFLAGS",
            "KAFLAGS",
            "HOSTCFLAGS",
            "KBUILD_OUTPUT",
            "KCONFIG_CONFIG",
            "CONFIG_SMP",
            "CROSS_COMPILE",
            "MAKEFLAGS",
            "MAKEFILES",
            "CPATH",
            "GCC_EXEC_PREFIX",
            "V",
        ] {
            assert!(!is_taken(OsStr::new(name)), "{name}");
        }
        for name in ["PATH", "HOME", "CCACHE_DIR"] {
            assert!(is_taken(OsStr::new(name)), "{name}");
        }
        let mut shell = Command::new("env");
        only_what_is_taken(shell.env("KAFLAGS", "-Dodd"));
        let left = command::output(&mut shell).unwrap();
        assert!(left.lines().any(|line| line.starts_with("PATH=")), "{left}");
        assert!(!left.contains("KAFLAGS"), "{left}");
    }
}
