//! Promises of MPTCP: a kernel has the endpoints and limits that it was given, connections take them,
//! and an image without it says so.

mod inside;
mod wired;

use inside::default_kernel;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use tane::net::{Endpoint, EndpointFlags, MptcpLimits, NicOptions, Pair, Socket};
use tane::Kernel;
use tane_test_support::image;
use wired::{two, v4};

fn flags(text: &str) -> EndpointFlags {
    text.parse().unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn endpoints_and_limits_are_what_the_kernel_has() {
    let Some(kernel) = default_kernel() else {
        return;
    };
    let mptcp = kernel.mptcp().unwrap();
    assert_eq!(mptcp.endpoints().unwrap(), []);
    assert_eq!(
        mptcp.limits().unwrap(),
        MptcpLimits {
            subflows: 2,
            accepted: 0
        }
    );
    let limits = MptcpLimits {
        subflows: 8,
        accepted: 5,
    };
    mptcp.set_limits(limits).unwrap();
    assert_eq!(mptcp.limits().unwrap(), limits);
    let many = MptcpLimits {
        subflows: 9,
        ..limits
    };
    assert_eq!(mptcp.set_limits(many).unwrap_err().errno(), libc::EINVAL);
    assert_eq!(mptcp.limits().unwrap(), limits);

    let lo = kernel.link("lo").unwrap();
    let six: IpAddr = "fd00::7".parse().unwrap();
    mptcp
        .add_endpoint([10, 0, 0, 7], flags("subflow,backup"))
        .unwrap();
    mptcp.add_endpoint_at(&lo, six, flags("signal")).unwrap();
    let expected = [
        Endpoint {
            id: 1,
            address: [10, 0, 0, 7].into(),
            link: None,
            flags: flags("subflow,backup"),
            implicit: false,
        },
        Endpoint {
            id: 2,
            address: six,
            link: Some(lo.index()),
            flags: flags("signal"),
            implicit: false,
        },
    ];
    assert_eq!(mptcp.endpoints().unwrap(), expected);
    let again = mptcp.add_endpoint(six, flags("signal")).unwrap_err();
    assert_eq!(again.errno(), libc::EEXIST);
    assert!(again.to_string().contains("fd00::7"), "{again}");
    mptcp.remove_endpoint(1).unwrap();
    assert_eq!(mptcp.endpoints().unwrap(), expected[1..]);
    assert_eq!(mptcp.remove_endpoint(1).unwrap_err().errno(), libc::EINVAL);
    mptcp.clear().unwrap();
    assert_eq!(mptcp.endpoints().unwrap(), []);

    for last in 1..=8 {
        mptcp
            .add_endpoint([10, 0, 1, last], flags("signal"))
            .unwrap();
    }
    let ninth = mptcp
        .add_endpoint([10, 0, 1, 9], flags("signal"))
        .unwrap_err();
    assert_eq!(ninth.errno(), libc::ERANGE);
    assert_eq!(mptcp.endpoints().unwrap().len(), 8);
}

fn mptcp_socket(kernel: &Kernel) -> Socket {
    Socket::new(
        kernel,
        libc::AF_INET,
        libc::SOCK_STREAM,
        libc::IPPROTO_MPTCP,
    )
    .unwrap()
}

#[test]
fn a_connection_takes_every_wire_that_it_may() {
    let Some(two) = two([&NicOptions::default(); 2]) else {
        return;
    };
    let [a, b] = &two.kernels;
    let (near, far) = Pair::new();
    let nics = [(a, near, 1), (b, far, 2)].map(|(kernel, wire, last)| {
        let nic = kernel.add_nic(wire, &NicOptions::default()).unwrap();
        nic.add_address([10, 77, 0, last], 24).unwrap();
        nic.set_up().unwrap();
        nic
    });
    let limits = MptcpLimits {
        subflows: 1,
        accepted: 1,
    };
    for kernel in [a, b] {
        kernel.mptcp().unwrap().set_limits(limits).unwrap();
    }
    b.mptcp()
        .unwrap()
        .add_endpoint([10, 77, 0, 2], flags("signal"))
        .unwrap();

    let listener = mptcp_socket(b);
    let any = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 4000);
    listener.bind(&any).unwrap();
    listener.listen(1).unwrap();
    let client = mptcp_socket(a);
    client.connect(&SocketAddr::new(v4().there, 4000)).unwrap();
    let (server, _) = listener.accept().unwrap();
    // The other address is told with what is sent, and joined in time.
    let mut info = client.mptcp_info().unwrap();
    let mut bytes = 0;
    for _ in 0..1000 {
        client.send(&[7; 1000], None, 0).unwrap();
        let mut room = [0; 1000];
        while bytes < 1000 {
            let (n, _) = server.receive(&mut room, 0, false).unwrap();
            assert!(n > 0 && room[..n].iter().all(|byte| *byte == 7));
            bytes += n;
        }
        bytes -= 1000;
        info = client.mptcp_info().unwrap();
        if info.subflows.len() == 2 {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let ends: Vec<_> = info
        .subflows
        .iter()
        .map(|path| (path.local.ip(), path.remote))
        .collect();
    let other = (
        IpAddr::from([10, 77, 0, 1]),
        SocketAddr::from(([10, 77, 0, 2], 4000)),
    );
    assert_eq!(
        ends,
        [(v4().here, SocketAddr::new(v4().there, 4000)), other]
    );
    assert_ne!(info.subflows[0].id, info.subflows[1].id);
    assert!(info.bytes_sent >= 1000 && nics[0].statistic("tx_packets").unwrap() > 0);

    // One of TCP's has no paths.
    let plain = Socket::new(a, libc::AF_INET, libc::SOCK_STREAM, 0).unwrap();
    plain.connect(&SocketAddr::new(v4().there, 4000)).unwrap();
    let error = plain.mptcp_info().unwrap_err().raw_os_error();
    assert!(
        [Some(libc::EOPNOTSUPP), Some(libc::ENOPROTOOPT)].contains(&error),
        "{error:?}"
    );
}

#[test]
fn an_image_without_it_says_so() {
    let Some(image) = image("smp") else { return };
    let kernel = Kernel::builder().image(image).boot().unwrap();
    let error = kernel.mptcp().unwrap_err();
    assert_eq!(error.errno(), libc::EPROTONOSUPPORT);
    assert!(
        error.to_string().contains("this kernel image has no MPTCP"),
        "{error}"
    );
}
