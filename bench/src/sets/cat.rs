//! One small file out of an image, each time by a new process.

use crate::guestfish;
use crate::paths::Paths;
use crate::promise::{Promise, Set};
use crate::race::{race, Contestant};
use crate::readers;
use crate::report::{Report, TANE};
use crate::target::Target::AtMost;
use crate::tool;
use crate::workload::{self, Kind, Workload, FILE, TREE};
use std::ffi::OsString;
use std::process::Command;
use std::time::Instant;

pub fn promises() -> Vec<Promise> {
    let what = "one small file out of ext4, whole process";
    vec![Promise::new("cat", Set::Cat, what, "ms", AtMost(15.0))]
}

pub fn measure(promise: &Promise, paths: &Paths, report: &mut Report) -> Result<(), String> {
    let Workload { image, .. } = &Workload::get(paths, Kind::Single)?;
    let expected = &workload::single();
    let inside = &format!("{TREE}/{FILE}");
    // As users run it: jailed, with the kernel image of its own choice; or with this.
    let tane = |config: Option<&str>| {
        let mut command = readers::tane(paths, &["cat"], config)?;
        command.arg(readers::inside(image, inside));
        timed(command, expected)
    };
    let debugfs = || {
        let request = format!("cat /{inside}");
        timed(readers::debugfs_does(&request, image)?, expected)
    };
    let seven_zip = || {
        let mut command = tool::command(&tool::seven_zip()?, ["x", "-so"]);
        command.arg(image).arg(inside);
        timed(command, expected)
    };
    let by_guestfish = || {
        // Its cat prints a newline more.
        let file = OsString::from(format!("/{inside}"));
        let requests = ["download".as_ref(), file.as_os_str(), "-".as_ref()];
        timed(guestfish::command(image, &requests)?, expected)
    };
    let contestants = vec![
        Contestant::new(TANE, || tane(None)),
        Contestant::new("tane, default image", || tane(Some("default"))),
        Contestant::new("debugfs", debugfs),
        Contestant::new("7-Zip", seven_zip).noted(tool::which_seven_zip()),
        guestfish::contestant(by_guestfish),
    ];
    race(promise, report.runs, contestants, report);
    Ok(())
}

/// From spawn to exit, with all it prints read.
fn timed(mut command: Command, expected: &[u8]) -> Result<f64, String> {
    let start = Instant::now();
    let output = tool::output(&mut command)?;
    let time = tool::ms(start);
    if output.stdout != expected {
        return Err("what it printed is not what the file holds".into());
    }
    Ok(time)
}
