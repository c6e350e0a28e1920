//! NFS-Ganesha, which serves a directory by NFS of version 4, with the rights of who runs the test.

use crate::server::Process;
use crate::{eventually, tool};
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Stdio;

/// A server of a directory. It ends when this is dropped.
pub struct Served {
    process: Process,
    port: u16,
}

/// Have `tree` served as `/tree`, with what the server keeps in `dir`. `minor`: the minor
/// versions that it knows, "1,2" and the like. None, and the test is skipped, where Ganesha is
/// missing or may not do its work: it opens files by their handles, which is root's right.
#[track_caller]
pub fn serve(dir: &Path, tree: &Path, minor: &str) -> Option<Served> {
    let mut ganesha = tool("nfs-ganesha", "ganesha.nfsd")?;
    if !crate::has_root() {
        return None;
    }
    let tree = tree.canonicalize().expect("the tree");
    let dir = dir.join("ganesha");
    fs::create_dir_all(dir.join("recovery")).expect("directories");
    let port = free_port();
    let settings = dir.join("settings");
    fs::write(&settings, text(&dir, &tree, port, minor)).expect("its settings");
    // In the foreground.
    ganesha.arg("-F").arg("-f").arg(&settings);
    ganesha.arg("-L").arg(dir.join("log"));
    ganesha.arg("-p").arg(dir.join("pid"));
    ganesha.stdin(Stdio::null()).stdout(Stdio::null());
    ganesha.stderr(Stdio::null());
    let process = Process::spawn(ganesha);
    eventually("the server listens", || {
        TcpStream::connect(("127.0.0.1", port)).is_ok()
    });
    Some(Served { process, port })
}

/// No other port than that of NFS, no lists of users, and nobody to be waited for who was there
/// before it ended.
fn text(dir: &Path, tree: &Path, port: u16, minor: &str) -> String {
    format!(
        "NFS_CORE_PARAM {{
            Bind_addr = 127.0.0.1; NFS_Port = {port}; Protocols = 4;
            Enable_NLM = false; Enable_RQUOTA = false; Enable_UDP = false;
        }}
        NFSV4 {{
            Minor_Versions = {minor}; Graceless = true; Only_Numeric_Owners = true;
            RecoveryBackend = fs; RecoveryRoot = {recovery};
        }}
        NFS_KRB5 {{ Active_krb5 = false; }}
        EXPORT {{
            Export_Id = 1; Path = {tree}; Pseudo = /tree; Access_Type = RW; Protocols = 4;
            Transports = TCP; SecType = sys; Squash = No_Root_Squash;
            FSAL {{ Name = VFS; }}
        }}
        LOG {{ Default_Log_Level = EVENT; }}",
        recovery = dir.join("recovery").display(),
        tree = tree.display(),
    )
}

/// One of this machine's that nobody has now.
fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("its address").port()
}

impl Served {
    /// The address of what it serves.
    pub fn url(&self) -> String {
        format!("nfs://127.0.0.1:{}/tree", self.port)
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn kill(&mut self) {
        self.process.kill();
    }
}
