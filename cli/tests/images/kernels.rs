//! Which kernel image serves an image when nobody names one.

use crate::common::*;

/// Whether the small kernel image served it: the default one has a network.
fn is_tiny(s: &Scratch, image: &str) -> bool {
    let mut tane = s.tane();
    tane.env_remove("TANE_IMAGE").args(["dmesg", image]);
    !text(&succeed(&mut tane).stdout).contains("PF_INET")
}

#[test]
fn the_tiny_kernel_serves_what_it_knows_and_the_default_one_the_rest() {
    if !has_kernel() {
        return;
    }
    let both = tane::default_image().is_ok_and(|path| path.ends_with("tane-default.elf"));
    if !both || tane::tiny_image().is_none() {
        return tane_test_support::skip(
            "takes tane-tiny.elf beside tane-default.elf, and no TANE_IMAGE",
        );
    }
    let s = Scratch::new();
    s.ext4("plain.img", None, 16);
    assert!(is_tiny(&s, "plain.img"));
    s.ext4("quota.img", None, 16);
    succeed(s.tool("tune2fs").args(["-Q", "usrquota", "quota.img"]));
    assert!(!is_tiny(&s, "quota.img"));
    let mut asked = s.tane();
    asked
        .env_remove("TANE_IMAGE")
        .args(["cat", "--cpus", "2", "plain.img:/none"]);
    let said = text(&exit(&mut asked, 1).stderr);
    assert!(said.contains("plain.img:/none"), "{said}");
}

#[test]
fn the_kernel_has_as_many_cpus_as_asked_for() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    for (options, mask) in [(&[][..], 1), (&["--cpus", "2"], 3), (&["--cpus", "4"], 15)] {
        let mut tane = s.tane();
        tane.args(["syscall", "--json"]).args(options);
        tane.args(["sched_getaffinity", "0", "8", "buf:8"]);
        let said = text(&succeed(&mut tane).stdout);
        assert!(
            said.contains(&format!("\"{mask:02x}\"")),
            "{options:?}: {said}"
        );
    }
}
