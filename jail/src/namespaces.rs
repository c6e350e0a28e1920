//! Namespaces of this process's own, where the host gives them to anybody: a second wall
//! behind the filter for System V's memory, message queues, networks and the host's name.

use std::io;

/// This process, and what it starts, gets an IPC, network and UTS namespace of its own; who
/// is not root also one of users, in which he is who he was. True if all of it is had.
/// Before there are other threads. It takes about 0.4 ms, most of it for the network.
pub fn set_apart() -> bool {
    let own = libc::CLONE_NEWIPC | libc::CLONE_NEWNET | libc::CLONE_NEWUTS;
    // SAFETY: no memory involved.
    let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
    // SAFETY: as before.
    if user == 0 && unsafe { libc::unshare(own) } == 0 {
        return true;
    }
    // SAFETY: as before.
    if unsafe { libc::unshare(own | libc::CLONE_NEWUSER) } != 0 {
        return false;
    }
    // Without these it goes on as a user without a name, whom files know all the same.
    let set = |name: &str, text: String| std::fs::write(format!("/proc/self/{name}"), text);
    let known = || -> io::Result<()> {
        set("setgroups", "deny".into())?;
        set("gid_map", format!("{group} {group} 1"))?;
        set("uid_map", format!("{user} {user} 1"))
    };
    known().is_ok()
}
