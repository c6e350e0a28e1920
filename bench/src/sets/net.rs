//! The network: loopback inside one kernel, two kernels of this process on a wire, and
//! the host's network over a tap interface, which is made in a namespace of a child's. User
//! mode is net_user.rs's.

use super::net_lab;
use super::net_load::{Client, Load, Server};
use super::net_user;
use crate::child;
use crate::paths::Paths;
use crate::promise::{short_size, size, Promise, Set};
use crate::race::{race, Contestant};
use crate::report::{Report, HOST, TANE};
use crate::target::Target;
use crate::tool;
use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};
use tane::net::{Nic, NicOptions, Pair, Tap, TcpListener};
use tane::Kernel;

const STREAMS: [usize; 3] = [64, 4 << 10, 64 << 10];
/// Bytes of datagrams, and what their rows end in.
const DATAGRAMS: [(usize, &str); 4] = [(64, "64"), (1024, "1k"), (8192, "8k"), (65_507, "64k")];
const CONNECTIONS: usize = 500;
/// Who has one connection where we have many.
const ONE: &str = "one connection";
const HERE: [u8; 4] = [10, 77, 0, 1];
const THERE: [u8; 4] = [10, 77, 0, 2];
const LOCAL: [u8; 4] = [127, 0, 0, 1];

pub fn promises() -> Vec<Promise> {
    let row = |name: String, what: String, target| Promise::new(name, Set::Net, what, "ns", target);
    let mut rows = vec![
        row(
            "net-loopback-64".into(),
            "64 B by TCP over loopback and back, one thread".into(),
            Target::Faster(2.0),
        ),
        row(
            "net-pair-rr".into(),
            "64 B by TCP to another kernel of the process and back, one thread".into(),
            Target::Faster(2.0),
        ),
    ];
    for bytes in STREAMS {
        let what = format!("{} by TCP to another kernel of the process", size(bytes));
        let name = format!("net-pair-{}", short_size(bytes));
        let at = bytes as f64;
        let target = match bytes {
            65_536 => Target::Faster(1.0),
            _ => Target::None,
        };
        rows.push(row(name, what, target).at(
            "TCP to another kernel of the process",
            at,
            bytes as u64,
        ));
    }
    rows.push(row(
        "net-tap-rr".into(),
        "64 B by TCP over a tap interface to the host and back".into(),
        // At most 1.2 times the host's time.
        Target::Faster(0.83),
    ));
    for bytes in STREAMS {
        let what = format!("{} by TCP over a tap interface to the host", size(bytes));
        let name = format!("net-tap-{}", short_size(bytes));
        let at = bytes as f64;
        let target = Target::Faster(if bytes == 65_536 { 0.9 } else { 1.0 });
        rows.push(row(name, what, target).at("TCP over a tap interface", at, bytes as u64));
    }
    for (bytes, named) in DATAGRAMS {
        let what = match bytes {
            65_507 => "65,507 B".to_owned(),
            bytes => size(bytes),
        };
        let what = format!("{what} by UDP over a tap interface to the host, of those that arrive");
        let row = row(format!("net-tap-udp-{named}"), what, Target::Faster(0.8));
        rows.push(row.at(
            "UDP over a tap interface, what arrives",
            bytes as f64,
            bytes as u64,
        ));
    }
    let what =
        format!("64 KiB by one of {CONNECTIONS} connections of TCP over a tap interface, in turn");
    let target = Target::than(ONE, 1.0);
    rows.push(row("net-tap-many".into(), what, target));
    rows.extend(net_user::promises());
    rows.extend(net_lab::promises());
    rows
}

pub fn measure(promise: &Promise, paths: &Paths, report: &mut Report) -> Result<(), String> {
    if promise.name.starts_with("net-user-") {
        return net_user::measure(promise, paths, report);
    }
    if promise.name.starts_with("net-lab-") {
        return net_lab::measure(promise, paths, report);
    }
    let image = paths.image("default")?;
    let load = Load::of(&promise.name)?;
    let in_namespace = |who: &'static str| {
        let (image, name) = (image.clone(), promise.name.clone());
        move || {
            let image = image.to_string_lossy();
            let args = ["--net-child", &*image, who, &*name];
            let figures = child::numbers_in_namespace(&args)?;
            figures.first().copied().ok_or_else(|| "no figure".into())
        }
    };
    let veth =
        || Contestant::new(HOST, in_namespace("host")).noted("a veth pair of two namespaces");
    if promise.name.starts_with("net-tap-") {
        let mut contestants = vec![Contestant::new(TANE, in_namespace("tane")), veth()];
        if matches!(load, Load::Many(_)) {
            contestants.push(Contestant::new(ONE, in_namespace("one")));
        }
        race(promise, report.runs, contestants, report);
        return Ok(());
    }
    let host = Kernel::host();
    let a = boot(&image)?;
    let mut ends = vec![a.clone()];
    let mut nics = Vec::new();
    let address = if promise.name == "net-loopback-64" {
        said(a.link("lo").and_then(|lo| lo.set_up()))?;
        LOCAL
    } else {
        let b = boot(&image)?;
        let (wire_a, wire_b) = Pair::new();
        nics.push(card(&a, wire_a, HERE)?);
        nics.push(card(&b, wire_b, THERE)?);
        ends.push(b);
        THERE
    };
    let there = ends.last().unwrap_or(&a);
    let from = if address == LOCAL { LOCAL } else { HERE };
    let mut ours = client(&a, from, there, address, load)?;
    let theirs = match address {
        LOCAL => {
            let mut theirs = client(&host, LOCAL, &host, LOCAL, load)?;
            Contestant::new(HOST, move || theirs.figure()).noted("loopback")
        }
        _ => veth(),
    };
    let contestants = vec![Contestant::new(TANE, || ours.figure()), theirs];
    race(promise, report.runs, contestants, report);
    drop(nics);
    Ok(())
}

