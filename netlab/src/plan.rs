//! What a file means: names that there are, times and rates that are possible, ways that lead
//! somewhere. What a plan says can be set up, if the image has what it takes.

mod endpoints;
mod flows;

use crate::addresses::{self, Cidr};
use crate::error::{Error, Result};
use crate::report::EventReport;
use crate::routes::{self, Route};
use crate::source::Source;
use crate::topology::{Event, Link, Node, Text, Topology};
use endpoints::MptcpPlan;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::Path;
use tane::net::Impairment;
use tane::MAX_KERNELS;

const SECOND: u64 = 1_000_000_000;
const SAMPLE: u64 = SECOND / 10;
/// Connections that never end are given up by TCP itself before.
const LENGTH: u64 = 3600 * SECOND;
const LEAST_MEMORY: u64 = 32 << 20;

/// A laboratory that could be built.
#[derive(Clone, Debug)]
pub struct Plan {
    pub(crate) source: Source,
    pub(crate) seed: u64,
    /// Longest, and from one look at a connection to the next, in ns.
    pub(crate) length: u64,
    pub(crate) sample: u64,
    pub(crate) nodes: Vec<NodePlan>,
    pub(crate) links: Vec<LinkPlan>,
    pub(crate) flows: Vec<FlowPlan>,
    pub(crate) events: Vec<EventPlan>,
}

#[derive(Clone, Debug)]
pub struct NodePlan {
    pub name: String,
    pub at: usize,
    pub memory: Option<u64>,
    pub forward: bool,
    pub v6: bool,
    /// Name, value, where.
    pub sysctl: Vec<(String, String, usize)>,
    pub routes: Vec<Route>,
    /// These and those of `mptcp`, by which link alone if not by all, as they are added.
    pub ways: Vec<(Option<usize>, Route)>,
    pub mptcp: MptcpPlan,
}

#[derive(Clone, Copy, Debug)]
pub struct End {
    pub node: usize,
    pub address: Cidr,
}

#[derive(Clone, Debug)]
pub struct LinkPlan {
    pub name: String,
    pub at: usize,
    pub ends: [End; 2],
    pub mtu: u16,
    /// Of what either end sends.
    pub impair: [Option<Impairment>; 2],
}

impl LinkPlan {
    /// At which end this node is.
    pub fn side(&self, node: usize) -> Option<usize> {
        self.ends.iter().position(|end| end.node == node)
    }
}

/// What a connection is for.
#[derive(Clone, Copy, Debug)]
pub enum Work {
    /// So many bytes, if it is not over before.
    Stream { bytes: Option<u64> },
    /// So many questions and answers of these sizes.
    Requests {
        request: u64,
        response: u64,
        times: Option<u64>,
    },
    /// So many datagrams of a size, so many bits of them a second.
    Datagrams { size: u64, rate: u64, most: u64 },
}

#[derive(Clone, Debug)]
pub struct FlowPlan {
    pub name: String,
    pub from: usize,
    pub to: usize,
    pub address: SocketAddr,
    /// When it begins, and how long it goes on at most, in ns.
    pub begins: u64,
    pub length: Option<u64>,
    pub work: Work,
    pub congestion: Option<(String, usize)>,
    pub mptcp: Option<usize>,
}

#[derive(Clone, Debug)]
pub struct EventPlan {
    /// In ns.
    pub time: u64,
    pub at: usize,
    pub link: usize,
    pub cut: Option<bool>,
    pub impair: [Option<Impairment>; 2],
}

impl EventPlan {
    pub fn report(&self, plan: &Plan) -> EventReport {
        let what = match self.cut {
            Some(true) => "cut",
            Some(false) => "mended",
            None => "changed",
        };
        EventReport {
            seconds: self.time as f64 / 1e9,
            what: format!("{} {what}", plan.links[self.link].name),
        }
    }
}

impl Plan {
    /// What this file says.
    ///
    /// Errors: the file cannot be read; a line of it makes no sense.
    pub fn read(path: &Path) -> Result<Plan> {
        let text = std::fs::read_to_string(path).map_err(|e| Error::File(path.to_owned(), e))?;
        Self::parse(path, &text)
    }

    /// What this text says; `path` is what errors call it.
    pub fn parse(path: &Path, text: &str) -> Result<Plan> {
        let source = Source::new(path, text);
        let topology: Topology = toml::from_str(text).map_err(|e| {
            let at = e.span().map_or(0, |span| span.start);
            source.wrong(at, e.message().trim_end())
        })?;
        Planner { source: &source }.plan(&topology)
    }

    /// Kernels, which the laboratory boots.
    pub fn nodes(&self) -> usize {
        self.nodes.len()
    }

