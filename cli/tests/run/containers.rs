//! Promises of the kernel image `container`: engines find in it what they need, and
//! runtimes run containers on it.

use crate::common::run::{add_dynamic, applets, busybox, on, root};
use crate::common::*;
use std::path::Path;
use std::process::Command;

/// What is optional and off, and why.
const OFF: &[(&str, &str)] = &[
    ("MEMCG_SWAP", "Linux 6.12 has it always"),
    ("CGROUP_PERF", "perf_event_open(2) is the image lab's"),
    ("CGROUP_HUGETLB", "there are no huge pages here"),
    (
        "RT_GROUP_SCHED",
        "of version 1: it forbids cpu in version 2",
    ),
    ("VXLAN", "networks over several machines"),
    ("CRYPTO_AEAD", "such networks, encrypted"),
    ("CRYPTO_GCM", "the same"),
    ("CRYPTO_SEQIV", "the same"),
    ("CRYPTO_GHASH", "the same"),
    ("XFRM", "the same"),
    ("XFRM_USER", "the same"),
    ("XFRM_ALGO", "the same"),
    ("INET_ESP", "the same"),
    ("NF_NAT_FTP", "clients of FTP without passive mode"),
    ("NF_CONNTRACK_FTP", "the same"),
    ("NF_NAT_TFTP", "clients of TFTP"),
    ("NF_CONNTRACK_TFTP", "the same"),
    ("AUFS_FS", "layers are overlayfs's"),
    ("BTRFS_FS", "the same"),
    ("BTRFS_FS_POSIX_ACL", "the same"),
    ("BLK_DEV_DM", "the same"),
    ("DM_THIN_PROVISIONING", "the same"),
    ("FUSE (for use with lxcfs)", "file systems are Linux's own"),
];

/// What programs of the host make of it.
fn tree(programs: &[&str]) -> Option<Scratch> {
    let kernel = tane_test_support::image("container")?;
    tane_test_support::tool("busybox-static", "busybox")?;
    let s = Scratch::new();
    root(&s, "root");
    for program in programs {
        add_dynamic(&s, "root", program);
    }
    applets(&s, "root");
    let config = std::fs::read(kernel.with_extension("config")).expect("its configuration");
    s.write("root/etc/config", &config);
    succeed(s.tool("gzip").arg("root/etc/config"));
    Some(s)
}

fn run(s: &Scratch, options: &[&str], words: &[&str]) -> Command {
    let mut command = on(s, "container");
    command.args(["run", "--root", "disk.img", "--memory", "512M"]);
    command.args(options).arg("--").args(words);
    command
}

/// A script that an engine ships; the test is skipped without it.
fn script(s: &Scratch, package: &str, name: &str) -> Option<()> {
    let all = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../build/foreign"));
    let found = std::fs::read(all.join(package).join(name)).ok();
    let Some(content) = found else {
        let why = format!("scripts/foreign-images has not fetched {name} of {package}");
        assert!(std::env::var_os("CI").is_none(), "{why}");
        tane_test_support::skip(&why);
        return None;
    };
    let path = format!("root/check/{name}");
    s.write(&path, &content);
    s.make_executable(&path);
    Some(())
}

fn without_colours(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text.split('\x1b');
    out += rest.next().unwrap_or_default();
    for part in rest {
        out += part.split_once('m').map_or("", |(_, after)| after);
    }
    out
}

/// The lines that say `state` of something, by its name.
fn with_state<'a>(said: &'a str, state: &str) -> Vec<&'a str> {
    let ended = said.lines().filter_map(|line| line.split_once(": "));
    let found = ended.filter(|(_, of)| *of == state);
    let bare = |name: &'a str| name.trim_start_matches([' ', '-']);
    found
        .map(|(name, _)| bare(name).strip_prefix("CONFIG_").unwrap_or(bare(name)))
        .collect()
}

