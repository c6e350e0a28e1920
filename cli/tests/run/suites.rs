//! Suites that others wrote, by `tane run`. Every run of the tests has a part of each; all
//! of them, with the host beside, is `scripts/suites`.

use crate::common::*;
use crate::suite::{expected, report, Extent, Place, Suite, SUITES};

/// How many units at a time: most of what tests do is to wait.
fn jobs() -> usize {
    let jobs = std::env::var("TANE_SUITES_JOBS").ok();
    jobs.and_then(|jobs| jobs.parse().ok()).unwrap_or(6)
}

#[track_caller]
fn a_part_passes(suite: &Suite) {
    if !crate::common::run::can_run() || tane_test_support::image(suite.kernel).is_none() {
        return;
    }
    let s = Scratch::new();
    let units = match (suite.make)(&s, Extent::Part) {
        Ok(units) => units,
        Err(why) => {
            assert!(std::env::var_os("CI").is_none(), "{}: {why}", suite.name);
            return tane_test_support::skip(&why);
        }
    };
    let here = suite.outcomes(&s, &units, Place::Here, jobs());
    let wrong = expected::differences(&expected::read(suite.name), &here);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn programs_of_the_posix_suite_end_as_on_any_linux() {
    a_part_passes(&crate::suite::posix::SUITE);
}

#[test]
fn the_go_librarys_own_tests_pass() {
    if let Some(why) = crate::suite::go::too_old() {
        return tane_test_support::skip(why);
    }
    a_part_passes(&crate::suite::go::SUITE);
}

#[test]
fn filters_of_calls_do_what_linuxs_own_tests_of_them_say() {
    a_part_passes(&crate::suite::seccomp::SUITE);
}

#[test]
fn a_list_that_is_too_long_or_too_short_is_an_error() {
    let known = expected::parse("# a comment\na/one is not there\na/two host: it fails there\na/three varies: now and then\n");
    let mut outcome = crate::suite::Outcome::default();
    outcome.failed.insert("a/one".into(), String::new());
    outcome.failed.insert("a/four".into(), "said so".into());
    let units = [("a".to_owned(), outcome)].into();
    let said = expected::differences(&known, &units);
    let wanted = [
        "a/four failed, and is not listed: said so",
        "a/two does not fail any more: take it off the list",
    ];
    assert_eq!(said, wanted);
    // What did not run is not judged.
    assert!(expected::differences(
        &known,
        &[("b".to_owned(), crate::suite::Outcome::default())].into()
    )
    .is_empty());
}

/// `scripts/suites`: those of TANE_SUITES, or all, here and on the host.
#[test]
#[ignore = "takes an hour: scripts/suites"]
fn all() {
    let names = std::env::var("TANE_SUITES").unwrap_or_default();
    let names: Vec<_> = names.split_whitespace().collect();
    for name in &names {
        let known = SUITES.iter().map(|suite| suite.name);
        let list = known.clone().collect::<Vec<_>>().join(", ");
        assert!(
            known.clone().any(|known| known == *name),
            "there is no suite {name}; there are: {list}"
        );
    }
    let mut wrong = Vec::new();
    for suite in SUITES
        .iter()
        .filter(|suite| names.is_empty() || names.contains(&suite.name))
    {
        let s = Scratch::new();
        let units =
            (suite.make)(&s, Extent::All).unwrap_or_else(|why| panic!("{}: {why}", suite.name));
        eprintln!("{}: {} units", suite.name, units.len());
        let here = suite.outcomes(&s, &units, Place::Here, jobs());
        let host = suite.outcomes(&s, &units, Place::Host, jobs());
        let known = expected::read(suite.name);
        report::replace(
            suite.name,
            &report::section(suite, &here, &host, &known, &conditions()),
        );
        wrong.extend(expected::differences(&known, &here));
        wrong.extend(report::wrong_about_the_host(&known, &here, &host));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn conditions() -> String {
    let of = |program: &str, words: &[&str]| {
        let done = std::process::Command::new(program)
            .args(words)
            .output()
            .expect("a program");
        text(&done.stdout).trim().to_owned()
    };
    let root = tane_test_support::is_root();
    let user = if root { "root" } else { "a user" };
    format!(
        "{}, host Linux {}, as {user}",
        of("date", &["+%F"]),
        of("uname", &["-r"])
    )
}