fn client(
    from: &Kernel,
    here: [u8; 4],
    to: &Kernel,
    there: [u8; 4],
    load: Load,
) -> Result<Client, String> {
    if load == Load::Alone {
        return Client::alone(from, to, there);
    }
    let server = Server::start(to.clone(), there, load, || Ok(()))?;
    Client::of(from, here, server, load)
}

fn said<T, E: std::fmt::Display>(result: Result<T, E>) -> Result<T, String> {
    result.map_err(|error| error.to_string())
}

fn boot(image: &Path) -> Result<Kernel, String> {
    said(Kernel::builder().image(image).cmdline("quiet").boot())
}

fn card(
    kernel: &Kernel,
    wire: std::sync::Arc<dyn tane::net::Wire>,
    address: [u8; 4],
) -> Result<Nic, String> {
    let nic = said(kernel.add_nic(wire, &NicOptions::default()))?;
    said(nic.add_address(address, 24))?;
    said(nic.set_up())?;
    Ok(nic)
}

/// One figure of a kernel's over a tap interface, or of the host's over a veth pair, in
/// a network namespace that is this process's own.
pub fn child(image: &Path, who: &str, name: &str) -> Result<(), String> {
    let load = match (Load::of(name)?, who) {
        (Load::Many(_), "one") => Load::Many(1),
        (load, _) => load,
    };
    let host = Kernel::host();
    // The card stays as long as the client.
    let (_nic, mut client) = if who != "host" {
        let kernel = boot(image)?;
        let tap = said(Tap::open(None))?;
        let link = said(host.link(tap.name()))?;
        said(link.add_address(THERE, 24))?;
        said(link.set_up())?;
        let nic = card(&kernel, tap, HERE)?;
        let start = Instant::now();
        while !said(nic.is_running())? {
            if start.elapsed() > Duration::from_secs(20) {
                return Err("the link does not come up".into());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let server = Server::start(host, THERE, load, || Ok(()))?;
        (Some(nic), Client::of(&kernel, HERE, server, load)?)
    } else if load == Load::Alone {
        // One thread at both ends, whose sockets stay where they were made.
        let prepare = other_namespace(host.clone())?;
        let there = host.clone();
        let listener = std::thread::spawn(move || {
            prepare()?;
            said(TcpListener::bind(&there, (THERE, 0)))
        });
        let listener = listener.join().map_err(|_| "no listener")??;
        (None, Client::alone_with(&host, &listener)?)
    } else {
        let server = Server::start(host.clone(), THERE, load, other_namespace(host.clone())?)?;
        (None, Client::of(&host, HERE, server, load)?)
    };
    let figure = client.figure()?;
    println!("{figure}");
    Ok(())
}

/// What takes the thread that does it into another network namespace, joined with this
/// thread's by a veth pair.
fn other_namespace(
    host: Kernel,
) -> Result<impl FnOnce() -> Result<(), String> + Send + 'static, String> {
    let (say_tid, tid) = mpsc::channel();
    let (say_made, made) = mpsc::channel::<Result<(), String>>();
    let maker = std::thread::spawn(move || {
        let tid: i32 = said(tid.recv())?;
        let result = make_veth(&host, tid);
        said(say_made.send(result.clone()))?;
        result
    });
    Ok(move || {
        // SAFETY: takes this thread into a namespace of its own.
        if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
            return Err(std::io::Error::last_os_error().to_string());
        }
        // SAFETY: always succeeds.
        said(say_tid.send(unsafe { libc::gettid() }))?;
        said(made.recv())??;
        drop(maker);
        let link = said(Kernel::host().link("there"))?;
        said(link.add_address(THERE, 24))?;
        said(link.set_up())
    })
}

/// "here" in this thread's namespace, "there" in that thread's.
fn make_veth(host: &Kernel, tid: i32) -> Result<(), String> {
    let ip = tool::need("ip", "iproute2")?;
    let tid = tid.to_string();
    let words = [
        "link", "add", "here", "type", "veth", "peer", "name", "there", "netns",
    ];
    let mut ip = tool::command(&ip, words);
    let output = ip.arg(tid).output().map_err(|e| format!("ip: {e}"))?;
    if !output.status.success() {
        return Err(child::complaint(&output.stderr));
    }
    let link = said(host.link("here"))?;
    said(link.add_address(HERE, 24))?;
    said(link.set_up())
}
