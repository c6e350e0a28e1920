//! The network of the Linux inside: `--net` and its kin, of `tane run` and `tane net`.

use crate::args::Global;
use crate::failure::{Failure, Result};
use crate::session::{begin_network, begin_wire, impair_network, Plug};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use tane::net::{addresses, Forward, Impairment, Rule, UserNetwork};
use tane_run::Command;

/// Where names are resolved, as resolv.conf(5) says it.
pub const RESOLVERS: &str = "/etc/resolv.conf";
const PORT_OF_NAMES: u16 = 53;

/// What is at the other end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Net {
    /// Nothing: there is the loopback interface alone.
    None,
    /// What this host reaches, through ordinary sockets of the host's.
    User,
    /// A tap interface of the host's.
    Tap(String),
    /// Whoever listens at a Unix socket for frames in QEMU's framing.
    Switch(PathBuf),
}

impl FromStr for Net {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match (text, text.split_once('=')) {
            ("none", _) => Ok(Self::None),
            ("user", _) => Ok(Self::User),
            (_, Some(("tap", name))) if !name.is_empty() => Ok(Self::Tap(name.into())),
            (_, Some(("switch", path))) if !path.is_empty() => Ok(Self::Switch(path.into())),
            _ => Err("write none, user, tap=NAME or switch=PATH".into()),
        }
    }
}

/// An address and how many bits of it are its network's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address(pub IpAddr, pub u8);

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let parse = || {
            let (address, bits) = text.split_once('/')?;
            let (address, bits): (IpAddr, u8) = (address.parse().ok()?, bits.parse().ok()?);
            let most = if address.is_ipv4() { 32 } else { 128 };
            (bits <= most).then_some(Self(address, bits))
        };
        parse().ok_or_else(|| "write ADDRESS/BITS, such as 192.0.2.2/24".into())
    }
}

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
    pub address: Vec<Address>,
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

/// Start who makes the host's sockets, or open the wire, if there is a network. Before the jail
/// is entered. `verb` is who is asked for it.
pub fn begin(net: &Net, args: &Options, verb: &str, global: &Global) -> Result<Option<Names>> {
    args.check(net, verb)?;
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
    fn check(&self, net: &Net, verb: &str) -> Result<()> {
        let of_user = [
            (!self.publish.is_empty(), "--publish"),
            (!self.allow.is_empty(), "--allow"),
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
                let text = format!("{verb}: {option} is about {what}");
                Err(Failure::usage(text).remedy(remedy))
            }
        }
    }
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
        let write = || {
            let root = kernel.tree("/")?;
            root.create_dir_all("/etc")?;
            root.write(RESOLVERS, self.text())
        };
        write().map_err(|e| Failure::image(format!("the resolvers: {e}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_and_addresses_are_read_as_they_are_written() {
        assert_eq!("user".parse(), Ok(Net::User));
        assert_eq!("tap=t=0".parse(), Ok(Net::Tap("t=0".into())));
        assert_eq!("switch=/run/s".parse(), Ok(Net::Switch("/run/s".into())));
        for wrong in ["", "tap", "tap=", "switch", "bridge=x", "User"] {
            assert!(wrong.parse::<Net>().is_err(), "{wrong}");
        }
        let address = Address([192, 0, 2, 1].into(), 24);
        assert_eq!("192.0.2.1/24".parse(), Ok(address));
        for wrong in ["192.0.2.1", "192.0.2.1/33", "::/129", "a/1", "/"] {
            assert!(wrong.parse::<Address>().is_err(), "{wrong}");
        }
    }
}
