//! What container engines need of a kernel. They ship a script for that (moby's
//! contrib/check-config.sh, of 2025); these are the options it asks for of a Linux 6.12
//! with control groups of version 2. Left out is what that Linux has no longer
//! (MEMCG_SWAP), and what is of the machine rather than of its configuration.

use super::files::{named, options, Options};
use crate::failure::{Result, SOME_FAILED};
use crate::output::Output;
use crate::session::Global;
use serde_json::json;

#[derive(clap::Args)]
pub struct Args {
    /// An image's name, or its file; without one, the image that is booted
    #[arg(value_name = "IMAGE")]
    image: Option<String>,
}

/// Without these an engine does not start containers as it should.
const NEEDED: &[&str] = &[
    "NAMESPACES",
    "NET_NS",
    "PID_NS",
    "IPC_NS",
    "UTS_NS",
    "CGROUPS",
    "CGROUP_SCHED",
    "CGROUP_BPF",
    "KEYS",
    "VETH",
    "BRIDGE",
    "BRIDGE_NETFILTER",
    "IP_NF_FILTER",
    "IP_NF_MANGLE",
    "IP_NF_TARGET_MASQUERADE",
    "IP6_NF_FILTER",
    "IP6_NF_MANGLE",
    "IP6_NF_TARGET_MASQUERADE",
    "NETFILTER_XT_MATCH_ADDRTYPE",
    "NETFILTER_XT_MATCH_CONNTRACK",
    "NETFILTER_XT_MATCH_IPVS",
    "NETFILTER_XT_MARK",
    "IP_NF_RAW",
    "IP_NF_NAT",
    "NF_NAT",
    "IP6_NF_RAW",
    "IP6_NF_NAT",
    "POSIX_MQUEUE",
];

/// One of these, each with all it consists of.
const STORAGE: &[(&str, &[&str])] = &[
    ("btrfs", &["BTRFS_FS", "BTRFS_FS_POSIX_ACL"]),
    ("overlay", &["OVERLAY_FS"]),
];

/// What some containers or settings use.
const OPTIONAL: &[(&str, &[&str])] = &[
    ("confinement", &["USER_NS", "SECCOMP", "SECCOMP_FILTER"]),
    (
        "security modules",
        &["SECURITY_SELINUX", "SECURITY_APPARMOR"],
    ),
    (
        "limits",
        &[
            "BLK_CGROUP",
            "BLK_DEV_THROTTLING",
            "CGROUP_PERF",
            "NET_CLS_CGROUP",
            "CGROUP_NET_PRIO",
            "CFS_BANDWIDTH",
            "FAIR_GROUP_SCHED",
        ],
    ),
    (
        "services",
        &[
            "IP_NF_TARGET_REDIRECT",
            "IP_VS",
            "IP_VS_NFCT",
            "IP_VS_PROTO_TCP",
            "IP_VS_PROTO_UDP",
            "IP_VS_RR",
        ],
    ),
    (
        "ext4",
        &["EXT4_FS", "EXT4_FS_POSIX_ACL", "EXT4_FS_SECURITY"],
    ),
    ("overlay networks", &["VXLAN", "BRIDGE_VLAN_FILTERING"]),
    (
        "encrypted networks",
        &[
            "CRYPTO",
            "CRYPTO_AEAD",
            "CRYPTO_GCM",
            "CRYPTO_SEQIV",
            "CRYPTO_GHASH",
            "XFRM",
            "XFRM_USER",
            "XFRM_ALGO",
            "INET_ESP",
            "NETFILTER_XT_MATCH_BPF",
        ],
    ),
    ("ipvlan", &["IPVLAN"]),
    ("macvlan", &["MACVLAN", "DUMMY"]),
    (
        "ftp and tftp",
        &[
            "NF_NAT_FTP",
            "NF_CONNTRACK_FTP",
            "NF_NAT_TFTP",
            "NF_CONNTRACK_TFTP",
        ],
    ),
];

fn is_set(of: &Options, name: &str) -> bool {
    of.get(name)
        .is_some_and(|value| value == "y" || value == "m")
}

/// Those that are not set.
fn missing<'a>(of: &Options, names: &[&'a str]) -> Vec<&'a str> {
    let names = names.iter().copied();
    names.filter(|name| !is_set(of, name)).collect()
}

/// Whether an engine finds what it needs.
fn suffices(of: &Options) -> bool {
    let stores = STORAGE
        .iter()
        .any(|(_, names)| missing(of, names).is_empty());
    missing(of, NEEDED).is_empty() && stores
}

pub fn run(args: &Args, global: &Global) -> Result<u8> {
    let of = options(&named(args.image.as_deref(), global)?)?;
    let needed = [("needed", "needed", NEEDED)].into_iter();
    let storage = STORAGE
        .iter()
        .map(|(what, names)| ("storage", *what, *names));
    let optional = OPTIONAL
        .iter()
        .map(|(what, names)| ("optional", *what, *names));
    let mut out = Output::new();
    for (kind, what, names) in needed.chain(storage).chain(optional) {
        let missing = missing(&of, names);
        if global.json {
            out.json(&json!({
                "kind": kind, "what": what, "options": names, "missing": missing,
            }))?;
            continue;
        }
        let title = if kind == what {
            what.into()
        } else {
            format!("{kind}: {what}")
        };
        let state = match missing.len() {
            0 => format!("all {}", names.len()),
            n => format!("{n} of {} missing: {}", names.len(), missing.join(" ")),
        };
        out.line(&format!("{title}: {state}"))?;
    }
    out.flush()?;
    Ok(if suffices(&of) { 0 } else { SOME_FAILED })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_is_needed_and_one_way_to_store_suffice() {
        let set = |name: &&str| ((*name).to_owned(), "y".to_owned());
        let mut of: Options = NEEDED.iter().map(set).collect();
        assert!(!suffices(&of));
        of.insert("OVERLAY_FS".into(), "m".into());
        assert!(suffices(&of));
        of.insert("BRIDGE".into(), "n".into());
        assert!(!suffices(&of));
        assert_eq!(missing(&of, NEEDED), ["BRIDGE"]);
    }
}