#[test]
fn what_engines_check_for_is_there_and_what_is_optional_and_off_is_listed() {
    let Some(s) = tree(&["/bin/bash"]) else {
        return;
    };
    if script(&s, "docker.io", "check-config.sh").is_none()
        || script(&s, "lxc", "lxc-checkconfig").is_none()
    {
        return;
    }
    s.ext4("disk.img", Some(&s.join("root")), 64);
    let words = ["bash", "/check/check-config.sh", "/etc/config.gz"];
    let said = run(&s, &[], &words).output().expect("tane");
    let said = without_colours(&text(&said.stdout));
    let (needed, optional) = said
        .split_once("Optional Features:")
        .unwrap_or_else(|| panic!("{said}"));
    assert!(needed.contains("- cgroup hierarchy: cgroupv2\n"), "{said}");
    assert!(with_state(needed, "enabled").len() > 20, "{said}");
    assert_eq!(with_state(needed, "missing"), [""; 0], "{said}");
    assert!(
        with_state(optional, "enabled").contains(&"SECCOMP"),
        "{said}"
    );

    let environment = ["-e", "CONFIG=/etc/config.gz"];
    let lxc = run(&s, &environment, &["sh", "/check/lxc-checkconfig"]).output();
    let lxc = text(&lxc.expect("tane").stdout);
    assert!(with_state(&lxc, "enabled").len() > 20, "{lxc}");
    assert!(!lxc.contains("required"), "{lxc}");

    let zfs = ["/dev/zfs", "zfs command", "zpool command"];
    let mut off = with_state(optional, "missing");
    off.extend(with_state(&lxc, "missing"));
    off.retain(|name| !zfs.contains(name));
    off.sort_unstable();
    let mut listed: Vec<_> = OFF.iter().map(|(name, _)| *name).collect();
    listed.sort_unstable();
    assert_eq!(off, listed, "each that is off has its reason");
}

/// A bundle of a busybox, whose shell runs this.
fn bundle(s: &Scratch, script: &str) {
    for dir in ["dev", "proc", "sys", "tmp"] {
        std::fs::create_dir_all(s.join(&format!("root/bundle/rootfs/{dir}"))).expect("it");
    }
    s.write("root/bundle/rootfs/bin/busybox", &busybox());
    s.make_executable("root/bundle/rootfs/bin/busybox");
    applets(s, "root/bundle/rootfs");
    let namespaces = ["pid", "network", "ipc", "uts", "mount", "user", "cgroup"];
    let namespaces = namespaces.map(|kind| serde_json::json!({ "type": kind }));
    let mount = |at: &str, kind: &str| serde_json::json!({ "destination": at, "type": kind, "source": kind });
    let map = serde_json::json!([{ "containerID": 0, "hostID": 100_000, "size": 1000 }]);
    let config = serde_json::json!({
        "ociVersion": "1.0.0",
        "process": {
            "terminal": false, "cwd": "/", "noNewPrivileges": true,
            "user": { "uid": 0, "gid": 0 },
            "args": ["/bin/sh", "-c", script], "env": ["PATH=/bin"],
        },
        "root": { "path": "rootfs", "readonly": true },
        "hostname": "inside",
        "mounts": [
            mount("/proc", "proc"), mount("/dev", "tmpfs"), mount("/dev/pts", "devpts"),
            mount("/dev/mqueue", "mqueue"), mount("/tmp", "tmpfs"), mount("/sys", "sysfs"),
            mount("/sys/fs/cgroup", "cgroup"),
        ],
        "linux": {
            "namespaces": namespaces,
            "uidMappings": map, "gidMappings": map,
            "resources": {
                "pids": { "limit": 20 },
                "memory": { "limit": 32 << 20 },
                "devices": [{ "allow": false, "access": "rwm" }],
            },
            "seccomp": {
                "defaultAction": "SCMP_ACT_ALLOW",
                "architectures": ["SCMP_ARCH_X86_64"],
                "syscalls": [{
                    "names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO", "errnoRet": 95,
                }],
            },
        },
    });
    s.write("root/bundle/config.json", config.to_string().as_bytes());
}

/// What a container tells of itself: where it is, whose, what it may, what it may not.
const TELL: &str = "echo $$ $(hostname) $(id -u) $(cat /proc/self/uid_map); \
    cat /sys/fs/cgroup/pids.max /sys/fs/cgroup/memory.max; cat /proc/self/cgroup; \
    grep -E '^(NoNewPrivs|Seccomp):' /proc/self/status | tr '\\t' ' '; \
    ip -o link | cut -d' ' -f2; mkdir /tmp/x; touch /x; \
    cat /dev/null && echo a device; ls /bundle; exit 3";
const TOLD: &str = "1 inside 0 0 100000 1000\n20\n33554432\n0::/\nNoNewPrivs: 1\nSeccomp: 2\nlo:\n\
    mkdir: can't create directory '/tmp/x': Operation not supported\n\
    touch: /x: Read-only file system\na device\nls: /bundle: No such file or directory\n\
    the end: 3\n";

