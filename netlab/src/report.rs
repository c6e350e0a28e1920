//! What was measured.

use serde::Serialize;
use std::fmt;
use std::net::IpAddr;

/// What a laboratory has measured. Times are in seconds of its own clock, from when the
/// program began, if nothing else is said.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// What chance began with.
    pub seed: u64,
    /// Kernels.
    pub nodes: usize,
    /// How long it went on.
    pub seconds: f64,
    /// How long the machine took for it, and to boot and set up all kernels before, by the
    /// host's clock.
    pub host_seconds: f64,
    /// See `host_seconds`.
    pub start_seconds: f64,
    /// How often its clock went on.
    pub steps: u64,
    /// Frames that were sent, while it was set up, too.
    pub frames: u64,
    /// Each connection.
    pub flows: Vec<FlowReport>,
    /// Each cable.
    pub links: Vec<CableReport>,
    /// What happened meanwhile, as the file says.
    pub events: Vec<EventReport>,
}

/// What happened to a cable.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EventReport {
    /// When.
    pub seconds: f64,
    /// In words.
    pub what: String,
}

/// What became of a connection.
#[derive(Clone, Debug, Serialize)]
pub struct FlowReport {
    /// Its name.
    pub name: String,
    /// The node that connects, and sends or asks.
    pub from: String,
    /// The other one.
    pub to: String,
    /// `tcp`, `mptcp` or `udp`: what it was. One by MPTCP goes on by TCP if the other end has none.
    pub protocol: &'static str,
    /// The sender's congestion control, if the file says it.
    pub congestion: Option<String>,
    /// When it began.
    pub began: f64,
    /// When all had arrived, or its time was over; `None`: neither, until the end.
    pub ended: Option<f64>,
    /// Bytes that arrived at `to` by then.
    pub bytes: u64,
    /// The same as bits a second, on average.
    pub bits_per_second: f64,
    /// Segments that the sender sent again.
    pub retransmits: u32,
    /// The shortest round trip of TCP's, in ms.
    pub min_rtt_ms: f64,
    /// Of questions and answers.
    pub latency: Option<Latency>,
    /// Of datagrams, for which TCP's figures are zero.
    pub datagrams: Option<DatagramReport>,
    /// Why it ended too soon.
    pub error: Option<String>,
    /// How it was meanwhile. Of several paths windows and segments sent again are those of all
    /// together, and the round trip is that of the fastest.
    pub samples: Vec<Sample>,
    /// The paths that it took, if it was by MPTCP.
    pub paths: Vec<PathReport>,
}

/// What went by one of a connection's paths.
#[derive(Clone, Debug, Serialize)]
pub struct PathReport {
    /// The links of it, from the node that connects to the other one.
    pub links: Vec<String>,
    /// The address that it begins at.
    pub from: IpAddr,
    /// The one that it leads to.
    pub to: IpAddr,
    /// When it was first there, and no longer; `None`: it was until the end.
    pub began: f64,
    /// See `began`.
    pub ended: Option<f64>,
    /// Bytes that went by it and were acknowledged, either way; some may have come by another
    /// path, too.
    pub bytes: u64,
    /// The same as bits a second, on average over the whole connection's time.
    pub bits_per_second: f64,
    /// Segments that the sender sent again by it.
    pub retransmits: u32,
    /// Its shortest round trip, in ms.
    pub min_rtt_ms: f64,
    /// How it was meanwhile.
    pub samples: Vec<Sample>,
}

/// How long answers took, in ms.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Latency {
    /// Answers.
    pub count: usize,
    /// The fastest.
    pub min_ms: f64,
    /// The one in the middle.
    pub median_ms: f64,
    /// The slowest.
    pub max_ms: f64,
}

/// What became of datagrams. Times are from when one is sent to when it arrives, which one clock
/// knows exactly.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct DatagramReport {
    /// That were handed over to the kernel.
    pub sent: u64,
    /// Of these came.
    pub arrived: u64,
    /// And did not.
    pub lost: u64,
    /// That came behind a later one.
    pub reordered: u64,
    /// That came once more.
    pub doubled: u64,
    /// The fastest, in ms.
    pub min_ms: f64,
    /// The one in the middle.
    pub median_ms: f64,
    /// The slowest.
    pub max_ms: f64,
    /// By how much one differed from the one before, at the end: RFC 3550's.
    pub jitter_ms: f64,
}

