//! A driver that lost its mind harms nobody: the fuzzer's entry function with
//! random bytes, and with rings that are nearly right.

use proptest::prelude::*;
use tane_devices::{fuzz_net, fuzz_queue};

/// Descriptor table at 0, rings at 4 KiB and 8 KiB, 16 entries.
const HEAD: [u8; 8] = [0, 64, 64, 4, 0, 0, 0, 0];

#[derive(Clone, Debug)]
struct Descriptor {
    addr: u64,
    len: u32,
    flags: u16,
    next: u16,
}

fn descriptor() -> impl Strategy<Value = Descriptor> {
    let addr = prop_oneof![
        4 => 0u64..0x10000,
        2 => (0x3000u64..0x3100).prop_map(|a| a & !15),
        1 => any::<u64>(),
    ];
    let len = prop_oneof![
        2 => Just(16u32), 2 => Just(512), 1 => Just(1), 1 => Just(0), 1 => 0u32..0x1000, 1 => any::<u32>()
    ];
    let flags = prop_oneof![8 => 0u16..8, 1 => any::<u16>()];
    let next = prop_oneof![8 => 0u16..16, 1 => any::<u16>()];
    (addr, len, flags, next).prop_map(|(addr, len, flags, next)| Descriptor {
        addr,
        len,
        flags,
        next,
    })
}

fn put(memory: &mut [u8], at: usize, bytes: &[u8]) {
    memory[at..at + bytes.len()].copy_from_slice(bytes);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..Default::default() })]

    #[test]
    fn any_bytes_end_well(data in proptest::collection::vec(any::<u8>(), 0..20_000)) {
        fuzz_queue(&data);
        fuzz_net(&data);
    }

    #[test]
    fn rings_that_are_nearly_right_end_well(
        table in proptest::collection::vec(descriptor(), 16),
        indirect in proptest::collection::vec(descriptor(), 16),
        heads in proptest::collection::vec(prop_oneof![8 => 0u16..16, 1 => any::<u16>()], 16),
        available in prop_oneof![8 => 0u16..17, 1 => any::<u16>()],
        (kind, sector) in (prop_oneof![0u32..16, any::<u32>()], prop_oneof![0u64..80, any::<u64>()]),
        features in 0u8..8,
    ) {
        let mut memory = vec![0; 0x10000 - 16];
        // Everywhere a header.
        for header in memory.chunks_exact_mut(16) {
            put(header, 0, &kind.to_le_bytes());
            put(header, 8, &sector.to_le_bytes());
        }
        for (base, descriptors) in [(0, &table), (0x3000, &indirect)] {
            for (i, d) in descriptors.iter().enumerate() {
                put(&mut memory, base + 16 * i, &d.addr.to_le_bytes());
                put(&mut memory, base + 16 * i + 8, &d.len.to_le_bytes());
                put(&mut memory, base + 16 * i + 12, &d.flags.to_le_bytes());
                put(&mut memory, base + 16 * i + 14, &d.next.to_le_bytes());
            }
        }
        put(&mut memory, 0x1002, &available.to_le_bytes());
        for (i, head) in heads.iter().enumerate() {
            put(&mut memory, 0x1004 + 2 * i, &head.to_le_bytes());
        }
        let mut data = HEAD.to_vec();
        data[4] = features;
        data.extend(memory);
        fuzz_queue(&data);
        // Packets go round: what is sent by one table is received by the other.
        data[5] = 0x30;
        fuzz_net(&data);
        data[5] = 0;
        data[6] = 0x30;
        fuzz_net(&data);
    }
}

/// What the fuzzer found once, and what it is worth to start from.
#[test]
fn inputs_of_the_corpus_end_well() {
    fuzz_queue(&[]);
    fuzz_queue(&[0xff; 8]);
    fuzz_queue(&[0xff; 70_000]);
    fuzz_queue(&HEAD);
}
