// SPDX-License-Identifier: GPL-2.0-only
//! Running other programs: quietly into a log, or for their output.

use std::fs::File;
use std::io::{IsTerminal, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::Result;

/// Lines of the log that a failure shows.
const TAIL: usize = 30;
/// Seconds between progress lines where there is no terminal.
const QUIET_INTERVAL: u64 = 30;

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

/// Run a command with its output going to the end of a log, show how far it
/// is, and on failure show the end of the log.
pub fn logged(command: &mut Command, log: &Path, title: &str) -> Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let failed = |e: std::io::Error| format!("{name}: {e}");
    let open = |append| {
        File::options()
            .create(true)
            .append(append)
            .read(!append)
            .open(log)
            .map_err(|e| format!("{}: {e}", log.display()))
    };
    let sink = open(true)?;
    let start = sink.metadata().map_err(failed)?.len();
    let errors = sink.try_clone().map_err(failed)?;
    die_with_us(command);
    let mut child = command
        .stdin(Stdio::null())
        .stdout(sink)
        .stderr(errors)
        .spawn()
        .map_err(failed)?;
    let mut progress = Progress::new(title, log, start)?;
    let status = loop {
        if let Some(status) = child.try_wait().map_err(failed)? {
            break status;
        }
        std::thread::sleep(Duration::from_millis(20));
        progress.show(false);
    };
    progress.show(true);
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

/// Whoever kills us, and not our process group, ends the command too.
fn die_with_us(command: &mut Command) {
    // SAFETY: prctl() is async-signal-safe and touches no memory of ours.
    unsafe {
        command.pre_exec(|| {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM);
            Ok(())
        });
    }
}

/// Follows a log and says on stderr how many steps it has seen.
struct Progress<'a> {
    title: &'a str,
    log: File,
    terminal: bool,
    start: Instant,
    shown: Instant,
    steps: usize,
    pending: Vec<u8>,
    last: String,
}

impl<'a> Progress<'a> {
    fn new(title: &'a str, log: &Path, start: u64) -> Result<Self> {
        use std::io::Seek;
        let failed = |e: std::io::Error| format!("{}: {e}", log.display());
        let mut log = File::open(log).map_err(failed)?;
        log.seek(std::io::SeekFrom::Start(start)).map_err(failed)?;
        let now = Instant::now();
        Ok(Self {
            title,
            log,
            terminal: std::io::stderr().is_terminal(),
            start: now,
            shown: now,
            steps: 0,
            pending: Vec::new(),
            last: String::new(),
        })
    }

    fn show(&mut self, finished: bool) {
        let interval = if self.terminal {
            Duration::from_millis(200)
        } else {
            Duration::from_secs(QUIET_INTERVAL)
        };
        if !finished && self.shown.elapsed() < interval {
            return;
        }
        self.shown = Instant::now();
        self.read_steps();
        let seconds = self.start.elapsed().as_secs();
        let line = format!(
            "{}: {}:{:02}, {} steps {}",
            self.title,
            seconds / 60,
            seconds % 60,
            self.steps,
            if finished { "" } else { &self.last }
        );
        let line: String = line.chars().take(78).collect();
        let mut stderr = std::io::stderr();
        let _ = if !self.terminal {
            writeln!(stderr, "{}", line.trim_end())
        } else {
            let end = if finished { "\n" } else { "" };
            write!(stderr, "\r\x1b[K{}{end}", line.trim_end())
        };
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
