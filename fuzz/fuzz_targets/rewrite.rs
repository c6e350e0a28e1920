//! Code of any content, planned and patched: only what the plan names changes.

#![no_main]

use libfuzzer_sys::fuzz_target;
use std::collections::BTreeSet;
use tane_rewrite::{find, Elf, Layout, Plan};

fuzz_target!(|data: &[u8]| {
    let elf = Elf::parse(data).unwrap_or_default();
    let texts = elf.segments.iter().map(|it| (&data[it.offset..][..it.size], it.address));
    for (code, address) in texts.chain([(data, 0)]) {
        let sites = find(code, address, &elf.functions);
        let proven: BTreeSet<u32> = sites.iter().map(|site| site.at).collect();
        let layout = Layout {
            distance: 1 << 24,
            room: 1 << 18,
            gates: [0, 8, 16],
        };
        let plan = Plan::new(code, &sites, &proven, layout);
        let mut after = code.to_vec();
        plan.apply(&mut after).expect("the code that was analysed");
        let mut changed = code.to_vec();
        for patch in &plan.patches {
            let place = &mut changed[patch.at as usize..][..patch.new.len()];
            assert_eq!(place, patch.old, "patches overlap");
            place.copy_from_slice(&patch.new);
        }
        assert_eq!(after, changed);
    }
});
