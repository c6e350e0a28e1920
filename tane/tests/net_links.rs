//! Promises of interfaces: what is asked of Linux is what it then has, and what it
//! refuses is an error with a name.

mod inside;
mod wired;

use inside::default_kernel;
use tane::net::{NicOptions, TcpStream};
use wired::{echo, two, v4};

#[test]
fn addresses_routes_and_sizes_are_what_the_kernel_has() {
    let options = NicOptions {
        mtu: 9000,
        ..NicOptions::default()
    };
    let Some(two) = two([&options; 2]) else {
        return;
    };
    let [a, b] = &two.kernels;
    let nic = &two.nics[0];
    let sysfs = a.tree("/sys").unwrap();
    let has = |what: &str| {
        let file = format!("class/net/{}/{what}", nic.name());
        sysfs.read_to_string(file).unwrap()
    };
    assert_eq!(has("mtu"), "9000\n");
    nic.set_mtu(1400).unwrap();
    assert_eq!(has("mtu"), "1400\n");
    assert_eq!(nic.set_mtu(9001).unwrap_err().errno(), libc::EINVAL);
    assert_eq!(has("address"), format!("{}\n", nic.mac()));

    // Another network, by the other end.
    two.nics[1].add_address([192, 168, 9, 1], 24).unwrap();
    let error = TcpStream::connect(a, ([192, 168, 9, 1], 1)).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::ENETUNREACH));
    a.add_route([192, 168, 9, 0], 24, v4().there).unwrap();
    echo(a, b, [192, 168, 9, 1].into(), 100_000);
    let again = a.add_route([192, 168, 9, 0], 24, v4().there).unwrap_err();
    assert_eq!(again.errno(), libc::EEXIST);
    assert!(again.to_string().contains("192.168.9.0/24"), "{again}");
    two.nics[1].add_address([172, 16, 9, 1], 24).unwrap();
    a.add_route([0, 0, 0, 0], 0, v4().there).unwrap();
    echo(a, b, [172, 16, 9, 1].into(), 1000);

    nic.remove_address(v4().here, 24).unwrap();
    let gone = nic.remove_address(v4().here, 24).unwrap_err();
    assert_eq!(gone.errno(), libc::EADDRNOTAVAIL);
}

#[test]
fn features_are_switched_by_name() {
    let Some(two) = two([&NicOptions::default(); 2]) else {
        return;
    };
    let [a, b] = &two.kernels;
    for on in [false, true] {
        for nic in &two.nics {
            for feature in ["tx-tcp-segmentation", "tx-udp-segmentation", "rx-gro-hw"] {
                nic.set_feature(feature, on).unwrap();
            }
        }
        echo(a, b, v4().there, 1 << 20);
    }
    let error = two.nics[0]
        .set_feature("no such feature", true)
        .unwrap_err();
    assert_eq!(error.errno(), libc::EINVAL);
    assert!(error.to_string().contains("no such feature"), "{error}");
    // A pair has no such thing.
    let error = two.nics[0].set_feature("rx-fcs", true).unwrap_err();
    assert_eq!(error.errno(), libc::EOPNOTSUPP);
}

#[test]
fn loopback_needs_no_card() {
    let Some(kernel) = default_kernel() else {
        return;
    };
    kernel.link("lo").unwrap().set_up().unwrap();
    echo(&kernel, &kernel, [127, 0, 0, 1].into(), 5 << 20);
    let error = TcpStream::connect(&kernel, ([127, 0, 0, 1], 1)).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
    let error = kernel.link("eth0").unwrap_err();
    assert_eq!(error.errno(), libc::ENODEV);
    assert!(error.to_string().contains("eth0"), "{error}");
}