#[track_caller]
fn runs_a_container(package: &str, runtime: &str) {
    let Some(tool) = tane_test_support::tool(package, runtime) else {
        return;
    };
    let runtime = tool.get_program().to_str().expect("UTF-8");
    let Some(s) = tree(&[runtime]) else { return };
    bundle(&s, TELL);
    let owner = ["-R", "100000:100000", "root/bundle/rootfs"];
    // Those of a user namespace are nobody outside; who may not say so has all readable.
    let _ = s.tool("chown").args(owner).status();
    s.ext4("disk.img", Some(&s.join("root")), 128);
    let script = format!(
        "echo '+cpu +memory +pids +io +cpuset' >/sys/fs/cgroup/cgroup.subtree_control; \
         cd /bundle; {runtime} run one 2>&1; echo the end: $?"
    );
    let done = run(&s, &[], &["sh", "-c", &script]).output().expect("tane");
    assert_eq!(text(&done.stdout), TOLD, "{}", text(&done.stderr));
}

#[test]
fn crun_runs_a_container_in_namespaces_with_limits_and_filters() {
    runs_a_container("crun", "crun");
}

#[test]
fn runc_runs_a_container_in_namespaces_with_limits_and_filters() {
    runs_a_container("runc", "runc");
}

#[test]
fn namespaces_are_made_by_programs_and_entered_by_others() {
    let Some(s) = tree(&[]) else { return };
    s.ext4("disk.img", Some(&s.join("root")), 64);
    let script = "unshare -U -r id -u; \
        unshare -p -f --mount-proc sh -c 'echo $$; echo /proc/[0-9]*'; \
        unshare -n -u sleep 100 & sleep 1; pid=$!; \
        nsenter -t $pid -u hostname other; nsenter -t $pid -u hostname; hostname; \
        ip link add here type veth; ip link set veth0 netns $pid; \
        ip addr add 10.9.0.1/24 dev here; ip link set here up; \
        nsenter -t $pid -n ip addr add 10.9.0.2/24 dev veth0; \
        nsenter -t $pid -n ip link set veth0 up; \
        ping -q -c 1 -W 60 10.9.0.2 >/dev/null; echo reached: $?; kill $pid; \
        mkdir /tmp/a /tmp/b /tmp/w /tmp/all; echo lower >/tmp/a/file; \
        mount -t overlay -o lowerdir=/tmp/a,upperdir=/tmp/b,workdir=/tmp/w over /tmp/all; \
        echo upper >/tmp/all/file; cat /tmp/a/file /tmp/b/file";
    let done = run(&s, &[], &["sh", "-c", script]).output().expect("tane");
    let wanted = "0\n1\n/proc/1\nother\ntane\nreached: 0\nlower\nupper\n";
    assert_eq!(text(&done.stdout), wanted, "{}", text(&done.stderr));
}

/// A group with a limit is kept to it, by Linux's own means.
#[test]
fn control_groups_keep_processes_to_their_limits() {
    let Some(s) = tree(&[]) else { return };
    s.ext4("disk.img", Some(&s.join("root")), 64);
    let script = "cd /sys/fs/cgroup; cat cgroup.controllers; \
        echo '+pids +memory' >cgroup.subtree_control; mkdir few small; \
        echo 3 >few/pids.max; echo 16M >small/memory.max; \
        sh -c 'echo $$ >few/cgroup.procs; sleep 1 & sleep 1 & sleep 1 & wait' 2>&1 | \
        grep -o 'Resource.*'; \
        sh -c 'echo $$ >small/cgroup.procs; dd if=/dev/zero of=/dev/shm/all bs=1M count=64 2>&1'; \
        grep -c '^oom_kill [1-9]' small/memory.events; \
        mkdir still; sleep 1000 & echo $! >still/cgroup.procs; \
        echo 1 >still/cgroup.freeze; sleep 1; cat still/cgroup.events; echo 1 >still/cgroup.kill; \
        wait $!; echo $?";
    let done = run(&s, &[], &["sh", "-c", script]).output().expect("tane");
    let wanted = "cpuset cpu io memory pids rdma misc\nResource temporarily unavailable\n1\n\
                  populated 1\nfrozen 1\n137\n";
    assert_eq!(text(&done.stdout), wanted, "{}", text(&done.stderr));
}
