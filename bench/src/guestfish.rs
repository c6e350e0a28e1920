//! guestfish, the peer that has Linux in a virtual machine of its own.

use crate::race::Contestant;
use crate::tool;
use crate::workload::TREE;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

/// Its machine may hang instead of coming up (seen with KVM inside a virtual machine).
const LIMIT_OF_START: &str = "90";
const LIMIT: &str = "600";
/// How often it runs: some seconds each time.
const RUNS: u32 = 3;
const EMULATED: &str = "emulated: it does not start with KVM here";

/// Does something by guestfish, each run by a new machine.
pub fn contestant<'a>(once: impl FnMut() -> Result<f64, String> + 'a) -> Contestant<'a> {
    let note = match is_emulated() {
        Ok(true) => EMULATED,
        _ => "",
    };
    Contestant::new("guestfish", once).at_most(RUNS).noted(note)
}

/// Its requests on the only file system of an image.
pub fn command(image: &Path, requests: &[&OsStr]) -> Result<Command, String> {
    let mut command = bare(LIMIT, is_emulated()?)?;
    command.args(["--ro", "--format=raw", "-a"]).arg(image);
    command.args(["-m", "/dev/sda"]).args(requests);
    Ok(command)
}

/// Copies the tree into the directory `to`.
pub fn copy_out(image: &Path, to: &Path) -> Result<Command, String> {
    let tree = OsString::from(format!("/{TREE}"));
    command(image, &["copy-out".as_ref(), &tree, to.as_os_str()])
}

fn bare(limit: &str, emulated: bool) -> Result<Command, String> {
    let program = tool::need("guestfish", "libguestfs-tools")?;
    let timeout = tool::need("timeout", "coreutils")?;
    // In the foreground: Ctrl-C is for it, too.
    let mut command = tool::command(&timeout, ["--foreground", "--kill-after=5", limit]);
    // Without libvirt, which may have no right to read the image.
    command.arg(program).env("LIBGUESTFS_BACKEND", "direct");
    if emulated {
        command.env("LIBGUESTFS_BACKEND_SETTINGS", "force_tcg");
    }
    Ok(command)
}

/// Whether its machine must be emulated; why not if it does not come up at all.
fn is_emulated() -> Result<bool, String> {
    static IS: OnceLock<Result<bool, String>> = OnceLock::new();
    let comes_up = |emulated| {
        let mut command = bare(LIMIT_OF_START, emulated)?;
        tool::output(command.args(["-a", "/dev/null", "run"])).map(|_| emulated)
    };
    let find = || {
        tool::need("guestfish", "libguestfs-tools")?;
        comes_up(false)
            .or_else(|_| comes_up(true))
            .map_err(|e| format!("its virtual machine does not come up: {e}"))
    };
    IS.get_or_init(find).clone()
}
