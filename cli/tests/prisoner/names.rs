//! Names of system calls, from Linux's table.

use std::collections::BTreeMap;
use std::sync::OnceLock;

fn all() -> &'static BTreeMap<u32, &'static str> {
    static ALL: OnceLock<BTreeMap<u32, &'static str>> = OnceLock::new();
    ALL.get_or_init(|| {
        let text = include_str!("../../src/verbs/syscall_names.txt");
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let pairs = lines.filter_map(|line| line.split_once(' '));
        pairs
            .map(|(n, name)| (n.parse().expect("a number"), name))
            .collect()
    })
}

/// The name, or the number where Linux 6.12 has none.
pub fn name(number: u32) -> String {
    all()
        .get(&number)
        .map_or(format!("{number:#x}"), |name| (*name).into())
}

pub fn number(name: &str) -> Option<u32> {
    all().iter().find(|(_, is)| **is == name).map(|(n, _)| *n)
}
