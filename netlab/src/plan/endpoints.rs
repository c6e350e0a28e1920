//! Which of their addresses nodes have connections by MPTCP take: as the file says, or as many as
//! lead to ways of their own.

use super::{FlowPlan, LinkPlan, NodePlan, Plan, Planner};
use crate::error::Result;
use crate::routes::{self, Route, Way};
use crate::topology::Node;
use std::net::IpAddr;
use tane::net::EndpointFlags;

/// As Linux has it.
const MOST: usize = 8;

/// An address that connections may take.
#[derive(Clone, Debug)]
pub struct EndpointPlan {
    pub address: IpAddr,
    pub link: usize,
    pub flags: EndpointFlags,
    /// Where the file says so.
    pub at: Option<usize>,
}

/// What a node's part in connections by MPTCP is.
#[derive(Clone, Debug, Default)]
pub struct MptcpPlan {
    /// Where the file first says that it has one; `None`: it has none.
    pub at: Option<usize>,
    /// Whether it begins paths to addresses of which it is told: it connects.
    pub connects: bool,
    pub endpoints: Vec<EndpointPlan>,
    /// Ways that only what is bound to a link takes: the link, and the way.
    pub ways: Vec<(usize, Route)>,
}

impl Planner<'_> {
    /// Those that the file says.
    pub(super) fn endpoints(
        &self,
        node: &Node,
        index: usize,
        links: &[LinkPlan],
    ) -> Result<Vec<EndpointPlan>> {
        let mut all: Vec<EndpointPlan> = Vec::new();
        for said in &node.endpoints {
            let own = |link: &LinkPlan| Some(link.ends[link.side(index)?].address.address);
            let address = said.address.get_ref().parse::<IpAddr>().ok();
            let link = address.and_then(|address| {
                let link = links.iter().position(|link| own(link) == Some(address));
                Some((address, link?))
            });
            let Some((address, link)) = link else {
                let name = node.name.get_ref();
                let text = format!("{:?} is no address of {name}", said.address.get_ref());
                return self.wrong(&said.address, text);
            };
            let flags = said.flags.get_ref().parse::<EndpointFlags>();
            let flags = flags.or_else(|e| self.wrong(&said.flags, e.to_string()))?;
            let at = said.address.span().start;
            if let Some(other) = all.iter().find(|other| other.address == address) {
                let line = self.source.line(other.at.unwrap_or(at));
                let text = format!("a second endpoint {address}; the first is in line {line}");
                return self.wrong(&said.address, text);
            }
            if all.len() == MOST {
                return self.wrong(&said.address, "a kernel has 8 endpoints at most");
            }
            let at = Some(at);
            all.push(EndpointPlan {
                address,
                link,
                flags,
                at,
            });
        }
        Ok(all)
    }

    /// Give both ends of each connection by MPTCP what they need for it.
    pub(super) fn give_endpoints(&self, plan: &mut Plan) -> Result<()> {
        let given: Vec<bool> = plan
            .nodes
            .iter()
            .map(|node| !node.mptcp.endpoints.is_empty())
            .collect();
        let flows = plan.flows.clone();
        let flows = flows.iter().filter_map(|flow| Some((flow, flow.mptcp?)));
        for (flow, at) in flows.clone() {
            for (node, connects) in [(flow.from, true), (flow.to, false)] {
                let mptcp = &mut plan.nodes[node].mptcp;
                mptcp.at.get_or_insert(at);
                mptcp.connects |= connects;
            }
            let found = find(flow, [flow.from, flow.to].map(|node| given[node]), plan);
            for (node, endpoint) in found {
                if !given[node] {
                    add(&mut plan.nodes[node].mptcp.endpoints, endpoint);
                }
            }
        }
        for (flow, _) in flows {
            self.add_ways(flow, plan)?;
        }
        Ok(())
    }

    /// What begins at a link goes by it, though another way may be the shortest.
    fn add_ways(&self, flow: &FlowPlan, plan: &mut Plan) -> Result<()> {
        let here = flow.from;
        let endpoints = plan.nodes[here].mptcp.endpoints.clone();
        for endpoint in endpoints
            .iter()
            .filter(|one| one.flags.subflow || one.flags.fullmesh)
        {
            let mut any = false;
            for (address, network) in addresses(flow.to, &plan.links) {
                if address.is_ipv6() != endpoint.address.is_ipv6() {
                    continue;
                }
                let Some(gateway) = leads(here, endpoint.link, &address, &plan.nodes, &plan.links)
                else {
                    continue;
                };
                any = true;
                // As wide as the way that others take: Linux prefers narrower ones, by whatever metric.
                let usual = routes::hop(here, &address, &plan.nodes[here], &plan.links);
                let network = usual.map_or_else(
                    || plan.links[network].ends[0].address.network(),
                    |usual| usual.network,
                );
                let ways = &mut plan.nodes[here].mptcp.ways;
                let known = ways
                    .iter()
                    .any(|(link, way)| (*link, way.network) == (endpoint.link, network));
                if gateway != address && !known {
                    let at = None;
                    ways.push((
                        endpoint.link,
                        Route {
                            network,
                            gateway,
                            at,
                        },
                    ));
                }
            }
            if let (false, Some(at)) = (any, endpoint.at) {
                let to = &plan.nodes[flow.to].name;
                let text = format!("no way from {} by its link to {to}", endpoint.address);
                return Err(self.source.wrong(at, text));
            }
        }
        Ok(())
    }
}

