//! A kernel that is set up as its part of the file says.

use crate::addresses::Cidr;
use crate::error::{Error, Result};
use crate::lab::Options;
use crate::plan::{NodePlan, Plan};
use crate::routes::Route;
use std::sync::Arc;
use tane::net::{Impairment, Link, Mac, MptcpLimits, Nic, NicOptions, Offloads, Wire};
use tane::Kernel;

/// What the kernels' clocks say at first: 2000-01-01.
pub const EPOCH: u64 = 946_684_800;

/// Of a kernel, if nobody says it.
const MEMORY: u64 = 64 << 20;

/// What Linux takes for TCP's buffers on a machine with a gigabyte of memory, in bytes: a node
/// with little of it is to be no worse a host.
const BUFFERS: [(&str, &str); 2] = [
    ("net/ipv4/tcp_rmem", "4096 131072 6291456"),
    ("net/ipv4/tcp_wmem", "4096 16384 4194304"),
];

/// Paths of a connection by MPTCP beside the first, and addresses of the other end: as many as
/// Linux has room for.
const PATHS: u32 = 8;

/// What is wrong with an image.
pub const NO_MPTCP: &str = "this kernel image has no MPTCP (CONFIG_MPTCP)";

/// Steele, Lea and Flood's SplitMix: numbers of a seed that look nothing like their neighbours'.
pub fn seed(of: u64, number: u64) -> u64 {
    let mut z = of.wrapping_add(number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Boot a node, and set up what is no card.
pub fn boot(plan: &Plan, index: usize, options: &Options) -> Result<Kernel> {
    let node = &plan.nodes[index];
    let failed = |e| Error::Node(node.name.clone(), e);
    let memory = node.memory.or(options.memory).unwrap_or(MEMORY);
    let mut builder = Kernel::builder()
        .memory(memory)
        .deterministic(EPOCH, seed(plan.seed, index as u64));
    if let Some(image) = &options.image {
        builder = builder.image(image);
    }
    if let Some(words) = &options.words {
        builder = builder.cmdline(words);
    }
    let kernel = builder.boot().map_err(failed)?;
    let lo = kernel.link("lo").map_err(|e| match e.errno() {
        libc::ENOSYS | libc::EAFNOSUPPORT => plan.source.wrong(
            node.at,
            "this kernel image has no network: take the image default (--kernel)",
        ),
        _ => failed(e),
    })?;
    lo.set_up().map_err(failed)?;
    let files = kernel.tree("/proc/sys").map_err(failed)?;
    for (name, value) in BUFFERS {
        files.write(name, value).map_err(failed)?;
    }
    if node.forward {
        files.write("net/ipv4/ip_forward", "1").map_err(failed)?;
        if node.v6 {
            files
                .write("net/ipv6/conf/all/forwarding", "1")
                .map_err(failed)?;
        }
    }
    if !node.v6 {
        // It would look for routers, which are packets of no use.
        for of in ["all", "default"] {
            let name = format!("net/ipv6/conf/{of}/disable_ipv6");
            files.write(name, "1").map_err(failed)?;
        }
    }
    for (name, value, at) in &node.sysctl {
        files.write(name.replace('.', "/"), value).map_err(|e| {
            let text = match e.errno() {
                libc::ENOENT => format!("the kernel image has no sysctl {name}"),
                _ => format!("sysctl {name} = {value:?}: {e}"),
            };
            plan.source.wrong(*at, text)
        })?;
    }
    Ok(kernel)
}

/// Give a node its card at one end of a link.
pub fn plug(
    plan: &Plan,
    link: usize,
    side: usize,
    kernel: &Kernel,
    wire: Arc<dyn Wire>,
) -> Result<Nic> {
    let planned = &plan.links[link];
    let end = &planned.ends[side];
    let failed = |e| Error::Node(plan.nodes[end.node].name.clone(), e);
    let [_, _, a, b] = (link as u32).to_be_bytes();
    let options = NicOptions {
        mac: Some(Mac([2, 0, 0, a, b, side as u8 + 1])),
        mtu: planned.mtu,
        transmit: Offloads::NONE,
        receive: Offloads::NONE,
        mergeable: true,
    };
    let nic = kernel
        .add_nic(wire, &options)
        .map_err(|e| match e.errno() {
            libc::ENOSPC => {
                let text = format!(
                    "no room for this card of {}: {e}",
                    plan.nodes[end.node].name
                );
                plan.source.wrong(planned.at, text)
            }
            _ => failed(e),
        })?;
    // Netem would lose several at a time.
    nic.set_gso_max_segments(1).map_err(failed)?;
    nic.add_address(end.address.address, end.address.prefix)
        .map_err(failed)?;
    nic.set_up().map_err(failed)?;
    if let Some(how) = &planned.impair[side] {
        impair(plan, planned.at, &nic, how, 2 * link + side)?;
    }
    Ok(nic)
}

/// Impair what an end sends; `number` is the end's, for chance.
pub fn impair(plan: &Plan, at: usize, end: &Link, how: &Impairment, number: usize) -> Result<()> {
    // Another number than that of any node.
    let drawn = seed(plan.seed ^ 0x6e65_7465_6d00_0000, number as u64);
    let how = Impairment {
        seed: Some(how.seed.unwrap_or(drawn)),
        ..how.clone()
    };
    end.impair(&how).map_err(|e| {
        let text = match e.errno() {
            libc::ENOENT => "this kernel image has no netem (CONFIG_NET_SCH_NETEM)".to_owned(),
            _ => e.to_string(),
        };
        plan.source.wrong(at, text)
    })
}

/// Its ways to networks that it is not on. Its cards have their addresses; `nic` is that at a link.
pub fn add_routes<'n>(
    node: &NodePlan,
    kernel: &Kernel,
    nic: impl Fn(usize) -> Option<&'n Nic>,
) -> Result<()> {
    let add = |ways: &[(Option<usize>, Route)]| {
        if let [(Some(link), route)] = ways {
            let Cidr { address, prefix } = route.network;
            // Behind those that all take.
            return nic(*link).map_or(Ok(()), |nic| {
                nic.add_route(address, prefix, route.gateway, 1)
            });
        }
        kernel.add_routes(ways.iter().map(|(_, route)| {
            let Cidr { address, prefix } = route.network;
            (address, prefix, route.gateway)
        }))
    };
    let are_by_all = |a: &(Option<usize>, _), b: &(Option<usize>, _)| a.0.or(b.0).is_none();
    let mut together = node.ways.chunk_by(are_by_all);
    let added = together.try_for_each(add);
    added.map_err(|e| Error::Node(node.name.clone(), e))
}

/// Which paths its connections by MPTCP take. `nic` is its card at a link.
pub fn add_endpoints<'n>(
    plan: &Plan,
    index: usize,
    kernel: &Kernel,
    nic: impl Fn(usize) -> Option<&'n Nic>,
) -> Result<()> {
    let node = &plan.nodes[index];
    let Some(at) = node.mptcp.at else {
        return Ok(());
    };
    let failed = |e| Error::Node(node.name.clone(), e);
    let mptcp = kernel.mptcp().map_err(|e| match e.errno() {
        libc::EPROTONOSUPPORT => plan.source.wrong(at, NO_MPTCP),
        _ => failed(e),
    })?;
    let limits = MptcpLimits {
        subflows: PATHS,
        accepted: if node.mptcp.connects { PATHS } else { 0 },
    };
    mptcp.set_limits(limits).map_err(failed)?;
    for endpoint in &node.mptcp.endpoints {
        let begins = endpoint.flags.subflow || endpoint.flags.fullmesh;
        match nic(endpoint.link).filter(|_| begins) {
            Some(nic) => mptcp.add_endpoint_at(nic, endpoint.address, endpoint.flags),
            None => mptcp.add_endpoint(endpoint.address, endpoint.flags),
        }
        .map_err(failed)?;
    }
    Ok(())
}
