//! What processes have in memory.
//!
//! Pages that several share count once (PSS), so the sum over a tree of processes is
//! what would be free without it; those that Linux inside has for its memory are a
//! memfd mapped into one of them, and count there. getrusage(2) would not do: its
//! ru_maxrss is that of the largest process alone, and of a new one begins with what
//! its parent had. A cgroup would count the host's page cache of all files too.

use crate::tool::complaint;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Between two looks. What grows and shrinks again within that is missed; the memory
/// of a Linux inside, and a heap, hardly shrink.
const PAUSE: Duration = Duration::from_millis(10);

/// Run to the end: the most bytes that the process and its children had at a time.
pub fn peak(command: &mut Command) -> Result<u64, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let failed = |e: std::io::Error| format!("{name}: {e}");
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = Running(command.spawn().map_err(failed)?);
    let stderr = child.0.stderr.take();
    // Nobody who has much to say is to wait for a reader.
    let said = std::thread::spawn(move || {
        let mut text = Vec::new();
        stderr.map(|mut stderr| stderr.read_to_end(&mut text));
        text
    });
    let mut most = 0;
    let status = loop {
        most = most.max(resident_tree(child.0.id()).unwrap_or(0));
        if let Some(status) = child.0.try_wait().map_err(failed)? {
            break status;
        }
        std::thread::sleep(PAUSE);
    };
    if !status.success() {
        return Err(complaint(&name, &said.join().unwrap_or_default()));
    }
    match most {
        0 => Err(format!("{name}: ended before it could be looked at")),
        most => Ok(most),
    }
}

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Those of any of its threads.
pub fn children(pid: u32) -> Vec<u32> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task"));
    let lists = threads.into_iter().flatten().flatten();
    let lists = lists.map(|thread| std::fs::read_to_string(thread.path().join("children")));
    let lists: Vec<_> = lists.flatten().collect();
    let words = lists.iter().flat_map(|list| list.split_whitespace());
    words.flat_map(str::parse).collect()
}

/// Of a process and its children, shared pages counted once.
pub fn resident_tree(pid: u32) -> Result<u64, String> {
    let of = |pid| kib_of(&format!("/proc/{pid}/smaps_rollup"), "Pss:");
    let mut sum = of(pid)?;
    let mut left = children(pid);
    while let Some(pid) = left.pop() {
        // Some are gone by the time they are looked at.
        sum += of(pid).unwrap_or(0);
        left.extend(children(pid));
    }
    Ok(sum * 1024)
}

/// Bytes of a process that are in memory.
pub fn resident(process: &str) -> Result<u64, String> {
    Ok(kib_of(&format!("/proc/{process}/status"), "VmRSS:")? * 1024)
}

/// A field of one of the files in /proc that count in kB.
pub fn kib_of(path: &str, field: &str) -> Result<u64, String> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("{path}: {e}"))?;
    let line = text.lines().find_map(|line| line.strip_prefix(field));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok())
        .ok_or_else(|| format!("{path} has no {field}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_is_that_of_all_processes_at_once_and_not_what_is_left_in_the_end() {
        // 64 MB, of which a child knows too, and 64 MB of the child's own; then none.
        let more = "=$(head -c 64000000 /dev/zero | tr '\\0' x)";
        let both = format!("x{more}; (y{more}; sleep 0.3; :); x=; sleep 0.1");
        let most = peak(Command::new("bash").args(["-c", &both])).unwrap();
        assert!((128_000_000..400_000_000).contains(&most), "{most}");
        let little = peak(Command::new("sleep").arg("0.1")).unwrap();
        assert!(little < 8_000_000, "{little}");
    }

    #[test]
    fn who_fails_has_no_peak_but_says_why() {
        let error = peak(Command::new("sh").args(["-c", "echo so >&2; exit 3"])).unwrap_err();
        assert_eq!(error, "sh: so");
    }
}
