//! What docs/jail-calls.md says is allowed, and whether it is what is allowed.

use super::filter::Filters;
use super::names;
use std::collections::BTreeSet;

const LIST: &str = include_str!("../../../docs/jail-calls.md");

/// A call and what it takes, as the list writes it.
type Line = (String, String);

/// The lines of the list for this class of jail.
fn listed(class: char) -> BTreeSet<Line> {
    let rows = LIST.lines().filter_map(|line| {
        let cells: Vec<_> = line.strip_prefix('|')?.split('|').map(str::trim).collect();
        let [calls, ifs, classes, reason, ""] = cells[..] else {
            return None;
        };
        let is_row = calls.starts_with('`');
        assert!(!is_row || !reason.is_empty(), "no reason: {line}");
        (is_row && classes.contains(class)).then_some((calls, ifs))
    });
    let lines = rows.flat_map(|(calls, ifs)| {
        let calls = calls.split(' ').map(|call| call.trim_matches('`'));
        calls.flat_map(move |call| ifs.split(", ").map(move |one| (call.into(), one.into())))
    });
    lines.collect()
}

/// What the filters allow and the list does not have, and the other way round.
pub fn differences(filters: &Filters, pid: u32, class: char) -> Vec<String> {
    let allowed = filters.allowed(pid).into_iter();
    let lines = allowed.flat_map(|(number, ways)| {
        let name = names::name(number);
        ways.into_iter().map(move |way| (name.clone(), way))
    });
    let (allowed, listed): (BTreeSet<_>, _) = (lines.collect(), listed(class));
    let new = allowed.difference(&listed);
    let new = new.map(|(call, way)| format!("{class}: allowed, not listed: {call} {way}"));
    let gone = listed.difference(&allowed);
    let gone = gone.map(|(call, way)| format!("{class}: listed, not allowed: {call} {way}"));
    new.chain(gone).collect()
}
