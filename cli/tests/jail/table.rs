//! What the jail leaves open, as a whole: in each verb the filters that the host has for
//! the process that runs Linux are worked out and compared with docs/jail-calls.md, and
//! the attacks of prisoner/attacks.txt are tried in it.

use crate::common::terminal::Terminal;
use crate::common::*;
use crate::jailed::setting::Setting;
use crate::jailed::verbs::verbs;
use crate::jailed::{first_child, has_prisoners, Running};
use crate::prisoner::filter::Filters;
use crate::prisoner::{attacks, listed, Prisoner};
use std::collections::BTreeSet;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// nobody's
const USER: u32 = 65534;

#[test]
fn what_the_jail_allows_is_listed_with_its_reason() {
    if !has_prisoners() || !has_landlock() {
        return;
    }
    let setting = Setting::new(0);
    let mut wrong = BTreeSet::new();
    for verb in verbs() {
        let (_command, _pipe, pid) = setting.start(verb);
        let thread = Prisoner::behind(pid, verb.filters);
        let filters = Filters::of(&thread);
        wrong.extend(listed::differences(&filters, pid, verb.class));
    }
    #[cfg(feature = "fuse")]
    if crate::common::fuse::has_fuse() {
        let mounted = crate::common::fuse::Mounted::new(&setting.s, &["--rw", "written.img"]);
        let pid = mounted.server() as u32;
        let thread = Prisoner::behind(pid, 2);
        wrong.extend(listed::differences(&Filters::of(&thread), pid, 'M'));
    }
    wrong.extend(of_who_asks(&setting));
    let all: Vec<_> = wrong.into_iter().collect();
    assert!(all.is_empty(), "docs/jail-calls.md:\n{}", all.join("\n"));
}

/// What is wrong with the list of the process that asks for passphrases, where there is a
/// terminal. Nobody takes what the command writes.
fn of_who_asks(setting: &Setting) -> Vec<String> {
    let terminal = Terminal::new();
    let mut command = setting.s.tane();
    command.args(["cat", "disk.img:/big"]);
    terminal.give(&mut command);
    let command = Running(command.spawn().expect("tane"));
    let pid = first_child(command.0.id());
    let thread = Prisoner::behind(pid, 1);
    listed::differences(&Filters::of(&thread), pid, 'Q')
}

#[test]
fn as_many_attacks_are_tried_as_the_documents_say() {
    let (said, all) = (include_str!("../../../docs/jail-calls.md"), attacks::all());
    let has = format!("attacks.txt` has {} attacks", all.len());
    assert!(said.contains(&has), "docs/jail-calls.md: not: {has}");
}

/// One of each class; those that end the process, one for each call in the first class, in
/// the others one for all.
fn attacked_by(user: u32) {
    if !has_prisoners() || !has_landlock() || !can_be_reached(user) {
        return;
    }
    let setting = Setting::new(user);
    let place = setting.outside();
    let mut wrong = Vec::new();
    let mut classes = BTreeSet::new();
    for verb in verbs().filter(|verb| classes.insert(verb.class)) {
        let start = || {
            let (command, pipe, pid) = setting.start(verb);
            ((command, pipe), pid)
        };
        let each_call = verb.class == 'L';
        wrong.extend(attacks::try_all(
            verb.class,
            verb.filters,
            each_call,
            &place,
            start,
        ));
    }
    // Who mounts is root in any case, or a program of root's.
    #[cfg(feature = "fuse")]
    if user == 0 && crate::common::fuse::has_fuse() {
        let start = || {
            // The one before may be on its way out.
            let options = ["--rw", "--wait", "written.img"];
            let mounted = crate::common::fuse::Mounted::new(&setting.s, &options);
            let pid = mounted.server() as u32;
            (mounted, pid)
        };
        wrong.extend(attacks::try_all('M', 2, false, &place, start));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(setting.s.read("outside/secret"), b"a secret");
    let names = std::fs::read_dir(&place).expect("a listing");
    assert_eq!(names.count(), 1);
}

/// Whether this user can start the command, and read the kernel image; else the test is
/// skipped.
fn can_be_reached(user: u32) -> bool {
    let kernel = tane::default_image().expect("a kernel");
    let files = [Path::new(env!("CARGO_BIN_EXE_tane")), &kernel];
    let reached = files.iter().all(|file| {
        let mut test = Command::new("test");
        test.arg("-r").arg(file).uid(user).gid(user);
        test.status().expect("test").success()
    });
    if !reached {
        tane_test_support::skip("the command lies where only root can read");
    }
    reached
}

#[test]
fn no_attack_from_inside_a_command_of_roots_succeeds() {
    attacked_by(0);
}

#[test]
fn no_attack_from_inside_a_command_of_an_ordinary_user_succeeds() {
    attacked_by(USER);
}