/// A connection at one time.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Sample {
    /// When.
    pub seconds: f64,
    /// Bytes that had arrived.
    pub bytes: u64,
    /// Bits a second since the last sample.
    pub bits_per_second: f64,
    /// TCP's smoothed round trip, in ms.
    pub rtt_ms: f64,
    /// The congestion window, in segments.
    pub congestion_window: u32,
    /// Segments that had been sent again.
    pub retransmits: u32,
}

/// What went over a cable, to the second node's end and back.
#[derive(Clone, Debug, Serialize)]
pub struct CableReport {
    /// Its name.
    pub name: String,
    /// Frames that arrived.
    pub delivered: [u64; 2],
    /// Frames that did not: the cable was cut, or a card had no buffer. What netem lost is not
    /// among them: it never was on the cable.
    pub dropped: [u64; 2],
    /// Bytes of frames that were sent.
    pub bytes: [u64; 2],
}

impl Report {
    /// Why a connection did not do what it was to, of the first that did not.
    pub fn error(&self) -> Option<(&str, &str)> {
        let errors = self.flows.iter();
        let mut errors =
            errors.filter_map(|flow| Some((flow.name.as_str(), flow.error.as_deref()?)));
        errors.next()
    }
}

/// 94.6 Mbit/s.
pub fn rate(bits: f64) -> String {
    let units = [(1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s")];
    let unit = units.iter().find(|(least, _)| bits >= *least);
    match unit {
        Some((least, unit)) => format!("{:.1} {unit}", bits / least),
        None => format!("{bits:.0} bit/s"),
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.flows.is_empty() {
            let wide = |name: fn(&FlowReport) -> &str, least: usize| {
                let longest = self.flows.iter().map(|flow| name(flow).len()).max();
                longest.unwrap_or(0).max(least)
            };
            let (name, from, to) = (
                wide(|flow| &flow.name, 4),
                wide(|flow| &flow.from, 4),
                wide(|flow| &flow.to, 4),
            );
            writeln!(
                f,
                "{:name$}  {:from$}  {:to$}  {:9}  {:>9}  {:>9}  {:>14}  {:>7}  {:>9}",
                "flow", "from", "to", "control", "began", "ended", "arrived", "again", "min rtt"
            )?;
            for flow in &self.flows {
                let of_tcp = |text: String| match flow.datagrams {
                    Some(_) => "-".to_owned(),
                    None => text,
                };
                let ended = flow.ended.map_or("-".into(), |time| format!("{time:.3} s"));
                writeln!(
                    f,
                    "{:name$}  {:from$}  {:to$}  {:9}  {:>9}  {:>9}  {:>14}  {:>7}  {:>9}",
                    flow.name,
                    flow.from,
                    flow.to,
                    flow.congestion.as_deref().unwrap_or("-"),
                    format!("{:.3} s", flow.began),
                    ended,
                    rate(flow.bits_per_second),
                    of_tcp(flow.retransmits.to_string()),
                    of_tcp(format!("{:.2} ms", flow.min_rtt_ms)),
                )?;
                for path in &flow.paths {
                    writeln!(
                        f,
                        "  by {}: {}, {} again, {:.2} ms",
                        path.links.join(", "),
                        rate(path.bits_per_second),
                        path.retransmits,
                        path.min_rtt_ms,
                    )?;
                }
                if let Some(all) = flow.datagrams {
                    writeln!(
                        f,
                        "  {} datagrams: {} lost, {} out of order, {} twice; {:.3} ms, from {:.3} to \
                         {:.3}, jitter {:.3}",
                        all.sent,
                        all.lost,
                        all.reordered,
                        all.doubled,
                        all.median_ms,
                        all.min_ms,
                        all.max_ms,
                        all.jitter_ms
                    )?;
                }
                if let Some(latency) = flow.latency {
                    writeln!(
                        f,
                        "  {} answers: {:.3} ms, from {:.3} to {:.3}",
                        latency.count, latency.median_ms, latency.min_ms, latency.max_ms
                    )?;
                }
                if let Some(error) = &flow.error {
                    writeln!(f, "  {error}")?;
                }
            }
        }
        writeln!(
            f,
            "{} kernels, {:.3} s by their clock, {} frames, seed {}; by the host's {:.3} s to start, \
             {:.3} s to run",
            self.nodes,
            self.seconds,
            self.frames,
            self.seed,
            self.start_seconds,
            self.host_seconds
        )
    }
}