    /// The cables' names, as captures have them.
    pub fn links(&self) -> impl Iterator<Item = &str> {
        self.links.iter().map(|link| link.name.as_str())
    }

    /// With another seed than the file's.
    pub fn with_seed(mut self, seed: u64) -> Plan {
        self.seed = seed;
        self
    }
}

struct Planner<'a> {
    source: &'a Source,
}

/// Names, and where they were given first.
type Names = HashMap<String, (usize, usize)>;

impl Planner<'_> {
    fn wrong<T>(&self, text: &Text, wrong: impl Into<String>) -> Result<T> {
        Err(self.source.wrong_at(text.span(), wrong))
    }

    fn plan(&self, topology: &Topology) -> Result<Plan> {
        if topology.nodes.is_empty() {
            return Err(self.source.wrong(0, "there is no [[node]]"));
        }
        let mut names = Names::new();
        for (index, node) in topology.nodes.iter().enumerate() {
            self.name(&node.name, index, "node", &mut names)?;
            if index == MAX_KERNELS {
                let wrong =
                    format!("a process has room for {MAX_KERNELS} kernels, and this is one more");
                return self.wrong(&node.name, wrong);
            }
        }
        let links = self.links(&topology.links, &names)?;
        let mut nodes = Vec::new();
        for (index, node) in topology.nodes.iter().enumerate() {
            nodes.push(self.node(index, node, &links)?);
        }
        routes::add_shortest(&mut nodes, &links);
        routes::check_loops(&nodes, &links, self.source)?;
        let named: HashMap<_, _> = links.iter().map(|l| l.name.as_str()).zip(0..).collect();
        let events = topology
            .events
            .iter()
            .map(|event| self.event(event, &named));
        let mut events = events.collect::<Result<Vec<_>>>()?;
        events.sort_by_key(|event| event.time);
        let mut plan = Plan {
            source: self.source.clone(),
            seed: topology.seed,
            length: self.time_or(&topology.length, LENGTH)?,
            sample: self.time_or(&topology.sample, SAMPLE)?,
            nodes,
            links,
            flows: Vec::new(),
            events,
        };
        if plan.sample == 0 {
            let text = topology.sample.as_ref().expect("it is not the default");
            return self.wrong(text, "samples with no time between them");
        }
        let mut taken = Names::new();
        for (index, flow) in topology.flows.iter().enumerate() {
            let flow = self.flow(index, flow, &names, &mut taken, &plan)?;
            plan.flows.push(flow);
        }
        self.give_endpoints(&mut plan)?;
        for index in 0..plan.nodes.len() {
            let ways = routes::in_order(&plan.nodes[index], index, &plan.links, self.source)?;
            plan.nodes[index].ways = ways;
        }
        Ok(plan)
    }

    fn time_or(&self, text: &Option<Text>, default: u64) -> Result<u64> {
        text.as_ref()
            .map_or(Ok(default), |text| self.source.time(text))
    }

    /// A name that nobody has, and that may name a file.
    fn name(&self, name: &Text, index: usize, what: &str, names: &mut Names) -> Result<()> {
        let text = name.get_ref();
        let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if text.is_empty() || text.starts_with('.') || !text.chars().all(fits) {
            let wrong = format!("{text:?} is no name: letters, digits, - and _ make one");
            return self.wrong(name, wrong);
        }
        let at = name.span().start;
        if let Some((_, before)) = names.insert(text.clone(), (index, at)) {
            let line = self.source.line(before);
            return self.wrong(
                name,
                format!("a second {what} {text}; the first is in line {line}"),
            );
        }
        Ok(())
    }

    fn known(&self, name: &Text, names: &Names) -> Result<usize> {
        match names.get(name.get_ref()) {
            Some((index, _)) => Ok(*index),
            None => {
                let mut all: Vec<_> = names.keys().map(String::as_str).take(8).collect();
                all.sort_unstable();
                let text = format!(
                    "there is no node {:?}; nodes are {}",
                    name.get_ref(),
                    all.join(", ")
                );
                self.wrong(name, text)
            }
        }
    }

    fn node(&self, index: usize, node: &Node, links: &[LinkPlan]) -> Result<NodePlan> {
        let memory = node.memory.as_ref();
        let memory = memory.map(|text| Ok((self.source.bytes(text)?, text)));
        let memory = match memory.transpose()? {
            None => None,
            Some((bytes, text)) if bytes < LEAST_MEMORY => {
                return self.wrong(text, "a kernel takes 32M of memory at least");
            }
            Some((bytes, _)) => Some(bytes),
        };
        let own = links
            .iter()
            .filter_map(|link| Some(link.ends[link.side(index)?].address));
        let own: Vec<Cidr> = own.collect();
        let sysctl = node.sysctl.iter().map(|(name, value)| {
            (
                name.get_ref().clone(),
                value.get_ref().clone(),
                name.span().start,
            )
        });
        Ok(NodePlan {
            name: node.name.get_ref().clone(),
            at: node.name.span().start,
            memory,
            forward: node.forward.unwrap_or(own.len() > 1),
            v6: own.iter().any(Cidr::is_v6),
            sysctl: sysctl.collect(),
            routes: routes::said(node, index, links, self.source)?,
            ways: Vec::new(),
            mptcp: MptcpPlan {
                endpoints: self.endpoints(node, index, links)?,
                ..MptcpPlan::default()
            },
        })
    }

    fn links(&self, links: &[Link], names: &Names) -> Result<Vec<LinkPlan>> {
        let (mut all, mut taken) = (Vec::new(), Names::new());
        // Addresses that the file says come first, so that none is given away before.
        let mut order: Vec<usize> = (0..links.len()).collect();
        order.sort_by_key(|index| links[*index].addresses.is_none());
        for index in order {
            let link = self.link(index, &links[index], names, &all)?;
            all.push((index, link));
        }
        all.sort_by_key(|(index, _)| *index);
        for (index, link) in links.iter().enumerate() {
            if let Some(name) = &link.name {
                self.name(name, index, "link", &mut taken)?;
            }
        }
        let mut links: Vec<LinkPlan> = all.into_iter().map(|(_, link)| link).collect();
        for link in &mut links {
            // Two cables between the same nodes.
            let (base, mut number) = (link.name.clone(), 1);
            while taken.get(&link.name).is_some_and(|(_, at)| *at != link.at) {
                number += 1;
                link.name = format!("{base}-{number}");
            }
            taken.insert(link.name.clone(), (0, link.at));
        }
        Ok(links)
    }

    fn link(
        &self,
        index: usize,
        link: &Link,
        names: &Names,
        before: &[(usize, LinkPlan)],
    ) -> Result<LinkPlan> {
        let [first, second] = &link.between.get_ref()[..] else {
            let text = "a link is between two nodes: between = [\"a\", \"b\"]";
            return Err(self.source.wrong_at(link.between.span(), text));
        };
        let (from, to) = (self.known(first, names)?, self.known(second, names)?);
        if from == to {
            return self.wrong(second, format!("a link from {} to itself", first.get_ref()));
        }
        let before: Vec<LinkPlan> = before.iter().map(|(_, link)| link.clone()).collect();
        let [(here, _), (there, _)] = addresses::of(link, index, &before, self.source)?;
        let mtu = match &link.mtu {
            None => 1500,
            Some(mtu) => u16::try_from(*mtu.get_ref())
                .ok()
                .filter(|mtu| *mtu >= if here.is_v6() { 1280 } else { 68 })
                .ok_or_else(|| {
                    let text = "an MTU is from 68 (IPv6: 1280) to 65535 bytes";
                    self.source.wrong_at(mtu.span(), text)
                })?,
        };
        let (name, at) = match &link.name {
            Some(name) => (name.get_ref().clone(), name.span().start),
            None => {
                let name = format!("{}-{}", first.get_ref(), second.get_ref());
                (name, link.between.span().start)
            }
        };
        Ok(LinkPlan {
            name,
            at,
            ends: [(from, here), (to, there)].map(|(node, address)| End { node, address }),
            mtu,
            impair: self.impairments(&link.impair, &link.there, &link.back)?,
        })
    }

    fn impairments(
        &self,
        both: &Option<Text>,
        there: &Option<Text>,
        back: &Option<Text>,
    ) -> Result<[Option<Impairment>; 2]> {
        if let (Some(both), true) = (both, there.is_some() || back.is_some()) {
            return self.wrong(
                both,
                "impair is of both ways: say there and back, or impair",
            );
        }
        let read = |text: &Option<Text>| {
            let text = text.as_ref().or(both.as_ref());
            text.map(|text| self.source.impairment(text)).transpose()
        };
        Ok([read(there)?, read(back)?])
    }

    fn event(&self, event: &Event, links: &HashMap<&str, usize>) -> Result<EventPlan> {
        let name = event.link.get_ref();
        let Some(link) = links.get(name.as_str()) else {
            let mut all: Vec<_> = links.keys().copied().take(8).collect();
            all.sort_unstable();
            let text = format!("there is no link {name:?}; links are {}", all.join(", "));
            return self.wrong(&event.link, text);
        };
        let impair = self.impairments(&event.impair, &event.there, &event.back)?;
        if event.cut.is_none() && impair.iter().all(Option::is_none) {
            return self.wrong(&event.at, "nothing happens: say cut = true, or impair");
        }
        Ok(EventPlan {
            time: self.source.time(&event.at)?,
            at: event.link.span().start,
            link: *link,
            cut: event.cut,
            impair,
        })
    }
}
