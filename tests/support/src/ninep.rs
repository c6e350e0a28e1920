//! diod, which serves a directory by 9p, with the rights of who runs the test.

use crate::server::{listens, Process};
use crate::{eventually, tool};
use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// A server of a directory. It ends when this is dropped.
pub struct Served {
    process: Process,
    socket: PathBuf,
    tree: PathBuf,
}

/// Have `tree` served, by a socket in `dir`. None, and the test is skipped, where diod is
/// missing.
#[track_caller]
pub fn serve(dir: &Path, tree: &Path) -> Option<Served> {
    let mut diod = tool("diod", "diod")?;
    let mut numbers = 0..;
    let socket = numbers.find_map(|n: u32| {
        let path = dir.join(format!("9p-{n}"));
        (!path.exists()).then_some(path)
    });
    let socket = socket.expect("a name");
    let tree = tree.canonicalize().expect("the tree");
    // In the foreground, without passwords, by no file of settings.
    diod.args(["-f", "-n", "-c", "/dev/null", "-e"]).arg(&tree);
    diod.arg("-l").arg(&socket);
    diod.stdin(Stdio::null()).stderr(Stdio::null());
    let process = Process::spawn(diod);
    eventually("the server listens", || listens(&socket));
    Some(Served {
        process,
        socket,
        tree,
    })
}

impl Served {
    /// The address of what it serves.
    pub fn url(&self) -> String {
        let (tree, socket) = (self.tree.display(), self.socket.display());
        format!("9p+unix://{tree}?socket={socket}")
    }

    /// The same by a port of this machine, which leads to it for one connection.
    pub fn url_of_port(&self) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("its address").port();
        let socket = self.socket.clone();
        std::thread::spawn(move || {
            let (client, _) = listener.accept()?;
            relay(&client, &UnixStream::connect(socket)?)
        });
        format!("9p://127.0.0.1:{port}{}", self.tree.display())
    }

    pub fn kill(&mut self) {
        self.process.kill();
    }
}

/// To the end of either.
fn relay(client: &TcpStream, server: &UnixStream) -> io::Result<()> {
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _ = io::copy(&mut &*client, &mut &*server);
            let _ = server.shutdown(std::net::Shutdown::Both);
        });
        let _ = io::copy(&mut &*server, &mut &*client);
        client.shutdown(std::net::Shutdown::Both)
    })
}
