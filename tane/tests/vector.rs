//! Linux's vector code is what is used, where the processor has the instructions:
//! losing it would only be slow, so that nobody would see it.

mod inside;

use inside::{at, into, ok};
use std::arch::is_x86_feature_detected as has;

/// The drivers that the kernel has of an algorithm, the most wanted first.
fn drivers(listed: &str, name: &str) -> Vec<String> {
    let field = |entry: &str, key: &str| {
        let line = entry.lines().find(|line| line.starts_with(key))?;
        Some(line.split_once(": ")?.1.to_owned())
    };
    let entries = listed.split("\n\n");
    let wanted = entries.filter(|entry| field(entry, "name").as_deref() == Some(name));
    let mut found: Vec<(u32, String)> = wanted
        .filter_map(|entry| {
            let priority = field(entry, "priority")?.parse().ok()?;
            Some((priority, field(entry, "driver")?))
        })
        .collect();
    found.sort();
    found.into_iter().rev().map(|(_, driver)| driver).collect()
}

#[test]
fn raid_parity_aes_and_sha_256_are_by_vector_instructions() {
    let Some(kernel) = inside::default_kernel() else {
        return;
    };
    let log = kernel.dmesg();
    let line = |begin: &str| {
        let found = log.lines().find(|line| line.contains(begin));
        found.unwrap_or_else(|| panic!("no {begin} in\n{log}"))
    };
    if has!("avx") {
        assert!(line("xor: automatically using").contains("avx"));
    }
    if has!("avx2") {
        assert!(line("raid6: skipped pq benchmark").contains("avx"));
        assert!(line("recovery algorithm instead").contains("avx"));
    }
    let proc = kernel.tree("/proc").expect("/proc");
    let listed = proc.read_to_string("crypto").expect("reads");
    let best = |name: &str| {
        let found = drivers(&listed, name);
        found
            .first()
            .cloned()
            .unwrap_or_else(|| panic!("no {name}"))
    };
    if has!("aes") && has!("avx") {
        assert!(best("aes").contains("aesni"), "{}", best("aes"));
        assert!(best("xts(aes)").contains("aes"), "{}", best("xts(aes)"));
        assert!(
            !best("xts(aes)").contains("generic"),
            "{}",
            best("xts(aes)")
        );
    }
    if has!("avx2") || has!("sha") {
        assert!(!best("sha256").contains("generic"), "{}", best("sha256"));
    }
}

/// struct sockaddr_alg of linux/if_alg.h: family, type, feature, mask, name.
fn address(kind: &str, name: &str) -> [u8; 88] {
    let mut address = [0; 88];
    address[..2].copy_from_slice(&(libc::AF_ALG as u16).to_le_bytes());
    address[2..2 + kind.len()].copy_from_slice(kind.as_bytes());
    address[24..24 + name.len()].copy_from_slice(name.as_bytes());
    address
}

#[test]
fn crc32c_is_right_at_any_length_and_alignment() {
    let Some(kernel) = inside::default_kernel() else {
        return;
    };
    let (family, kind) = (libc::AF_ALG as u64, libc::SOCK_SEQPACKET as u64);
    let listening = ok(&kernel, libc::SYS_socket, &[family, kind, 0]);
    let address = address("hash", "crc32c");
    let to = [listening, at(&address), address.len() as u64];
    ok(&kernel, libc::SYS_bind, &to);
    let hash = ok(&kernel, libc::SYS_accept, &[listening, 0, 0]);
    // The kernel's own, as it takes the pages themselves.
    let mut bytes = kernel.buffer(20_000).expect("a buffer");
    for (i, byte) in bytes.iter_mut().enumerate() {
        *byte = ((i * i) >> 3) as u8;
    }
    // A block of three streams is 4,080 bytes: without one, one, with more around it.
    let lengths = [
        1, 7, 8, 100, 4072, 4079, 4080, 4081, 4096, 8159, 8160, 12_345, 16_384,
    ];
    for length in lengths {
        for start in [0, 1, 3, 8] {
            let some = &bytes[start..start + length];
            let sent = [hash, at(some), some.len() as u64, 0, 0, 0];
            assert_eq!(ok(&kernel, libc::SYS_sendto, &sent), length as u64);
            let mut sum = [0u8; 4];
            let answer = [hash, into(&mut sum), 4];
            assert_eq!(ok(&kernel, libc::SYS_read, &answer), 4);
            let wanted = crc32c::crc32c(some);
            assert_eq!(
                u32::from_le_bytes(sum),
                wanted,
                "{length} bytes from {start} on"
            );
        }
    }
}
