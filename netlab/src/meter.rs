//! What a connection is like meanwhile, and what each of its paths is.

use crate::plan::Plan;
use crate::report::{PathReport, Sample};
use crate::routes::{self, Way};
use std::net::SocketAddr;
use tane::net::{Socket, TcpInfo};

const SECOND: f64 = 1e9;

/// Looks at a connection.
pub struct Meter {
    began: f64,
    samples: Vec<Sample>,
    /// Of all paths together: what they do, or have done.
    last: TcpInfo,
    /// All there ever were; none of a connection by TCP.
    paths: Vec<Path>,
}

/// A path of a connection by MPTCP.
struct Path {
    id: u32,
    ends: [SocketAddr; 2],
    began: f64,
    ended: Option<f64>,
    samples: Vec<Sample>,
    last: TcpInfo,
}

impl Meter {
    /// Of a connection that begins now.
    pub fn new(now: u64) -> Self {
        Self {
            began: now as f64 / SECOND,
            samples: Vec::new(),
            last: TcpInfo::default(),
            paths: Vec::new(),
        }
    }

    /// Look at it, of whose bytes so many have arrived.
    pub fn look(&mut self, client: &Socket, arrived: u64, now: u64) {
        let seconds = now as f64 / SECOND;
        // Of a connection that is by TCP there are no paths.
        match client.mptcp_info() {
            Ok(info) => {
                for path in &mut self.paths {
                    if info.subflows.iter().all(|subflow| subflow.id != path.id) {
                        path.ended.get_or_insert(seconds);
                    }
                }
                for subflow in &info.subflows {
                    let known = self.paths.iter().position(|path| path.id == subflow.id);
                    let number = known.unwrap_or_else(|| {
                        self.paths.push(Path::new(subflow.id, seconds));
                        self.paths.len() - 1
                    });
                    let path = &mut self.paths[number];
                    path.ends = [subflow.local, subflow.remote];
                    path.last = subflow.tcp;
                    let sample =
                        sample(&path.samples, path.began, seconds, path.bytes(), &path.last);
                    path.samples.push(sample);
                }
                self.last = self.together();
            }
            // Of datagrams TCP knows nothing.
            Err(_) => self.last = client.tcp_info().unwrap_or_default(),
        }
        let sample = sample(&self.samples, self.began, seconds, arrived, &self.last);
        self.samples.push(sample);
    }

    /// What all paths have done; the round trip is that of the fastest.
    fn together(&self) -> TcpInfo {
        let now = || self.paths.iter().filter(|path| path.ended.is_none());
        let measured = |time: &std::time::Duration| !time.is_zero();
        let min_rtts = self.paths.iter().map(|path| path.last.min_rtt);
        TcpInfo {
            rtt: now()
                .map(|path| path.last.rtt)
                .filter(measured)
                .min()
                .unwrap_or_default(),
            min_rtt: min_rtts.filter(measured).min().unwrap_or_default(),
            congestion_window: now().map(|path| path.last.congestion_window).sum(),
            retransmits: self.paths.iter().map(|path| path.last.retransmits).sum(),
            ..TcpInfo::default()
        }
    }

    /// What it was like when it was last looked at.
    pub fn last(&self) -> &TcpInfo {
        &self.last
    }

    /// Whether it was one by MPTCP.
    pub fn is_mptcp(&self) -> bool {
        !self.paths.is_empty()
    }

    /// All samples, and all paths; `from` is the node that looked.
    pub fn report(self, from: usize, passed: f64, plan: &Plan) -> (Vec<Sample>, Vec<PathReport>) {
        let paths = self.paths.into_iter();
        let paths = paths.map(|path| path.report(from, passed, plan));
        (self.samples, paths.collect())
    }
}

impl Path {
    fn new(id: u32, began: f64) -> Self {
        let nobody = SocketAddr::new([0, 0, 0, 0].into(), 0);
        Self {
            id,
            ends: [nobody; 2],
            began,
            ended: None,
            samples: Vec::new(),
            last: TcpInfo::default(),
        }
    }

    /// That have gone by it, either way. TCP counts its beginning as one.
    fn bytes(&self) -> u64 {
        self.last.bytes_acked.saturating_sub(1) + self.last.bytes_received
    }

    fn report(self, from: usize, passed: f64, plan: &Plan) -> PathReport {
        let bytes = self.bytes();
        PathReport {
            links: links(from, &self.ends, plan),
            from: self.ends[0].ip(),
            to: self.ends[1].ip(),
            began: self.began,
            ended: self.ended,
            bytes,
            bits_per_second: match passed > 0.0 {
                true => bytes as f64 * 8.0 / passed,
                false => 0.0,
            },
            retransmits: self.last.retransmits,
            min_rtt_ms: self.last.min_rtt.as_secs_f64() * 1e3,
            samples: self.samples,
        }
    }
}

fn sample(before: &[Sample], began: f64, seconds: f64, bytes: u64, info: &TcpInfo) -> Sample {
    let before = before.last().map_or((began, 0), |s| (s.seconds, s.bytes));
    let passed = seconds - before.0;
    Sample {
        seconds,
        bytes,
        bits_per_second: match passed > 0.0 {
            true => bytes.saturating_sub(before.1) as f64 * 8.0 / passed,
            false => 0.0,
        },
        rtt_ms: info.rtt.as_secs_f64() * 1e3,
        congestion_window: info.congestion_window,
        retransmits: info.retransmits,
    }
}

/// The links from an address of this node's to another one, by their names.
fn links(from: usize, ends: &[SocketAddr; 2], plan: &Plan) -> Vec<String> {
    let [own, other] = ends.map(|end| end.ip());
    let first = plan.links.iter().enumerate().find_map(|(number, link)| {
        let side = link.side(from)?;
        (link.ends[side].address.address == own).then_some((number, side))
    });
    let Some((first, side)) = first else {
        return Vec::new();
    };
    let next = plan.links[first].ends[1 - side].node;
    let rest = match routes::way(next, &other, &plan.nodes, &plan.links) {
        Way::Arrives(passed) => passed,
        _ => Vec::new(),
    };
    let all = std::iter::once(first).chain(rest.into_iter().map(|(link, _)| link));
    all.map(|link| plan.links[link].name.clone()).collect()
}
