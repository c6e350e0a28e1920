// SPDX-License-Identifier: GPL-2.0-only
//! Options that were not taken, each for a reason of its own.

use super::*;
use std::sync::atomic::{AtomicU32, Ordering};

const FILE: &str = r#"
mainmenu "x"
config NET
	bool "Networking"
	help
	  if this were read
	  config WRONG

	  depends on NOTHING

config SMP
	bool "Several"
	select HIDDEN if NET
	select OTHER

config HIDDEN
	bool
config OTHER
	bool "Other" if EXPERT

if NET
menu "Devices"
	depends on PCI || \
		USB
config CARD
	tristate "A card" # with a comment
	depends on !SMP
endmenu
endif

choice
	prompt "One of"
config FAST
	bool "Fast"
config SMALL
	bool "Small"
endchoice

config CPUS
	int "How many"
	range 2 64
config WORDS
	string "Words"
source "arch/$(SRCARCH)/Kconfig"
"#;

fn why(symbol: &str, value: &str, got: &[(&str, &str)]) -> String {
    // Tests run beside each other and ask for the same options.
    static ASKED: AtomicU32 = AtomicU32::new(0);
    let number = ASKED.fetch_add(1, Ordering::Relaxed);
    let dir = std::env::temp_dir().join(format!("tane-kconfig-{}-{number}", std::process::id()));
    std::fs::create_dir_all(dir.join("arch/tane")).unwrap();
    std::fs::write(dir.join("Kconfig"), FILE).unwrap();
    std::fs::write(dir.join("arch/tane/Kconfig"), "config PORT\n\tdef_bool y\n").unwrap();
    let tree = Tree::read(&dir).unwrap();
    std::fs::remove_dir_all(&dir).unwrap();
    let pair = |(name, value): &(&str, &str)| (format!("CONFIG_{name}"), (*value).to_owned());
    let got = got.iter().map(pair).collect();
    tree.why(&format!("CONFIG_{symbol}"), value, &got)
}

#[test]
fn the_terms_that_do_not_hold_are_named_with_what_they_are() {
    assert_eq!(
        why("CARD", "y", &[("NET", "y"), ("USB", "y"), ("SMP", "y")]),
        "it needs !SMP (SMP=y)"
    );
    assert_eq!(
        why("CARD", "y", &[]),
        "it needs NET, which is not set, and PCI || USB (PCI=n, USB=n)"
    );
}

#[test]
fn what_nobody_can_set_comes_with_something() {
    let said = why("HIDDEN", "y", &[("NET", "y")]);
    assert_eq!(said, "nobody can set it: it comes with SMP");
    let said = why("PORT", "n", &[("PORT", "y")]);
    assert_eq!(said, "nobody can unset it: it follows from other options");
    let said = why("OTHER", "y", &[("NET", "y")]);
    assert!(said.starts_with("it can be set only with EXPERT"), "{said}");
}

#[test]
fn what_is_selected_cannot_be_unset() {
    let got = [("SMP", "y"), ("NET", "y"), ("HIDDEN", "y")];
    assert_eq!(why("HIDDEN", "n", &got), "SMP selects it");
}

#[test]
fn what_is_misspelt_is_told_with_what_may_be_meant() {
    let said = why("SMALLL", "y", &[]);
    assert!(
        said.ends_with("no such option for this architecture; is SMALL meant?"),
        "{said}"
    );
    let said = why("WRONG", "y", &[]);
    assert!(
        said.ends_with("no such option for this architecture"),
        "{said}"
    );
}

#[test]
fn a_choice_a_range_and_a_kind_are_reasons_too() {
    assert_eq!(
        why("SMALL", "y", &[("FAST", "y")]),
        "it is one of a choice, and FAST is set"
    );
    assert_eq!(why("CPUS", "65", &[]), "it is a number from 2 to 64");
    assert_eq!(why("CPUS", "many", &[]), "it is a number (int)");
    assert_eq!(why("WORDS", "bare", &[]), "it is a string in quotes");
    assert_eq!(why("NET", "yes", &[]), "it is y or n");
    assert_eq!(
        why("NET", "m", &[]),
        "there are no modules in this image; y builds it in"
    );
}