fn add(all: &mut Vec<EndpointPlan>, one: EndpointPlan) {
    let known = all.iter().position(|known| known.address == one.address);
    match known {
        Some(known) => {
            let flags = &mut all[known].flags;
            flags.signal |= one.flags.signal;
            flags.subflow |= one.flags.subflow;
        }
        None if all.len() < MOST => all.push(one),
        None => {}
    }
}

/// The addresses of `to` that it is to tell of, and those of `from` that lead there by links that
/// no other path begins with. `said`: which of them have theirs from the file.
fn find(flow: &FlowPlan, said: [bool; 2], plan: &Plan) -> Vec<(usize, EndpointPlan)> {
    let (nodes, links) = (&plan.nodes, &plan.links);
    let of = |node: usize| &nodes[node].mptcp.endpoints;
    let first = flow.address.ip();
    let first_link = |address: &IpAddr| match routes::way(flow.from, address, nodes, links) {
        Way::Arrives(passed) => passed.first().map(|(link, _)| *link),
        _ => None,
    };
    let (mut all, mut taken) = (Vec::new(), Vec::from_iter(first_link(&first)));
    let flags = |signal| EndpointFlags {
        signal,
        subflow: !signal,
        ..EndpointFlags::default()
    };
    for (address, link) in addresses(flow.to, links) {
        let by = first_link(&address).filter(|_| address.is_ipv6() == first.is_ipv6());
        let (Some(by), false) = (by, address == first) else {
            continue;
        };
        let tells = |one: &EndpointPlan| one.flags.signal && one.address == address;
        // A path begins there already, by what the file says.
        let begins =
            |one: &EndpointPlan| one.link == by && one.flags.subflow && !one.flags.fullmesh;
        if said[1] && !of(flow.to).iter().any(tells) || said[0] && of(flow.from).iter().any(begins)
        {
            continue;
        }
        taken.push(by);
        let flags = flags(true);
        all.push((
            flow.to,
            EndpointPlan {
                address,
                link,
                flags,
                at: None,
            },
        ));
    }
    for (address, link) in addresses(flow.from, links) {
        let fits = address.is_ipv6() == first.is_ipv6() && !taken.contains(&link);
        if fits && leads(flow.from, link, &first, nodes, links).is_some() {
            taken.push(link);
            let flags = flags(false);
            all.push((
                flow.from,
                EndpointPlan {
                    address,
                    link,
                    flags,
                    at: None,
                },
            ));
        }
    }
    all
}

/// A node's addresses, and which links they are of.
fn addresses(node: usize, links: &[LinkPlan]) -> impl Iterator<Item = (IpAddr, usize)> + '_ {
    let own = links.iter().enumerate();
    own.filter_map(move |(number, link)| {
        Some((link.ends[link.side(node)?].address.address, number))
    })
}

/// The other end of a node's link, if packets for this address arrive that are sent to it, and do
/// not come back first, and answers find the way back.
fn leads(
    node: usize,
    link: usize,
    to: &IpAddr,
    nodes: &[NodePlan],
    links: &[LinkPlan],
) -> Option<IpAddr> {
    let side = links[link].side(node)?;
    let [own, other] = [side, 1 - side].map(|side| links[link].ends[side]);
    if other.address.address == *to {
        return Some(*to);
    }
    let Way::Arrives(passed) = routes::way(other.node, to, nodes, links) else {
        return None;
    };
    let returns = passed
        .iter()
        .any(|(passed, side)| links[*passed].ends[*side].node == node);
    let target = passed
        .last()
        .map_or(other.node, |(last, side)| links[*last].ends[1 - side].node);
    let answers = routes::way(target, &own.address.address, nodes, links);
    let leads = nodes[other.node].forward && !returns && matches!(answers, Way::Arrives(_));
    leads.then_some(other.address.address)
}
