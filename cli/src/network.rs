//! The network of the Linux inside: `--net` and its kin, of `tane run` and `tane net`.

use crate::args::{Net, NetAddress};
use crate::failure::{Failure, Result};
use crate::session::Global;
use crate::session::{begin_network, begin_wire, impair_network, Plug};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use tane::net::{addresses, Forward, Impairment, Rule, UserNetwork};
use tane_run::Command;

/// Where names are resolved, as resolv.conf(5) says it.
pub const RESOLVERS: &str = "/etc/resolv.conf";
const PORT_OF_NAMES: u16 = 53;

#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Network")]
pub struct Options {
    /// With --net user: a TCP port of this host, at 127.0.0.1 unless ADDRESS says another, that
    /// leads to one inside; HOST 0 is any that is free, and is told. Can be repeated
    #[arg(short, long, value_name = "[ADDRESS:]HOST:INSIDE")]
    pub publish: Vec<Forward>,
    /// With --net user: open this destination, ADDRESS, ADDRESS/BITS, NAME, *.NAME or host (this
    /// host's loopback interface), all of its ports or :PORT or :FIRST-LAST; what is not named is
    /// closed then, unless host and the like are all that is. Can be repeated
    #[arg(long, value_name = "DESTINATION")]
    pub allow: Vec<Rule>,
    /// With --net user: close this destination, whatever is allowed. Can be repeated
    #[arg(long, value_name = "DESTINATION")]
    pub deny: Vec<Rule>,
    /// Who resolves names (with --net user the default is whom the host's /etc/resolv.conf
    /// names). Can be repeated
    #[arg(long, value_name = "ADDRESS[:PORT]", value_parser = parse_resolver)]
    pub dns: Vec<SocketAddr>,
    /// With --net tap and switch: an address of the interface inside. Can be repeated
    #[arg(long, value_name = "ADDRESS/BITS")]
    pub address: Vec<NetAddress>,
    /// With --net tap and switch: by way of whom everything else is reached. Can be repeated
    #[arg(long, value_name = "ADDRESS")]
    pub gateway: Vec<IpAddr>,
    /// Have what is sent from inside be late, lost, cut to a rate and so on:
    /// delay=100ms,jitter=5ms,loss=1%,duplicate=1%,corrupt=1%,rate=2mbit,limit=1000,seed=7, or
    /// some of these
    #[arg(long, value_name = "HOW")]
    pub impair: Option<Impairment>,
    /// With --net tap and switch: write all packets to this file, as pcapng
    #[arg(long, value_name = "FILE")]
    pub capture: Option<PathBuf>,
}

fn parse_resolver(text: &str) -> std::result::Result<SocketAddr, String> {
    let address = |text: &str| text.parse::<IpAddr>().ok();
    let alone = address(text).map(|ip| SocketAddr::new(ip, PORT_OF_NAMES));
    let resolver = alone.or_else(|| text.parse().ok());
    resolver.ok_or_else(|| "write an address such as 192.0.2.1, 192.0.2.1:53 or [::1]:53".into())
}

/// Where names are resolved.
pub struct Names(Vec<IpAddr>);

/// The command that has a network.
#[derive(Clone, Copy)]
pub enum Asker {
    Net,
    Run,
    RunModule,
}

impl Asker {
    fn verb(self) -> &'static str {
        match self {
            Asker::Net => "net",
            Asker::Run => "run",
            Asker::RunModule => "run-module",
        }
    }

    /// Its option for [`Options::allow`].
    fn allow(self) -> &'static str {
        match self {
            Asker::Net | Asker::Run => "--allow",
            // Which says there what a module may import.
            Asker::RunModule => "--to",
        }
    }
}

/// Start who makes the host's sockets, or open the wire, if there is a network. Before the jail
/// is entered.
pub fn begin(net: &Net, args: &Options, asker: Asker, global: &Global) -> Result<Option<Names>> {
    args.check(net, asker)?;
    impair_network(args.impair.clone());
    match net {
        Net::None => Ok(None),
        Net::User => {
            let options = UserNetwork {
                allow: args.allow.clone(),
                deny: args.deny.clone(),
                forwards: args.publish.clone(),
                resolvers: (!args.dns.is_empty()).then(|| args.dns.clone()),
            };
            begin_network(&options, global)?;
            let servers = [addresses::NAMES4.into(), addresses::NAMES6.into()];
            Ok(Some(Names(servers.into())))
        }
        Net::Tap(_) | Net::Switch(_) => {
            let port = args.dns.iter().find(|at| at.port() != PORT_OF_NAMES);
            if let Some(at) = port {
                let verb = asker.verb();
                let text = format!("{verb}: --dns {at}: on a wire names are resolved at port 53");
                return Err(Failure::usage(text));
            }
            begin_wire(Plug {
                net: net.clone(),
                addresses: args.address.clone(),
                gateways: args.gateway.clone(),
                capture: args.capture.clone(),
            })?;
            Ok(Some(Names(args.dns.iter().map(SocketAddr::ip).collect())))
        }
    }
}

impl Options {
    /// Every option is about the network that there is.
    pub fn check(&self, net: &Net, asker: Asker) -> Result<()> {
        let of_user = [
            (!self.publish.is_empty(), "--publish"),
            (!self.allow.is_empty(), asker.allow()),
            (!self.deny.is_empty(), "--deny"),
        ];
        let of_wire = [
            (!self.address.is_empty(), "--address"),
            (!self.gateway.is_empty(), "--gateway"),
            (self.capture.is_some(), "--capture"),
        ];
        let names = [
            (!self.dns.is_empty(), "--dns"),
            (self.impair.is_some(), "--impair"),
        ];
        let first = |options: &[(bool, &'static str)]| {
            let mut given = options.iter();
            given.find_map(|(is, option)| is.then_some(*option))
        };
        let (wrong, what, remedy) = match net {
            Net::None => (
                first(&of_user).or(first(&names)).or(first(&of_wire)),
                "a network",
                "--net user gives it the host's",
            ),
            Net::User => (
                first(&of_wire),
                "a wire",
                "--net tap=NAME and switch=PATH have one",
            ),
            Net::Tap(_) | Net::Switch(_) => (
                first(&of_user),
                "the host's network",
                "--net user gives it that",
            ),
        };
        match wrong {
            None => Ok(()),
            Some(option) => {
                let text = format!("{}: {option} is about {what}", asker.verb());
                Err(Failure::usage(text).remedy(remedy))
            }
        }
    }
}

fn no_resolvers(error: &tane::Error) -> Failure {
    Failure::image(format!("the resolvers: {error}"))
}

impl Names {
    fn text(&self) -> String {
        let lines = self.0.iter().map(|ip| format!("nameserver {ip}\n"));
        lines.collect()
    }

    /// For a program; nothing, if nobody resolves names.
    pub fn show_to(self, command: Command) -> Command {
        match self.0.is_empty() {
            true => command,
            false => command.file(RESOLVERS, self.text()),
        }
    }

    /// For who is in the kernel without a root of its own.
    pub fn show_to_kernel(&self, kernel: &tane::Kernel) -> Result<()> {
        let root = kernel.tree("/");
        self.show_in(&root.map_err(|e| no_resolvers(&e))?)
    }

    /// In a root that is forgotten. What is there instead is often a link to a program's file.
    pub fn show_in(&self, root: &tane::Tree) -> Result<()> {
        let write = || {
            root.create_dir_all("/etc")?;
            let _ = root.remove_file(RESOLVERS);
            root.write(RESOLVERS, self.text())
        };
        write().map_err(|e| no_resolvers(&e))
    }
}
