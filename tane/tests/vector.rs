//! Linux's vector code is what is used, where the processor has the instructions:
//! losing it would only be slow, so that nobody would see it.

mod inside;

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
