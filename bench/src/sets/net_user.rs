//! User mode: TCP to a server on the host's loopback interface, from a kernel without
//! privileges, beside passt with a network namespace of the host's, and beside the host itself.

use super::net_load::Load;
use crate::child;
use crate::paths::Paths;
use crate::promise::{short_size, size, Promise, Set};
use crate::race::{race, Contestant};
use crate::report::{Report, HOST, TANE};
use crate::target::Target;
use crate::tool;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener};
use std::time::{Duration, Instant};
use tane::net::{addresses, TcpStream, UserNetwork};
use tane::Kernel;

const STREAMS: [usize; 3] = [64, 4 << 10, 64 << 10];
/// Bytes to and fro.
const SMALL: usize = 64;
/// How long one figure is measured.
const TIME: Duration = Duration::from_millis(100);
/// Nobody waits longer for anybody.
const PATIENCE: Duration = Duration::from_secs(20);
const PASST: &str = "passt";
/// Its version of 2023-03, which is Debian 12's, resets a connection now and then.
const RETRIES: usize = 3;

pub fn promises() -> Vec<Promise> {
    let row = |name: String, what: String, target| Promise::new(name, Set::Net, what, "ns", target);
    let place = "by TCP through user mode to a server on the host's loopback interface";
    let mut rows = vec![row(
        "net-user-rr".into(),
        format!("64 B {place} and back"),
        Target::None,
    )];
    for bytes in STREAMS {
        let name = format!("net-user-{}", short_size(bytes));
        let what = format!("{} {place}", size(bytes));
        let target = Target::than(PASST, 1.0);
        let at = bytes as f64;
        rows.push(row(name, what, target).at("TCP through user mode", at, bytes as u64));
    }
    rows
}

pub fn measure(promise: &Promise, paths: &Paths, report: &mut Report) -> Result<(), String> {
    let image = paths.image("default")?;
    let load = Load::of(&promise.name)?;
    let port = serve(load)?.port();
    let builder = Kernel::builder().image(&image).cmdline("quiet");
    let kernel = builder.boot().map_err(text)?;
    let options = UserNetwork {
        allow: vec![format!("host:{port}").parse().map_err(text)?],
        ..UserNetwork::default()
    };
    let _way_out = kernel.user_network(&options).map_err(text)?;
    let through = SocketAddr::from((addresses::GATEWAY4, port));
    let direct = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let host = Kernel::host();
    let (name, own) = (promise.name.as_str(), tool::find("pasta"));
    let contestants = vec![
        Contestant::new(TANE, || figure(&kernel, through, load)),
        Contestant::new(HOST, || figure(&host, direct, load)).noted("loopback"),
        Contestant::new(PASST, move || by_passt(own.as_deref(), through, name))
            .noted("as pasta, to a network namespace of the host's"),
    ];
    race(promise, report.runs, contestants, report);
    Ok(())
}

/// This program again, where passt is the way to the host.
fn by_passt(pasta: Option<&std::path::Path>, to: SocketAddr, name: &str) -> Result<f64, String> {
    let pasta = pasta.ok_or("not installed: apt install passt")?;
    let own = std::env::current_exe().map_err(|e| format!("own path: {e}"))?;
    let mut command = tool::command(pasta, ["--config-net", "--ipv4-only", "--quiet"]);
    // As what it is to the kernel's programs, so that both are reached alike.
    let (here, gateway) = (
        addresses::HERE4.to_string(),
        addresses::GATEWAY4.to_string(),
    );
    command.args(["--address", &here, "--netmask", "24", "--gateway", &gateway]);
    // Nothing but the way through the namespace's interface.
    for forwards in ["-t", "-u", "-T", "-U"] {
        command.args([forwards, "none"]);
    }
    // SAFETY: no arguments.
    if unsafe { libc::geteuid() } == 0 {
        // It would become somebody who may not read this program.
        command.args(["--runas", "0:0"]);
    }
    command
        .arg("--")
        .arg(own)
        .arg("--net-client")
        .args([&to.to_string(), name]);
    let mut figures = child::figures(&mut command);
    for _ in 0..RETRIES {
        if figures.is_ok() {
            break;
        }
        figures = child::figures(&mut command);
    }
    let figures = figures?;
    figures.first().copied().ok_or_else(|| "no figure".into())
}

/// One figure of a client's, printed.
pub fn client(to: &str, name: &str) -> Result<(), String> {
    let to = to.parse().map_err(|e| format!("{to}: {e}"))?;
    let figure = figure(&Kernel::host(), to, Load::of(name)?)?;
    println!("{figure}");
    Ok(())
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// At the host's loopback interface, to the end of this process: whoever connects is served,
/// and its end is answered by one when all has been read.
fn serve(load: Load) -> Result<SocketAddr, String> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(text)?;
    let address = listener.local_addr().map_err(text)?;
    std::thread::spawn(move || {
        let mut buffer = vec![0; 256 << 10];
        for stream in listener.incoming() {
            // An error is the client's too.
            let Ok(mut stream) = stream else { return };
            let _ = stream.set_nodelay(true);
            while let Ok(n @ 1..) = stream.read(&mut buffer) {
                if load == Load::RoundTrip && stream.write_all(&buffer[..n]).is_err() {
                    break;
                }
            }
        }
    });
    Ok(address)
}

/// The time of one message, in ns, by a connection of its own.
fn figure(kernel: &Kernel, to: SocketAddr, load: Load) -> Result<f64, String> {
    let mut stream = TcpStream::connect(kernel, to).map_err(text)?;
    stream.set_nodelay(true).map_err(text)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(text)?;
    stream.set_write_timeout(Some(PATIENCE)).map_err(text)?;
    match load {
        Load::RoundTrip => back_and_forth(&mut stream),
        Load::Stream(bytes) => one_way(&mut stream, bytes),
        Load::Alone | Load::Datagram(_) | Load::Many(_) => Err("no such load".into()),
    }
}

fn back_and_forth(stream: &mut TcpStream) -> Result<f64, String> {
    let mut bytes = [0; SMALL];
    let mut once = || {
        stream
            .write_all(&bytes)
            .and_then(|()| stream.read_exact(&mut bytes))
    };
    for _ in 0..100 {
        once().map_err(text)?;
    }
    let (start, mut count) = (Instant::now(), 0);
    while start.elapsed() < TIME {
        for _ in 0..20 {
            once().map_err(text)?;
        }
        count += 20;
    }
    Ok(start.elapsed().as_nanos() as f64 / f64::from(count))
}

/// Until the server has all of it, and has said so.
fn one_way(stream: &mut TcpStream, bytes: usize) -> Result<f64, String> {
    let message = vec![1; bytes];
    let (start, mut count) = (Instant::now(), 0);
    while start.elapsed() < TIME {
        for _ in 0..20 {
            stream.write_all(&message).map_err(text)?;
        }
        count += 20;
    }
    stream.shutdown(Shutdown::Write).map_err(text)?;
    match stream.read(&mut [0]).map_err(text)? {
        0 => Ok(start.elapsed().as_nanos() as f64 / f64::from(count)),
        _ => Err("the server says what nobody asked for".into()),
    }
}
