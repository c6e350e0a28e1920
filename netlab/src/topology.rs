//! What a file says, key by key. What it means is for plan.rs.

use serde::Deserialize;
use std::collections::BTreeMap;
use toml::Spanned;

/// A text, and where it stands.
pub type Text = Spanned<String>;

/// The whole file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Topology {
    /// What chance begins with, in all kernels and on all cables.
    #[serde(default)]
    pub seed: u64,
    /// How long it goes on at most, by its own clock.
    #[serde(rename = "for")]
    pub length: Option<Text>,
    /// How often connections are looked at.
    pub sample: Option<Text>,
    #[serde(default, rename = "node")]
    pub nodes: Vec<Node>,
    #[serde(default, rename = "link")]
    pub links: Vec<Link>,
    #[serde(default, rename = "flow")]
    pub flows: Vec<Flow>,
    #[serde(default, rename = "event")]
    pub events: Vec<Event>,
}

/// A kernel.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Node {
    pub name: Text,
    pub memory: Option<Text>,
    /// Whether it passes on what is for others; else if it has several cables.
    pub forward: Option<bool>,
    /// Files below /proc/sys, as sysctl(8) names them.
    #[serde(default)]
    pub sysctl: BTreeMap<Text, Text>,
    #[serde(default, rename = "route")]
    pub routes: Vec<Route>,
    #[serde(default, rename = "endpoint")]
    pub endpoints: Vec<Endpoint>,
}

/// A way that a node takes, instead of the shortest one.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Route {
    pub to: Text,
    pub via: Text,
}

/// An address that connections by MPTCP may take, instead of those that are found.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Endpoint {
    pub address: Text,
    /// What it is for, as `ip mptcp` names it.
    pub flags: Text,
}

/// A cable between two nodes.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    pub between: Spanned<Vec<Text>>,
    pub name: Option<Text>,
    /// One for each end, with how long the network's part is.
    pub addresses: Option<Spanned<Vec<Text>>>,
    /// What happens on both ways, or to what the first node sends, or the second.
    pub impair: Option<Text>,
    pub there: Option<Text>,
    pub back: Option<Text>,
    pub mtu: Option<Spanned<i64>>,
}

/// A connection.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flow {
    pub name: Option<Text>,
    pub from: Text,
    pub to: Text,
    /// Which of the addresses of `to`.
    pub address: Option<Text>,
    pub port: Option<Spanned<i64>>,
    /// When it begins.
    pub at: Option<Text>,
    /// How much is sent, or how long.
    pub bytes: Option<Text>,
    #[serde(rename = "for")]
    pub length: Option<Text>,
    /// Questions of so many bytes instead, each of which waits for its answer.
    pub request: Option<Text>,
    pub response: Option<Text>,
    pub times: Option<Spanned<i64>>,
    /// `tcp` or `udp`; of that, how large each datagram is, and how many bits of them a second.
    pub protocol: Option<Text>,
    pub size: Option<Text>,
    pub rate: Option<Text>,
    pub congestion: Option<Text>,
    pub mptcp: Option<Spanned<bool>>,
}

/// What happens to a cable meanwhile.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Event {
    pub at: Text,
    pub link: Text,
    /// Whether it is cut.
    pub cut: Option<bool>,
    pub impair: Option<Text>,
    pub there: Option<Text>,
    pub back: Option<Text>,
}
