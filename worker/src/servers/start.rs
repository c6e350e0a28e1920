//! How the caller starts the process that talks to servers.

use super::{Named, ARGUMENT, FAREWELLS};
use crate::failure::{Failure, Result};
use crate::fork::Owner;
use crate::objects::lock;
use crate::spawn;
use crate::wire::{List, Wire, Writer};
use std::io::Write;
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};
use tane::jail::Leash;

/// Where proxies and certificates are said to be, and temporary files.
const ENVIRONMENT: [&str; 11] = [
    "ALL_PROXY",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "NO_PROXY",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "TMPDIR",
    "all_proxy",
    "http_proxy",
    "https_proxy",
    "no_proxy",
];

/// The process; it ends with this, and with the worker.
pub struct Servers {
    child: Mutex<Child>,
    _leash: Leash,
    owner: Owner,
}

impl Servers {
    /// Start it for these addresses, which may have names and passwords; the worker's
    /// end of the socket that it answers on.
    pub fn start(program: &Path, addresses: &[Named]) -> Result<(Servers, OwnedFd)> {
        let failed = |e: std::io::Error| {
            let text = format!("start {} to talk to servers", program.display());
            Failure::of_io(&e, &text)
        };
        let mut room = vec![0; 64 << 10];
        let mut said = Writer::new(&mut room);
        List(addresses.to_vec()).put(&mut said)?;
        let len = said.len();
        let (near, far) = UnixStream::pair().map_err(failed)?;
        // Not on its command line, which everybody can read.
        let (mut tell, told) = UnixStream::pair().map_err(failed)?;
        let mut command = spawn::command(program, &ENVIRONMENT);
        command
            .arg(ARGUMENT)
            .stdin(Stdio::from(OwnedFd::from(far)))
            .stdout(Stdio::from(OwnedFd::from(told)))
            .stderr(Stdio::null());
        let mut child = command.spawn().map_err(failed)?;
        // The command holds the other ends too.
        drop(command);
        let leash = spawn::tie(&mut child)?;
        let servers = Servers {
            child: Mutex::new(child),
            _leash: leash,
            owner: Owner::of_this(),
        };
        tell.write_all(&room[..len]).map_err(failed)?;
        tell.shutdown(Shutdown::Write).map_err(failed)?;
        Ok((servers, near.into()))
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        if self.owner.is_this() {
            let mut child = lock(&self.child);
            // It ends by itself with the worker, who is gone, and tells the servers before.
            let end = Instant::now() + FAREWELLS;
            while matches!(child.try_wait(), Ok(None)) && Instant::now() < end {
                std::thread::sleep(Duration::from_millis(1));
            }
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
