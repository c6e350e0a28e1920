//! What all suites have in the tree `root` besides their own things, and the image of it.

use crate::common::*;

/// The program of `root` that runs a unit.
pub fn runs(s: &Scratch, script: &str) {
    s.write("root/suite/run", script.as_bytes());
    s.make_executable("root/suite/run");
}

/// Users and groups: some tests look for others than root.
pub fn users(s: &Scratch) {
    s.write(
        "root/etc/passwd",
        b"root:x:0:0::/root:/bin/sh\nbin:x:2:2::/bin:/bin/sh\nann:x:1000:1000::/home/ann:/bin/sh\n",
    );
    s.write("root/etc/group", b"root:x:0:\nbin:x:2:\nann:x:1000:\n");
}

/// Puts `root` into an image that has room for what tests write.
pub fn image(s: &Scratch) {
    let du = succeed(s.tool("du").args(["-sm", "root"]));
    let used = text(&du.stdout);
    let used = used.split_whitespace().next().and_then(|n| n.parse().ok());
    let used: u32 = used.expect("a size");
    s.ext4("suite.img", Some(&s.join("root")), used * 5 / 4 + 128);
}
