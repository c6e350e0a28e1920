// SPDX-License-Identifier: GPL-2.0-only
//! Runs Kbuild, the same way everywhere: the result depends on the inputs
//! only, not on who builds, where and when.

use std::os::unix::fs::MetadataExt;
use std::process::Command;

use crate::{command, Result};

use super::Job;

/// Build vmlinux in the image's own directory.
pub fn vmlinux(job: &Job) -> Result<()> {
    let mut make = Command::new("make");
    make.arg("-C").arg(&job.source.tree);
    make.arg(format!("O={}", job.out.display()));
    make.arg(format!("-j{}", job.jobs));
    make.arg("vmlinux");
    environment(&mut make, job)?;
    // What debug information calls a file depends on neither clone nor image.
    make.arg(format!(
        "KCFLAGS=-fdebug-prefix-map={}=.",
        job.layout.build().display()
    ));
    cache(&mut make, job);
    command::logged(&mut make, &job.log, &job.recipe.name)
}

/// Where ccache is installed, what another clone compiled is not compiled again: paths
/// below build/ are hashed as relative ones.
fn cache(make: &mut Command, job: &Job) {
    if command::output(Command::new("ccache").arg("--version")).is_err() {
        return;
    }
    make.args(["CC=ccache gcc", "HOSTCC=ccache gcc"])
        .env("CCACHE_BASEDIR", job.layout.build())
        .env("CCACHE_NOHASHDIR", "1");
}

/// Settings for every make in the tree.
pub fn environment(command: &mut Command, job: &Job) -> Result<()> {
    // Our own caller may be a make; its job server is not for this one.
    for name in [
        "MAKEFLAGS",
        "MFLAGS",
        "MAKELEVEL",
        "MAKEOVERRIDES",
        "CROSS_COMPILE",
    ] {
        command.env_remove(name);
    }
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("KBUILD_") || text.starts_with("KCONFIG_") {
            command.env_remove(&name);
        }
    }
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

/// The date of the source, in the form that `uname -v` shows.
fn timestamp(job: &Job) -> Result<String> {
    let makefile = job.source.tree.join("Makefile");
    let found = std::fs::metadata(&makefile).map_err(|e| format!("{}: {e}", makefile.display()))?;
    let date = format!("--date=@{}", found.mtime());
    let text = command::output(Command::new("date").args(["-u", &date]).env("LC_ALL", "C"))?;
    Ok(text.trim().to_string())
}

/// What compiles and links, with versions.
pub fn tools() -> Result<String> {
    let mut first_lines = String::new();
    for tool in ["gcc", "ld"] {
        let text = command::output(Command::new(tool).arg("--version").env("LC_ALL", "C"))
            .map_err(|e| format!("{e}\n`make deps` installs what a build needs"))?;
        first_lines += text.lines().next().unwrap_or_default();
        first_lines += "; ";
    }
    Ok(first_lines.trim_end_matches("; ").to_string())
}
