//! Commands whose programs sleep, and where they are found.

use super::Running;
use crate::common::*;
use crate::prisoner::Prisoner;
use std::process::{Child, Command, Stdio};

/// A program of that name which a shell is, and the PATH that finds it first.
pub fn program(s: &Scratch, name: &str, script: &str) -> String {
    let script = format!("#!/bin/sh\n{script}");
    let program = s.write(&format!("bin/{name}"), script.as_bytes());
    succeed(s.tool("chmod").arg("+x").arg(program));
    let places = std::env::var("PATH").expect("PATH");
    format!("{}:{places}", s.join("bin").display())
}

/// `tane fsck`, whose program sleeps.
pub fn checking(s: &Scratch, options: &[&str]) -> Running {
    sleeping(s, &[options, &["fsck", "disk.img"]].concat())
}

/// A check, the number of its program, and that as whoever has taken it over has it.
pub fn checker(s: &Scratch) -> (Running, i32, Prisoner) {
    let command = checking(s, &[]);
    let pid = sleeper(&command.0);
    let tool = Prisoner::waiting_in(pid as u32, libc::SYS_clock_nanosleep, None);
    (command, pid, tool)
}

/// A verb whose program, e2fsck, sleeps.
pub fn sleeping(s: &Scratch, words: &[&str]) -> Running {
    sleeping_with(s, words, |_| {})
}

/// The same of a command that is started with something more.
pub fn sleeping_with(s: &Scratch, words: &[&str], more: impl FnOnce(&mut Command)) -> Running {
    s.ext4("disk.img", None, 64);
    let places = program(s, "e2fsck", "exec sleep 100000\n");
    let mut command = s.tane();
    command.env("PATH", places).env("A_SECRET", "of the caller");
    command.args(words);
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    heeds_ctrl_c(&mut command);
    more(&mut command);
    Running(command.spawn().expect("tane"))
}

pub fn word(pid: i32, field: &str) -> Option<String> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    Some(line.trim().to_owned())
}

pub fn children(of: i32) -> Vec<i32> {
    let all = std::fs::read_dir("/proc").expect("processes").flatten();
    let all = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut all: Vec<i32> = all.collect();
    all.retain(|pid| word(*pid, "PPid:").is_some_and(|ppid| ppid == of.to_string()));
    all
}

/// The program that this process had started by another one.
pub fn sleeper_of(pid: i32) -> Option<i32> {
    let mut all = children(pid).into_iter().flat_map(children);
    all.find(|pid| word(*pid, "Name:").as_deref() == Some("sleep"))
}

pub fn sleeper(command: &Child) -> i32 {
    let mut found = None;
    tane_test_support::eventually("the program runs", || {
        found = sleeper_of(command.id() as i32);
        found.is_some()
    });
    found.expect("just found")
}
