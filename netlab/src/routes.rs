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
        let network = match route.to.get_ref().as_str() {
            "default" => Cidr {
                address: [0, 0, 0, 0].into(),
                prefix: 0,
            },
            _ => cidr(&route.to, source)?.network(),
        };
        let at = route.via.span().start;
        let gateway: IpAddr = route.via.get_ref().parse().map_err(|_| {
            let text = format!("{:?} is no address: write 10.0.0.2", route.via.get_ref());
            source.wrong(at, text)
        })?;
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

/// The node at the other end of one of its links that has this address.
fn neighbour(node: usize, address: &IpAddr, links: &[LinkPlan]) -> Option<usize> {
    links.iter().find_map(|link| {
        let side = link.side(node)?;
        let other = &link.ends[1 - side];
        (other.address.address == *address).then_some(other.node)
    })
}

/// Add the shortest way to each network that a node has no other for.
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
                if routes.iter().all(|route| route.network != network) {
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
        let on = links.iter().position(|link| {
            let there = |side: usize| link.ends[1 - side].address.address == *to;
            link.side(at).is_some_and(there)
        });
        let hop = on.or_else(|| {
            let routes = nodes[at].routes.iter();
            let routes = routes.filter(|route| route.network.contains(to));
            let best = routes.max_by_key(|route| route.network.prefix)?;
            links.iter().position(|link| {
                let there = |side: usize| link.ends[1 - side].address.address == best.gateway;
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
            let routes = circle.iter().flat_map(|node| &nodes[*node].routes);
            let mut routes = routes.filter(|route| route.network.contains(&to));
            let at = routes.find_map(|route| route.at).unwrap_or(0);
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
