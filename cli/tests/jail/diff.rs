//! What code that an image got to run finds in a comparison with a directory of the host, and
//! what the process has that reads this directory.

use crate::common::*;
use crate::jailed::*;
use crate::prisoner::Outcome::Killed;
use crate::prisoner::*;
use std::process::Stdio;

#[test]
fn whoever_compares_an_image_with_a_directory_opens_nothing_and_who_reads_that_nothing_else() {
    if !has_prisoners() || !has_landlock() {
        return;
    }
    let s = Scratch::new();
    image(&s, 0);
    s.write("outside", b"a secret");
    for number in 0..4 * MANY {
        s.write(&format!("dir/a-rather-long-name-{number:060}"), b"a file");
    }
    let mut command = s.tane();
    command.args(["diff", "disk.img", "dir"]);
    command.stdout(Stdio::piped()).stderr(Stdio::inherit());
    let command = Running(command.spawn().expect("tane"));
    let mut thread = Prisoner::writing_to(&command.0, STDOUT);
    let teller = gofer(command.0.id());
    let inside = format!("dir/a-rather-long-name-{:060}", 7);
    let [inside, dir, outside] = [&inside, "dir", "outside"].map(|name| path(&s.join(name)));
    for name in [&inside, &dir, &outside, &path(&s.join("disk.img"))] {
        for flags in [libc::O_RDONLY, libc::O_RDWR, libc::O_PATH] {
            assert_eq!(thread.open(name, flags), DENIED, "{name:?}");
        }
    }
    drop(thread);
    let calls = [libc::SYS_sendmsg, libc::SYS_write];
    let mut teller = Prisoner::waiting_in_any(teller, &calls);
    done(&teller.open(&inside, libc::O_RDONLY));
    done(&teller.open(&dir, libc::O_RDONLY));
    for (name, flags) in [
        (&inside, libc::O_RDWR),
        (&inside, libc::O_WRONLY | libc::O_TRUNC),
        (&outside, libc::O_RDONLY),
        (&path(&s.join("disk.img")), libc::O_RDONLY),
        (&path(&s.join("dir/new")), libc::O_CREAT | libc::O_WRONLY),
        (&c"/etc/passwd".to_owned(), libc::O_RDONLY),
    ] {
        assert_eq!(teller.open(name, flags), DENIED, "{name:?}");
    }
    let at = teller.text(&inside);
    refused(&teller.call(libc::SYS_unlinkat, &[HERE, at, 0]));
    refused(&teller.call(libc::SYS_fchmodat, &[HERE, at, 0o777]));
    let unix = [libc::AF_UNIX as u64, libc::SOCK_STREAM as u64, 0];
    assert_eq!(teller.call(libc::SYS_socket, &unix), Killed(libc::SIGSYS));
}
