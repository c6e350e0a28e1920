//! How nodes reach the networks that they are not on: as the file says, and the shortest way to
//! all others; the first cable in the file of several that are as short.

use crate::addresses::{cidr, Cidr};
use crate::error::Result;
use crate::plan::{LinkPlan, NodePlan};
use crate::source::Source;
use crate::topology::Node;
use std::collections::VecDeque;
use std::net::IpAddr;

/// A way of a node's.
#[derive(Clone, Debug)]
pub struct Route {
    pub network: Cidr,
    pub gateway: IpAddr,
    /// Where the file says so; `None`: it is the shortest.
    pub at: Option<usize>,
}

/// The ways that the file says.
pub fn said(node: &Node, own: usize, links: &[LinkPlan], source: &Source) -> Result<Vec<Route>> {
    let mut routes: Vec<Route> = Vec::new();
    for route in &node.routes {
        let at = route.via.span().start;
        let gateway: IpAddr = route.via.get_ref().parse().map_err(|_| {
            let text = format!("{:?} is no address: write 10.0.0.2", route.via.get_ref());
            source.wrong(at, text)
        })?;
        let network = match route.to.get_ref().as_str() {
            "default" => Cidr::all_like(&gateway),
            _ => cidr(&route.to, source)?.network(),
        };
        if neighbour(own, &gateway, links).is_none() {
            let text = format!(
                "{gateway} is at the other end of no link of {}",
                node.name.get_ref()
            );
            return Err(source.wrong(at, text));
        }
        if gateway.is_ipv6() != network.is_v6() {
            let text = format!("{network} is not reached by {gateway}: one is IPv6");
            return Err(source.wrong(at, text));
        }
        if let Some(link) = links.iter().find(|link| is_of(link, own, &network)) {
            let name = node.name.get_ref();
            let text = format!("{name} is on {network} itself, by its link {}", link.name);
            return Err(source.wrong(route.to.span().start, text));
        }
        if let Some(other) = routes.iter().find(|other| other.network == network) {
            let line = source.line(other.at.unwrap_or(at));
            let text = format!("a second route to {network}; the first is in line {line}");
            return Err(source.wrong(route.to.span().start, text));
        }
        let at = Some(route.to.span().start);
        routes.push(Route {
            network,
            gateway,
            at,
        });
    }
    Ok(routes)
}

/// Whether the node is on this network by this link.
fn is_of(link: &LinkPlan, node: usize, network: &Cidr) -> bool {
    link.side(node)
        .is_some_and(|side| link.ends[side].address.network() == *network)
}

/// The node at the other end of one of its links that has this address.
fn neighbour(node: usize, address: &IpAddr, links: &[LinkPlan]) -> Option<usize> {
    links.iter().find_map(|link| {
        let side = link.side(node)?;
        let other = &link.ends[1 - side];
        (other.address.address == *address).then_some(other.node)
    })
}

/// Add the shortest way to each network to which the file says none: neither to it nor to one that
/// it is part of.
pub fn add_shortest(nodes: &mut [NodePlan], links: &[LinkPlan]) {
    for target in links {
        let network = target.ends[0].address.network();
        let mut known = vec![false; nodes.len()];
        let mut queue = VecDeque::new();
        for end in &target.ends {
            known[end.node] = true;
            queue.push_back(end.node);
        }
        while let Some(near) = queue.pop_front() {
            if !nodes[near].forward {
                continue;
            }
            for link in links {
                let Some(side) = link.side(near) else {
                    continue;
                };
                let far = link.ends[1 - side].node;
                let gateway = link.ends[side].address;
                if known[far] || gateway.is_v6() != network.is_v6() {
                    continue;
                }
                known[far] = true;
                queue.push_back(far);
                let routes = &mut nodes[far].routes;
                let is_said = |route: &Route| route.at.is_some() && route.network.holds(&network);
                if !routes.iter().any(is_said) {
                    routes.push(Route {
                        network,
                        gateway: gateway.address,
                        at: None,
                    });
                }
            }
        }
    }
}

