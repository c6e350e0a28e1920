//! tane net: a network of the Linux in this process, for one command.

mod http;
mod pages;
mod ping;
mod serve;

use crate::args::Net;
use crate::failure::{Failure, Result};
use crate::interrupt;
use crate::network::{self, Asker, Options};
use crate::session::Global;
use crate::session::{
    attach_or_loop, is_host_kernel, with_network, without_root_but, Machine, WayOut,
};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use tane::Kernel;

/// Ping, fetch and serve by the network of the Linux in this process
#[derive(clap::Args)]
#[command(after_help = "\
Linux's own TCP/IP does it, in this process and in the jail, and needs no privilege. What it
reaches says --net: user is what this host reaches, through ordinary sockets of yours
(docs/net.md); tap=NAME a tap interface of this host's, and switch=PATH a Unix socket at which
passt, QEMU or a switch of virtual machines listens. A wire takes --address, and --gateway
for what is further away; --capture FILE writes down what passes it, for tcpdump and Wireshark.

Examples:
  tane net ping 10.0.2.2 --allow host
  tane net http http://example.com/
  tane net serve site -p 8080:80 --port 80
  tane net ping 192.0.2.1 --net tap=tap0 --address 192.0.2.2/24
  tane net serve site --net switch=/run/vde.sock --address 10.0.0.9/24 --capture all.pcapng")]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Ping(ping::Args),
    Http(http::Args),
    Serve(serve::Args),
}

/// What each of them has.
#[derive(clap::Args)]
struct Wire {
    /// The network: user (what this host reaches, through ordinary sockets of yours),
    /// tap=NAME (a tap interface of this host's), switch=PATH (a Unix socket in QEMU's
    /// framing) or none (its own loopback interface)
    #[arg(
        long,
        value_name = "KIND",
        default_value = "user",
        help_heading = "Network"
    )]
    net: Net,
    #[command(flatten)]
    options: Options,
}

pub fn run(args: Args, global: &Global) -> Result<u8> {
    if is_host_kernel(global) {
        let text = "net: the network is that of a Linux in this process, not of --kernel host";
        return Err(Failure::usage(text));
    }
    match args.command {
        Command::Ping(args) => ping::run(&args, global),
        Command::Http(args) => http::run(&args, global),
        Command::Serve(args) => serve::run(args, global),
    }
}

/// A kernel that has the network.
struct Networked {
    machine: Machine,
    way_out: Option<WayOut>,
}

impl Networked {
    /// In the jail, from which files beneath `files` are read.
    fn start(wire: &Wire, files: Option<&Path>, global: &Global) -> Result<Self> {
        let names = network::begin(&wire.net, &wire.options, Asker::Net, global)?;
        let machine = without_root_but(files, &with_network(global)?)?;
        let way_out = attach_or_loop(&machine.kernel)?;
        if let Some(names) = names {
            names.show_to_kernel(&machine.kernel)?;
        }
        interrupt::check()?;
        Ok(Self { machine, way_out })
    }

    fn kernel(&self) -> &Kernel {
        &self.machine.kernel
    }

    /// What `work` came to, or why Linux has ended meanwhile; and what was captured is
    /// written.
    fn end(self, done: Result<u8>) -> Result<u8> {
        self.machine.check()?;
        let written = self.way_out.map_or(Ok(()), WayOut::end);
        let code = done?;
        written.map(|()| code)
    }
}

/// The addresses that a host has, if it is a name.
fn addresses(kernel: &Kernel, host: &str) -> Result<Vec<IpAddr>> {
    kernel.lookup(host).map_err(|e| {
        let failure = Failure::new(crate::failure::SOME_FAILED, e.to_string());
        match e.errno() {
            libc::ENONET => failure.remedy("--dns says who is asked"),
            libc::EACCES => failure.remedy("--allow names what may be reached"),
            _ => failure,
        }
    })
}

/// Why an address was not reached.
fn unreached(to: SocketAddr, error: &std::io::Error, net: &Net) -> Failure {
    let failure = Failure::new(crate::failure::SOME_FAILED, format!("{to}: {error}"));
    match (net, error.raw_os_error()) {
        (Net::User, Some(libc::EHOSTUNREACH | libc::EACCES)) => {
            failure.remedy("what is the host's own is open if --allow names it")
        }
        (Net::None, _) => failure.remedy("--net user reaches what this host does"),
        (_, Some(libc::ENETUNREACH)) => failure.remedy("--address and --gateway lead there"),
        _ => failure,
    }
}
