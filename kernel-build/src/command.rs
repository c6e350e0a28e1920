// SPDX-License-Identifier: GPL-2.0-only
//! Running other programs: quietly into a log, or for their output.

use std::fs::File;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::{Listener, Result, Step};

/// Lines of the log that a failure shows.
const TAIL: usize = 30;
/// How long who was told to stop may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// What a build ends with that somebody has stopped.
pub const STOPPED: &str = "stopped; the next build goes on from here";

/// The standard output of a command that has to succeed.
pub fn output(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|e| format!("{name}: {e}"))?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{name}: {}\n{errors}", output.status));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Run a command with its output going to the end of a log, tell how far it
/// is, and on failure show the end of the log.
pub fn logged(
    command: &mut Command,
    log: &Path,
    title: &str,
    listener: &dyn Listener,
) -> Result<()> {
    if listener.is_stopped() {
        return Err(STOPPED.into());
    }
    let name = command.get_program().to_string_lossy().into_owned();
    let failed = |e: std::io::Error| format!("{name}: {e}");
    let sink = File::options().create(true).append(true).open(log);
    let sink = sink.map_err(|e| format!("{}: {e}", log.display()))?;
    let start = sink.metadata().map_err(failed)?.len();
    let errors = sink.try_clone().map_err(failed)?;
    apart(command);
    let child = command
        .stdin(Stdio::null())
        .stdout(sink)
        .stderr(errors)
        .spawn()
        .map_err(failed)?;
    let mut progress = Progress::new(title, log, start, listener)?;
    let status = wait(child, &mut progress).map_err(failed)?;
    progress.show(true);
    let Some(status) = status else {
        return Err(STOPPED.into());
    };
    if status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&std::fs::read(log).unwrap_or_default()).into_owned();
    let lines: Vec<&str> = text.lines().collect();
    let tail = lines[lines.len().saturating_sub(TAIL)..].join("\n");
    Err(format!(
        "{tail}\n\n{title}: {name} failed ({status}); all of it: {}",
        log.display()
    ))
}

/// How it ended; None if it was stopped, with all that it had started.
fn wait(mut child: Child, progress: &mut Progress) -> std::io::Result<Option<ExitStatus>> {
    let mut told: Option<Instant> = None;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(told.is_none().then_some(status));
        }
        match told {
            None if progress.listener.is_stopped() => {
                end(&child, libc::SIGTERM);
                told = Some(Instant::now());
            }
            Some(since) if since.elapsed() > PATIENCE => end(&child, libc::SIGKILL),
            _ => {}
        }
        std::thread::sleep(Duration::from_millis(20));
        progress.show(false);
    }
}

fn end(child: &Child, signal: i32) {
    // SAFETY: no memory involved; the group is the child's, which is not waited for yet.
    unsafe { libc::kill(-(child.id() as i32), signal) };
}

/// A group of its own, which is ended as a whole; whoever kills us, and not our process
/// group, ends it too; and it hears signals that we may have kept from ourselves.
fn apart(command: &mut Command) {
    command.process_group(0);
    // SAFETY: both are async-signal-safe, and the set is the child's own.
    unsafe {
        command.pre_exec(|| {
            let mut none = std::mem::zeroed::<libc::sigset_t>();
            libc::sigemptyset(&mut none);
            libc::sigprocmask(libc::SIG_SETMASK, &none, std::ptr::null_mut());
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM);
            Ok(())
        });
    }
}

/// Follows a log and tells how many steps it has seen.
struct Progress<'a> {
    title: &'a str,
    log: File,
    listener: &'a dyn Listener,
    start: Instant,
    shown: Instant,
    steps: usize,
    pending: Vec<u8>,
    last: String,
}

impl<'a> Progress<'a> {
    fn new(title: &'a str, log: &Path, start: u64, listener: &'a dyn Listener) -> Result<Self> {
        use std::io::Seek;
        let failed = |e: std::io::Error| format!("{}: {e}", log.display());
        let mut log = File::open(log).map_err(failed)?;
        log.seek(std::io::SeekFrom::Start(start)).map_err(failed)?;
        let now = Instant::now();
        Ok(Self {
            title,
            log,
            listener,
            start: now,
            shown: now,
            steps: 0,
            pending: Vec::new(),
            last: String::new(),
        })
    }

    fn show(&mut self, finished: bool) {
        if !finished && self.shown.elapsed() < self.listener.interval() {
            return;
        }
        self.shown = Instant::now();
        self.read_steps();
        self.listener.progress(&Step {
            title: self.title,
            seconds: self.start.elapsed().as_secs(),
            steps: self.steps,
            last: &self.last,
            finished,
        });
    }

    /// Kbuild indents what it does: "  CC      fs/ext4/inode.o".
    fn read_steps(&mut self) {
        let _ = self.log.read_to_end(&mut self.pending);
        let Some(end) = self.pending.iter().rposition(|&byte| byte == b'\n') else {
            return;
        };
        let rest = self.pending.split_off(end + 1);
        for line in String::from_utf8_lossy(&self.pending).lines() {
            if let Some(step) = line.strip_prefix("  ") {
                self.steps += 1;
                self.last = step.to_string();
            }
        }
        self.pending = rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    struct Impatient(AtomicBool);

    impl Listener for Impatient {
        fn note(&self, _: &str) {}
        fn progress(&self, step: &Step) {
            self.0.store(step.steps > 0, Relaxed);
        }
        fn interval(&self) -> Duration {
            Duration::ZERO
        }
        fn is_stopped(&self) -> bool {
            self.0.load(Relaxed)
        }
    }

    #[test]
    fn what_is_stopped_ends_with_what_it_started() {
        let log = std::env::temp_dir().join(format!("tane-stopped-{}", std::process::id()));
        let mut shell = Command::new("sh");
        shell.args(["-c", "sleep 1000 & echo $!; echo '  CC x.o'; wait"]);
        let begun = Instant::now();
        let never = Impatient(AtomicBool::new(false));
        let stopped = logged(&mut shell, &log, "x", &never);
        assert_eq!(stopped, Err(STOPPED.to_owned()));
        assert!(begun.elapsed() < Duration::from_secs(60));
        let text = std::fs::read_to_string(&log).unwrap();
        let process = text.lines().next().unwrap();
        // It may be there for its new parent to wait for, but it sleeps no more.
        let path = format!("/proc/{process}/stat");
        for _ in 0..1000 {
            let state = std::fs::read_to_string(&path).unwrap_or_default();
            if state.is_empty() || state.contains(") Z ") {
                std::fs::remove_file(&log).unwrap();
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("{process} is still there");
    }

    #[test]
    fn what_fails_shows_the_end_of_its_log() {
        let log = std::env::temp_dir().join(format!("tane-failed-{}", std::process::id()));
        let mut shell = Command::new("sh");
        shell.args(["-c", "echo no such option >&2; exit 3"]);
        let calm = Impatient(AtomicBool::new(false));
        let failed = logged(&mut shell, &log, "configuring", &calm).unwrap_err();
        assert!(failed.starts_with("no such option\n"), "{failed}");
        assert!(
            failed.contains("configuring: sh failed (exit status: 3)"),
            "{failed}"
        );
        std::fs::remove_file(&log).unwrap();
    }
}
