//! Tests that set up interfaces of the host's: in a network namespace of their own.

use crate::skip;
use std::process::Command;

const INSIDE: &str = "TANE_TEST_NAMESPACE";

/// Run the rest of the test of this name in a user and a network namespace, if there can be
/// tap interfaces there. `true`: this is the process that is in them.
#[track_caller]
pub fn in_namespace(test: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    let unshare = || {
        let mut command = Command::new("timeout");
        command.args(["300", "unshare", "--user", "--map-root-user", "--net"]);
        command
    };
    let tap = "test -c /dev/net/tun && exec 3<>/dev/net/tun";
    let allowed = unshare().args(["sh", "-c", tap]).output().expect("timeout");
    if !allowed.status.success() {
        let why = String::from_utf8_lossy(&allowed.stderr);
        skip(format!("no namespaces or tap interfaces here: {why}"));
        return false;
    }
    let me = std::env::current_exe().expect("this program");
    let mut again = unshare();
    again
        .arg(me)
        .args(["--exact", test, "--nocapture"])
        .env(INSIDE, "1");
    let output = again.output().expect("unshare");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{said}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    false
}
