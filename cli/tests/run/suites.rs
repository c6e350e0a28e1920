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
    if let Some(why) = (suite.other_version)() {
        return tane_test_support::skip(why);
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
    a_part_passes(&crate::suite::go::SUITE);
}

#[test]
fn what_programs_ask_for_passes_linuxs_own_tests() {
    a_part_passes(&crate::suite::kselftest::SUITE);
}

#[test]
fn scripts_say_what_bashs_own_tests_have_written_down() {
    a_part_passes(&crate::suite::bash::SUITE);
}

#[test]
fn small_programs_and_a_shell_pass_busyboxs_own_tests() {
    a_part_passes(&crate::suite::busybox::SUITE);
}

#[test]
fn git_passes_its_own_tests() {
    a_part_passes(&crate::suite::git::SUITE);
}

#[test]
fn file_systems_are_to_programs_what_posix_says() {
    a_part_passes(&crate::suite::pjdfstest::SUITE);
}

#[test]
fn databases_pass_sqlites_own_tests() {
    a_part_passes(&crate::suite::sqlite::SUITE);
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

#[test]
fn no_unit_of_a_part_varies_as_a_whole() {
    for suite in SUITES {
        for (name, known) in expected::read(suite.name) {
            // Whatever comes of it, nothing would be said.
            let varies = known.kind == expected::Kind::Varies;
            assert!(
                !varies || !suite.part.contains(&&*name),
                "{}: {name}: {}",
                suite.name,
                known.reason
            );
        }
    }
}

#[test]
fn a_list_is_of_one_release_of_a_program() {
    use crate::suite::debian::differs;
    for same in ["5.2.15-2+b8", "1:5.2-1"] {
        assert!(!differs(same, "5.2"), "{same}");
    }
    for other in ["5.20.1-1", "5.1.4-2", "1:6.2-1"] {
        assert!(differs(other, "5.2"), "{other}");
    }
    assert!(!differs("", "5.2"), "what is not installed");
}

#[test]
fn a_test_that_runs_twice_counts_once() {
    let said = "a::erofs ok\nb::erofs FAILED\n said so\na::erofs skipped\nb::erofs skipped\n\
                a::one ok\na::two skipped\n";
    let outcome = (crate::suite::pjdfstest::SUITE.read)(said);
    assert_eq!((outcome.passed, outcome.skipped), (2, 1));
    assert_eq!(outcome.failed.len(), 1);
}

#[test]
fn a_unit_of_busyboxs_tests_that_ends_early_has_failed() {
    let read = crate::suite::busybox::SUITE.read;
    let failed = |said: &str| read(said).failed.into_keys().collect::<Vec<_>>();
    assert!(failed("PASS: one\n= 0\n").is_empty());
    assert_eq!(failed("PASS: one\nFAIL: a b\n= 1\n"), ["a_b"]);
    // Its end was not reached, or a script's last line was not.
    assert_eq!(failed("PASS: one\n"), [""]);
    assert_eq!(failed("PASS: one\n= 2\n"), [""]);
    assert_eq!(failed("PASS: one\nFAIL: a b\n"), ["", "a_b"]);
}

#[test]
fn a_script_of_sqlites_says_which_of_its_tests_failed_or_has_failed_itself() {
    let read = crate::suite::sqlite::SUITE.read;
    let good = read("a-1... Ok\nb-1... Omitted\n0 errors out of 12 tests on vm Linux\n");
    assert_eq!((good.passed, good.skipped, good.failed.len()), (12, 1, 0));
    let bad = read(
        "! a-1 expected: [1]\n! a-1 got:      [0]\n2 errors out of 12 tests on vm Linux\n\
         !Failures on these tests: a-1 a-2\n",
    );
    assert_eq!(bad.passed, 10);
    assert_eq!(bad.failed["a-1"], "expected: [1] | got:      [0]");
    // Its end was not reached, or not all that failed is named.
    for early in ["a-1... Ok\na-2...", "1 errors out of 2 tests on vm Linux\n"] {
        assert!(read(early).failed.contains_key(""), "{early}");
    }
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
        if let Some(why) = (suite.other_version)() {
            wrong.push(format!("{} has not run: {why}", suite.name));
            continue;
        }
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