/// All ways of a node, those by one link alone included, in an order in which Linux takes them: by
/// IPv6 it takes no gateway to which another route leads, but keeps those that it has.
pub fn in_order(
    node: &NodePlan,
    own: usize,
    links: &[LinkPlan],
    source: &Source,
) -> Result<Vec<(Option<usize>, Route)>> {
    let on = |link: &LinkPlan| Some(link.ends[link.side(own)?].address.network());
    let networks: Vec<Cidr> = links.iter().filter_map(on).collect();
    // It may lead to a neighbour, which is a gateway.
    let leads_near = |route: &Route| {
        let network = route.network;
        network.is_v6() && networks.iter().any(|own| own.holds(&network))
    };
    let by_all = node.routes.iter().map(|route| (None, route.clone()));
    let by_one = node.mptcp.ways.iter();
    let by_one = by_one.map(|(link, route)| (Some(*link), route.clone()));
    let all = by_all.chain(by_one);
    let (mut near, mut ways): (Vec<_>, Vec<_>) = all.partition(|(_, route)| leads_near(route));
    while !near.is_empty() {
        let is_next = |at: &usize| {
            let network = near[*at].1.network;
            let mut others = near.iter().enumerate().filter(|(other, _)| other != at);
            !others.any(|(_, (_, other))| network.contains(&other.gateway))
        };
        let Some(next) = (0..near.len()).find(is_next) else {
            let at = near.iter().find_map(|(_, route)| route.at).unwrap_or(0);
            let text = "by IPv6 Linux takes no gateway to which another route leads, and each of \
                        these leads to that of another: "
                .to_owned();
            let networks: Vec<_> = near.iter().map(|(_, r)| r.network.to_string()).collect();
            return Err(source.wrong(at, text + &networks.join(", ")));
        };
        ways.push(near.remove(next));
    }
    Ok(ways)
}

/// What becomes of a packet for this address.
pub enum Way {
    /// The nodes and links that it passes: each link, and from which of its sides.
    Arrives(Vec<(usize, usize)>),
    /// This node knows no way.
    Ends(usize),
    /// It comes by these nodes again and again.
    Loops(Vec<usize>),
}

pub fn way(from: usize, to: &IpAddr, nodes: &[NodePlan], links: &[LinkPlan]) -> Way {
    let (mut at, mut seen, mut passed) = (from, Vec::new(), Vec::new());
    loop {
        let is_here = |link: &LinkPlan| {
            link.side(at)
                .is_some_and(|side| link.ends[side].address.address == *to)
        };
        if links.iter().any(is_here) {
            return Way::Arrives(passed);
        }
        if let Some(first) = seen.iter().position(|node| *node == at) {
            return Way::Loops(seen.split_off(first));
        }
        seen.push(at);
        if at != from && !nodes[at].forward {
            return Way::Ends(at);
        }
        let hop = hop(at, to, &nodes[at], links).and_then(|hop| {
            links.iter().position(|link| {
                let there = |side: usize| link.ends[1 - side].address.address == hop.gateway;
                link.side(at).is_some_and(there)
            })
        });
        let Some((link, side)) = hop.and_then(|hop| Some((hop, links[hop].side(at)?))) else {
            return Way::Ends(at);
        };
        passed.push((link, side));
        at = links[link].ends[1 - side].node;
    }
}

/// By what a node hands on a packet for this address: as Linux, by the longest of the networks that
/// it is on, whose gateway is then the address, and those that it has routes to.
pub fn hop(at: usize, to: &IpAddr, node: &NodePlan, links: &[LinkPlan]) -> Option<Route> {
    let own = links.iter().filter_map(|link| {
        let network = link.ends[link.side(at)?].address.network();
        let (gateway, at) = (*to, None);
        Some(Route {
            network,
            gateway,
            at,
        })
    });
    let all = own.chain(node.routes.iter().cloned());
    let all = all.filter(|route| route.network.contains(to));
    all.max_by_key(|route| route.network.prefix)
}

/// No route of the file's leads in a circle. Shortest ways alone never do.
pub fn check_loops(nodes: &[NodePlan], links: &[LinkPlan], source: &Source) -> Result<()> {
    let said = |node: &NodePlan| node.routes.iter().any(|route| route.at.is_some());
    if !nodes.iter().any(said) {
        return Ok(());
    }
    for node in 0..nodes.len() {
        for end in links.iter().flat_map(|link| &link.ends) {
            let to = end.address.address;
            let Way::Loops(circle) = way(node, &to, nodes, links) else {
                continue;
            };
            let names: Vec<_> = circle
                .iter()
                .map(|node| nodes[*node].name.as_str())
                .collect();
            let mut hops = circle
                .iter()
                .filter_map(|at| hop(*at, &to, &nodes[*at], links));
            let at = hops.find_map(|hop| hop.at).unwrap_or(0);
            let text = format!(
                "packets for {to} go round and round: {} - {}",
                names.join(" - "),
                names[0]
            );
            return Err(source.wrong(at, text));
        }
    }
    Ok(())
}
