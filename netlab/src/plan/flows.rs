//! Flows: who they are between, what for, and whether their packets arrive.

use super::{FlowPlan, Names, Plan, Planner, Work};
use crate::error::Result;
use crate::routes::{self, Way};
use crate::topology::{Flow, Text};
use std::net::{IpAddr, SocketAddr};

/// Of the first flow that names none.
const FIRST_PORT: u16 = 5001;
/// Of a datagram's bytes: as many as a frame has room for, whose network is IPv6.
const USUAL: u64 = 1452;
/// From the number that it begins with to what IPv4 has room for.
const SIZES: std::ops::RangeInclusive<u64> = 8..=65_507;

impl Planner<'_> {
    pub(super) fn flow(
        &self,
        index: usize,
        flow: &Flow,
        names: &Names,
        taken: &mut Names,
        plan: &Plan,
    ) -> Result<FlowPlan> {
        let (from, to) = (self.known(&flow.from, names)?, self.known(&flow.to, names)?);
        let name = match &flow.name {
            Some(name) => {
                self.name(name, index, "flow", taken)?;
                name.get_ref().clone()
            }
            None => format!("flow{}", index + 1),
        };
        let port = match &flow.port {
            None => u16::try_from(index)
                .ok()
                .and_then(|index| FIRST_PORT.checked_add(index)),
            Some(port) => u16::try_from(*port.get_ref()).ok().filter(|port| *port > 0),
        };
        let Some(port) = port else {
            return self.wrong(&flow.from, "a port is from 1 to 65535");
        };
        let address = self.address_of(flow, to, plan)?;
        let clash = plan
            .flows
            .iter()
            .find(|other| other.to == to && other.address.port() == port);
        if let Some(other) = clash {
            let text = format!("port {port} of {} is {}'s", flow.to.get_ref(), other.name);
            return self.wrong(&flow.to, text);
        }
        let planned = FlowPlan {
            name,
            from,
            to,
            address: SocketAddr::new(address, port),
            begins: self.time_or(&flow.at, 0)?,
            length: flow
                .length
                .as_ref()
                .map(|text| self.source.time(text))
                .transpose()?,
            work: match self.is_udp(flow)? {
                true => self.datagrams(flow)?,
                false => self.work(flow)?,
            },
            congestion: flow
                .congestion
                .as_ref()
                .map(|name| (name.get_ref().clone(), name.span().start)),
            mptcp: flow
                .mptcp
                .as_ref()
                .filter(|yes| *yes.get_ref())
                .map(|yes| yes.span().start),
        };
        self.check_way(flow, &planned, plan)?;
        Ok(planned)
    }

    /// The one that is said, or that of its first link.
    fn address_of(&self, flow: &Flow, to: usize, plan: &Plan) -> Result<IpAddr> {
        let ends = plan
            .links
            .iter()
            .filter_map(|link| Some(&link.ends[link.side(to)?]));
        let mut own = ends.map(|end| end.address.address);
        let name = flow.to.get_ref();
        let Some(said) = &flow.address else {
            return match own.next() {
                Some(address) => Ok(address),
                None => self.wrong(&flow.to, format!("{name} is at no link")),
            };
        };
        let address = said.get_ref().parse::<IpAddr>().ok();
        match address.filter(|address| own.any(|own| own == *address)) {
            Some(address) => Ok(address),
            None => self.wrong(
                said,
                format!("{:?} is no address of {name}", said.get_ref()),
            ),
        }
    }

    fn is_udp(&self, flow: &Flow) -> Result<bool> {
        let Some(protocol) = &flow.protocol else {
            return Ok(false);
        };
        match protocol.get_ref().as_str() {
            "udp" => Ok(true),
            "tcp" => Ok(false),
            other => self.wrong(
                protocol,
                format!("{other:?} is no protocol: write tcp or udp"),
            ),
        }
    }

    fn datagrams(&self, flow: &Flow) -> Result<Work> {
        for (key, text) in [
            ("congestion", &flow.congestion),
            ("request", &flow.request),
            ("response", &flow.response),
        ] {
            if let Some(text) = text {
                return self.wrong(text, format!("{key} is of TCP"));
            }
        }
        if let Some(mptcp) = &flow.mptcp {
            return Err(self.source.wrong_at(mptcp.span(), "mptcp is of TCP"));
        }
        let size = match &flow.size {
            None => USUAL,
            Some(text) => match self.source.bytes(text)? {
                bytes if SIZES.contains(&bytes) => bytes,
                _ => return self.wrong(text, "a datagram has from 8 to 65507 bytes"),
            },
        };
        let Some(rate) = &flow.rate else {
            return self.wrong(&flow.from, "how fast? Say rate, such as \"5mbit\"");
        };
        let rate = self.source.rate(rate)?;
        let times = self.times(flow)?;
        let most = match (&flow.bytes, times, &flow.length) {
            (None, None, None) => {
                return self.wrong(&flow.from, "how many? Say bytes, times or for");
            }
            (Some(bytes), None, None) => self.source.bytes(bytes)?.div_ceil(size),
            (None, Some(times), None) => times,
            (None, None, Some(length)) => {
                let bits = u128::from(self.source.time(length)?) * u128::from(rate);
                let most = bits.div_ceil(u128::from(size) * 8 * 1_000_000_000);
                u64::try_from(most).unwrap_or(u64::MAX)
            }
            _ => return self.wrong(&flow.from, "say one of bytes, times and for"),
        };
        match most {
            0 => self.wrong(&flow.from, "nothing is sent"),
            most => Ok(Work::Datagrams { size, rate, most }),
        }
    }

    fn times(&self, flow: &Flow) -> Result<Option<u64>> {
        let Some(times) = &flow.times else {
            return Ok(None);
        };
        match u64::try_from(*times.get_ref()) {
            Ok(times) if times > 0 => Ok(Some(times)),
            _ => Err(self.source.wrong_at(times.span(), "no times at all")),
        }
    }

    fn work(&self, flow: &Flow) -> Result<Work> {
        for (key, text) in [("size", &flow.size), ("rate", &flow.rate)] {
            if let Some(text) = text {
                return self.wrong(
                    text,
                    format!("{key} is of datagrams: say protocol = \"udp\""),
                );
            }
        }
        let size = |text: &Option<Text>, default| match text {
            None => Ok(default),
            Some(text) => match self.source.bytes(text)? {
                0 => self.wrong(text, "nothing is sent"),
                bytes => Ok(bytes),
            },
        };
        let Some(request) = &flow.request else {
            if let Some(response) = &flow.response {
                return self.wrong(response, "a response to no request: say how long that is");
            }
            if let Some(times) = &flow.times {
                return Err(self.source.wrong_at(times.span(), "times is of requests"));
            }
            let bytes = flow
                .bytes
                .is_some()
                .then(|| size(&flow.bytes, 0))
                .transpose()?;
            if bytes.is_none() && flow.length.is_none() {
                return self.wrong(&flow.from, "how much? Say bytes, for or request");
            }
            return Ok(Work::Stream { bytes });
        };
        if let Some(bytes) = &flow.bytes {
            return self.wrong(
                bytes,
                "bytes is of streams: requests have request and response",
            );
        }
        let times = self.times(flow)?;
        if times.is_none() && flow.length.is_none() {
            return self.wrong(request, "how often? Say times or for");
        }
        Ok(Work::Requests {
            request: size(&flow.request, 1)?,
            response: size(&flow.response, 1)?,
            times,
        })
    }

    /// Its packets arrive, both ways, and not as fast as this machine computes for ever.
    fn check_way(&self, flow: &Flow, planned: &FlowPlan, plan: &Plan) -> Result<()> {
        let (nodes, links) = (&plan.nodes, &plan.links);
        let there = routes::way(planned.from, &planned.address.ip(), nodes, links);
        let Way::Arrives(passed) = there else {
            let at = match there {
                Way::Ends(node) => format!(": {} knows no way there", nodes[node].name),
                _ => String::new(),
            };
            let (from, to) = (flow.from.get_ref(), planned.address.ip());
            return self.wrong(&flow.to, format!("packets of {from} do not reach {to}{at}"));
        };
        // Within a node there is no cable.
        if let Some((first, side)) = passed.first() {
            let own = links[*first].ends[*side].address.address;
            if let Way::Ends(node) = routes::way(planned.to, &own, nodes, links) {
                let text = format!(
                    "answers of {} do not reach {own}: {} knows no way there",
                    flow.to.get_ref(),
                    nodes[node].name
                );
                return self.wrong(&flow.from, text);
            }
        }
        let for_ever = matches!(planned.work, Work::Requests { times: None, .. });
        if for_ever && passed.is_empty() {
            let text = "it asks for a time within one node, where none passes: say times instead";
            return self.wrong(&flow.from, text);
        }
        let is_slow = |(link, side): &(usize, usize)| {
            let impair = links[*link].impair[*side].as_ref();
            impair.is_some_and(|how| how.rate.is_some())
        };
        let endless = matches!(planned.work, Work::Stream { bytes: None });
        if endless && !passed.iter().any(is_slow) {
            let text = "it sends for a time on a way without a rate, where time hardly passes: say \
                        bytes instead, or give a link of it a rate, such as impair = \"rate=1gbit\"";
            return self.wrong(&flow.from, text);
        }
        Ok(())
    }
}
