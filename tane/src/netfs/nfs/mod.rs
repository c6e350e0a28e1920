//! NFS of version 4. Linux's client makes its connection itself: it gets as far as a listener
//! on its own kernel's loopback interface.
//!
//! ```text
//! relay.rs     messages between the client and the server, and an end to waiting
//! record.rs    where messages begin and end, and what stands at their begin
//! ```

mod record;
mod relay;

use super::link::{Link, Outcome};
use crate::error::{Error, Result};
use crate::kernel::Kernel;
use crate::mount_options::MountOptions;
use relay::Relay;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use tane_images::NetFsConnection;

/// The newest first, as mount.nfs(8) asks.
const VERSIONS: [&str; 3] = ["4.2", "4.1", "4.0"];
/// Tenths of seconds after which the client would begin anew, the most that it takes: it is the
/// relay that ends waiting.
const PATIENCE: &str = "6000";
/// How often a call is made that the server puts off, with pauses of up to 15 s: two minutes
/// together, as a server that has just started lets nobody in for one and a half.
const PUT_OFF: &str = "15";
/// What the connection is, which is made already, and only one.
const FIXED: [&str; 12] = [
    "addr",
    "clientaddr",
    "max_connect",
    "migration",
    "mountaddr",
    "nconnect",
    "port",
    "proto",
    "sec",
    "trunkdiscovery",
    "xprtsec",
    "fsc",
];

/// Held from when a client has its name until it has told its server.
static NAMING: Mutex<()> = Mutex::new(());

pub(super) fn mount(
    kernel: &Kernel,
    connection: NetFsConnection,
    options: &MountOptions,
) -> Result<Outcome> {
    let plain = |e: io::Error| {
        let errno = e.raw_os_error().unwrap_or(libc::EIO);
        Error::from_source(errno, "mount", e)
    };
    if let Some(option) = FIXED.iter().find(|name| options.has_option(name)) {
        let text = format!("the option {option} is not for a connection that is made already");
        return Err(Error::plain(libc::EINVAL, "mount", text));
    }
    kernel.link("lo")?.set_up()?;
    let identity = connection.identity().clone();
    let silence = connection.silence();
    let source = source(&connection);
    let host = File::from(connection.into_socket());
    let relay = Relay::start(kernel, host, identity, silence).map_err(plain)?;
    let all = with_options(options, relay.port());
    let is_given = ["vers", "nfsvers", "minorversion"]
        .iter()
        .any(|name| options.has_option(name));
    let mount_as = |version| {
        let mut all = all.clone();
        if !is_given {
            all.option("vers", version);
        }
        all.mount(kernel, &source)
    };
    let naming = NAMING.lock().unwrap_or_else(PoisonError::into_inner);
    let mut mounted = name_client(kernel).and_then(|()| mount_as(VERSIONS[0]));
    for version in &VERSIONS[1..] {
        match &mounted {
            Err(e) if e.errno() == libc::EPROTONOSUPPORT && !is_given => {}
            _ => break,
        }
        mounted = mount_as(version);
    }
    drop(naming);
    relay.mounted();
    if mounted.is_err() {
        relay.let_go();
    }
    let link: Arc<dyn Link> = relay;
    Ok((link, mounted))
}

fn with_options(given: &MountOptions, port: u16) -> MountOptions {
    let mut all = given.clone();
    // Of version 4.0 the server would call back, and is told that it cannot.
    all.fstype("nfs4")
        .option("addr", "127.0.0.1")
        .option("clientaddr", "0.0.0.0")
        .option("port", port.to_string())
        .option("proto", "tcp")
        .option("sec", "sys");
    if !["soft", "softerr", "hard"]
        .iter()
        .any(|name| given.has_option(name))
    {
        all.flag("softerr");
    }
    if !given.has_option("timeo") {
        all.option("timeo", PATIENCE);
    }
    if !given.has_option("retrans") {
        all.option("retrans", "1");
    }
    all
}

/// As whom this mount's client is known to its server: a name that no other has. With the
/// machine's name, as it would be, each that comes would end what those before it have there.
fn name_client(kernel: &Kernel) -> Result<()> {
    let name = kernel
        .tree("/proc")?
        .read_to_string("sys/kernel/random/uuid")?;
    let sysfs = kernel.tree("/sys")?;
    let at = Path::new("fs/nfs/net/nfs_client/identifier");
    // A kernel that knows no NFS is told to mount it, and says so.
    if sysfs.metadata(at).is_ok() {
        sysfs.write(at, name.trim_end())?;
        sysfs.write("module/nfs/parameters/delay_retrans", PUT_OFF)?;
    }
    Ok(())
}

/// As Linux has it: HOST:/PATH.
fn source(connection: &NetFsConnection) -> OsString {
    let host = connection.host().unwrap_or_default();
    let mut source = match host.contains(':') {
        true => format!("[{host}]:").into_bytes(),
        false => format!("{host}:").into_bytes(),
    };
    source.extend_from_slice(connection.tree());
    OsString::from_vec(source)
}
