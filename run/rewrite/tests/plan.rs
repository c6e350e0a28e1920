//! Patches and trampolines of any code: what they change, where they lead, and what they
//! stand for. Nothing is run here, so Miri can.

use std::collections::BTreeSet;
use tane_rewrite::{
    find, live, Cache, Class, Counts, Elf, Layout, Patch, Plan, Version, When, WhyNot,
};

const LAYOUT: Layout = Layout {
    distance: 1 << 20,
    room: 1 << 20,
    gates: [0, 8, 16],
};

/// A generator of numbers that are the same in every run (splitmix64).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

const ROUNDS: u64 = if cfg!(miri) { 20 } else { 3000 };

/// Random bytes, with what sites are made of more often than by chance.
fn code(numbers: &mut Numbers) -> Vec<u8> {
    const PARTS: [&[u8]; 11] = [
        &[0x4c, 0x89, 0x5c, 0x24, 0x08, 0x0f, 0x05, 0xc3, 0xe9],
        &[0x0f, 0x05],
        &[0xb8, 39, 0, 0, 0, 0x0f, 0x05],
        &[0x41, 0xb8, 39, 0, 0, 0, 0x0f, 0x05],
        &[0x0f, 0x05, 0x48, 0x3d, 0x01, 0xf0, 0xff, 0xff],
        &[0x0f, 0x05, 0x48, 0x3d, 0x00, 0xf0, 0xff, 0xff],
        &[0x0f, 0x05, 0x48, 0x85, 0xc0],
        &[0x0f, 0x05, 0x85, 0xc0, 0x74, 0x03],
        &[0x0f, 0x05, 0xc3, 0x0f, 0x1f, 0x40, 0x00],
        &[0xeb, 0xfd],
        &[0x0f, 0x05, 0x48, 0x8d, 0x05, 1, 0, 0, 0],
    ];
    let mut code = Vec::new();
    for _ in 0..numbers.next() % 60 {
        let n = numbers.next();
        match n % 4 {
            0 => code.extend_from_slice(&n.to_le_bytes()[1..][..(n >> 60) as usize / 2]),
            _ => code.extend_from_slice(PARTS[(n >> 8) as usize % PARTS.len()]),
        }
    }
    code
}

#[test]
fn only_the_five_bytes_of_each_patch_change_and_each_leads_to_its_own_trampoline() {
    let mut numbers = Numbers(1);
    let mut counts = Counts::default();
    for round in 0..ROUNDS {
        let code = code(&mut numbers);
        let address = numbers.next();
        let sites = find(&code, address, &[]);
        let of = Counts::of(&sites);
        counts.number += of.number;
        counts.error += of.error;
        counts.movable += of.movable;
        counts.stays += of.stays;
        let proven: BTreeSet<u32> = sites.iter().map(|site| site.at).collect();
        let plan = Plan::new(&code, &sites, &proven, LAYOUT);
        let mut after = code.clone();
        let applied = plan.apply(&mut after).expect("the code that was analysed");
        assert_eq!(applied, of.all - of.stays - plan.without_room.len());
        let mut allowed = vec![false; code.len()];
        for patch in &plan.patches {
            let at = patch.at as usize;
            assert!(!allowed[at..at + 5].contains(&true), "patches overlap");
            allowed[at..at + 5].fill(true);
            let distance = i32::from_le_bytes(patch.new[1..].try_into().expect("four bytes"));
            let target = i64::from(patch.at) + 5 + i64::from(distance) - LAYOUT.distance;
            let target = u32::try_from(target).expect("in the region");
            assert_eq!(plan.original(target), Some(patch.at), "{patch:?}");
            let class = &sites
                .iter()
                .find(|site| site.at == patch.site)
                .expect("a site")
                .class;
            if let Class::Number(_) | Class::Before(_) = class {
                assert!(patch.at + 5 <= patch.site);
                assert_eq!(after[patch.site as usize..][..2], [0x0f, 0x05], "it stays");
            } else {
                assert_eq!(patch.new[2], 0xcc, "who comes behind the call traps");
                let moved = plan.resume(patch.site + 2).expect("the way on from there");
                assert_eq!(plan.original(moved), Some(patch.site + 2));
            }
        }
        for (at, (old, new)) in code.iter().zip(&after).enumerate() {
            assert!(old == new || allowed[at], "byte {at} changed");
        }
        // All that is no trampoline traps, and stands for nothing.
        let some = if round % 50 == 0 {
            &plan.trampolines[..]
        } else {
            &[]
        };
        for (at, byte) in some.iter().enumerate() {
            assert!(plan.original(at as u32).is_some() || *byte == 0xcc, "{at}");
        }
    }
    let Counts {
        number,
        error,
        movable,
        stays,
        ..
    } = counts;
    assert!(number.min(error).min(movable).min(stays) > 10, "{counts:?}");
}

fn one(code: &[u8]) -> Class {
    let sites = find(code, 0x1000, &[]);
    assert_eq!(sites.len(), 1, "{code:x?}");
    sites[0].class.clone()
}

#[test]
fn a_load_of_another_register_or_one_that_is_jumped_into_is_no_number() {
    assert_eq!(
        one(&[0xb8, 39, 0, 0, 0, 0x0f, 0x05, 0xe8, 0, 0, 0, 0]),
        Class::Number(39)
    );
    // mov r8d, 39
    let other = one(&[0x41, 0xb8, 39, 0, 0, 0, 0x0f, 0x05, 0xe8, 0, 0, 0, 0]);
    assert_eq!(other, Class::Before(6), "all of it moves");
    // A jump into the number.
    let entered = one(&[0xeb, 0x01, 0xb8, 39, 0, 0, 0, 0x0f, 0x05, 0xe8, 0, 0, 0, 0]);
    assert!(matches!(entered, Class::Stays(_)), "{entered:?}");
    // No number of a system call.
    let large = one(&[0xb8, 39, 0, 1, 0, 0x0f, 0x05, 0xe8, 0, 0, 0, 0]);
    assert_eq!(large, Class::Before(5), "it has to be proven");
}

#[test]
fn what_follows_is_moved_only_if_it_means_the_same_elsewhere_and_nothing_leads_there() {
    let movable = |code: &[u8]| matches!(one(code), Class::Movable(_));
    assert!(
        movable(&[0x0f, 0x05, 0x48, 0x85, 0xc0, 0x90]),
        "test rax, rax"
    );
    assert!(
        movable(&[0x0f, 0x05, 0xc3, 0x66, 0x90, 0xc3]),
        "ret and filling"
    );
    assert!(
        !movable(&[0x0f, 0x05, 0xc3, 0x55, 0x53, 0xc3]),
        "the next function"
    );
    assert!(
        !movable(&[0x0f, 0x05, 0x48, 0x8d, 0x05, 0, 0, 0, 0]),
        "lea rax, [rip]"
    );
    assert!(!movable(&[0x0f, 0x05, 0xe8, 0, 0, 0, 0]), "a call");
    assert!(
        !movable(&[0x0f, 0x05, 0x89, 0xc7, 0x48, 0x85, 0xc0]),
        "a boundary within the jump"
    );
    assert!(
        !movable(&[0xeb, 0x02, 0x0f, 0x05, 0x48, 0x85, 0xc0, 0x90]),
        "a jump behind it"
    );
    assert!(!movable(&[0x0f, 0x05, 0x48]), "the end");
    let code = [0x0f, 0x05, 0xb8, 39, 0, 0, 0, 0x0f, 0x05, 0xe8, 0, 0, 0, 0];
    let sites = find(&code, 0, &[]);
    assert_eq!(sites[0].class, Class::Stays(WhyNot::Neighbour));
    assert_eq!(sites[1].class, Class::Number(39));
}

#[test]
fn bytes_within_other_instructions_are_no_sites() {
    // mov rax, 0x050f...; a displacement of 0x50f
    assert!(find(&[0x48, 0xb8, 0x0f, 0x05, 0, 0, 0, 0, 0, 0, 0xc3], 0, &[]).is_empty());
    assert!(find(&[0x8b, 0x80, 0x0f, 0x05, 0, 0, 0xc3], 0, &[]).is_empty());
    // Data puts the pass out of step, and the beginning of a function into it again.
    let code = [0x48, 0xb8, 0xb8, 39, 0, 0, 0, 0x0f, 0x05, 0xc3, 0x90, 0x90];
    assert!(find(&code, 0x1000, &[]).is_empty());
    assert_eq!(find(&code, 0x1000, &[0x1002])[0].class, Class::Number(39));
}

#[test]
fn other_code_than_was_analysed_is_refused_as_a_whole() {
    let code = [
        0xb8, 39, 0, 0, 0, 0x0f, 0x05, 0xb8, 40, 0, 0, 0, 0x0f, 0x05, 0xc3, 0x90, 0x90, 0x90,
    ];
    let plan = Plan::new(&code, &find(&code, 0, &[]), &BTreeSet::new(), LAYOUT);
    let mut other = code;
    other[8] = 41;
    let before = other;
    assert_eq!(plan.apply(&mut other).expect_err("changed").at, 7);
    assert!(plan.apply(&mut other[..9]).is_err(), "cut off");
    assert_eq!(other, before);
}

#[test]
fn a_region_without_room_or_out_of_reach_leaves_sites_to_the_net() {
    let code = [
        0xb8, 39, 0, 0, 0, 0x0f, 0x05, 0xb8, 40, 0, 0, 0, 0x0f, 0x05, 0xc3,
    ];
    let sites = find(&code, 0, &[]);
    let small = Layout { room: 24, ..LAYOUT };
    let plan = Plan::new(&code, &sites, &BTreeSet::new(), small);
    assert_eq!((plan.patches.len(), &plan.without_room[..]), (1, &[12][..]));
    for distance in [1 << 32, -(1 << 32), i64::from(i32::MAX)] {
        let far = Layout { distance, ..LAYOUT };
        let plan = Plan::new(&code, &sites, &BTreeSet::new(), far);
        assert!(plan.patches.is_empty() && plan.trampolines.is_empty());
        assert_eq!(plan.without_room, [5, 12]);
    }
}

#[test]
fn a_thousand_sites_with_a_trap_find_room() {
    // Each wants a place of its own among 256 of 64 KiB.
    let one: &[u8] = &[0x0f, 0x05, 0x48, 0x3d, 0x01, 0xf0, 0xff, 0xff];
    let count = if cfg!(miri) { 20 } else { 1000 };
    let code = one.repeat(count);
    let sites = find(&code, 0, &[]);
    for distance in [1 << 20, -(1 << 30), (1 << 20) + 0xcc00, 4096] {
        let layout = Layout { distance, ..LAYOUT };
        let plan = Plan::new(&code, &sites, &BTreeSet::new(), layout);
        assert_eq!(plan.patches.len(), count, "{:?}", plan.without_room.len());
    }
}

#[repr(align(8))]
struct Aligned([u8; 24]);

#[test]
fn a_live_patch_is_written_once_and_only_over_what_was_there() {
    let forms: [&[u8]; 2] = [
        &[0x0f, 0x05, 0x48, 0x85, 0xc0],
        &[0x4c, 0x89, 0x5c, 0x24, 0x08, 0x0f, 0x05, 0xe8, 0, 0, 0, 0],
    ];
    let behind = |form: &[u8], at: usize| {
        let mut code = Aligned([0x90; 24]);
        code.0[at..at + form.len()].copy_from_slice(form);
        let plan = Plan::new(&code.0, &find(&code.0, 0, &[]), &BTreeSet::new(), LAYOUT);
        (code, plan)
    };
    let all = forms
        .into_iter()
        .flat_map(|form| (0..=11).map(move |at| (form, at)));
    for (form, at) in all {
        let (mut code, plan) = behind(form, at);
        let patch = &plan.patches[0];
        assert_eq!(patch.at as usize, at);
        assert_eq!(patch.when, When::Proof);
        assert_eq!(plan.apply(&mut code.0), Ok(0), "it needs a proof");
        let mut expected = code.0;
        expected[at..at + 5].copy_from_slice(&patch.new);
        assert_eq!(write(&mut code, patch), live::Outcome::Written);
        assert_eq!(code.0, expected);
        assert_eq!(write(&mut code, patch), live::Outcome::Already);
        let (mut code, _) = behind(form, at);
        code.0[at + 4] ^= 1;
        let before = code.0;
        assert_eq!(write(&mut code, patch), live::Outcome::Changed);
        assert_eq!(code.0, before);
        let certain = Patch {
            when: When::Mapping,
            ..*patch
        };
        assert_eq!(write(&mut code, &certain), live::Outcome::Never);
    }
}

/// Writes as under threads; at each moment a thread may fetch, what it sees is the old
/// code, the new, or a trap.
fn write(code: &mut Aligned, patch: &Patch) -> live::Outcome {
    let at = patch.at as usize;
    let start = code.0.as_mut_ptr();
    let look = || {
        // SAFETY: memory of our own, written by nobody now.
        let now: [u8; 5] = unsafe { start.add(at).cast::<[u8; 5]>().read() };
        let seen = |first, end| now[first..end] == patch.old[first..end] || now[first] == 0xcc;
        let (call, behind) = match patch.at == patch.site {
            true => (seen(0, 2) || now == patch.new, seen(2, 5)),
            false => (seen(0, 5) || now == patch.new, true),
        };
        assert!(call && behind, "{now:x?}");
        Ok::<(), ()>(())
    };
    // SAFETY: memory of our own, which is aligned.
    unsafe { live::write(start, patch, look) }.expect("no error")
}

#[test]
fn damaged_files_are_errors_or_files() {
    let path = if cfg!(miri) {
        "/bin/true"
    } else {
        "/proc/self/exe"
    };
    let file = std::fs::read(path).expect("a program");
    let elf = Elf::parse(&file).expect("an ELF file");
    assert_eq!(elf.segments.len(), 1);
    assert!(!cfg!(miri) || elf.build_id.is_some());
    assert!(elf.functions.windows(2).all(|pair| pair[0] <= pair[1]) && !elf.functions.is_empty());
    let mut numbers = Numbers(2);
    for _ in 0..ROUNDS {
        let mut head = file[..1024].to_vec();
        for _ in 0..1 + numbers.next() % 4 {
            let at = numbers.next() as usize % 700;
            head[at] = numbers.next() as u8;
        }
        head.truncate(numbers.next() as usize % 1025);
        if let Ok(elf) = Elf::parse(&head) {
            for segment in &elf.segments {
                assert!(segment.offset + segment.size <= head.len());
            }
        }
    }
}

#[test]
fn a_site_that_was_proven_is_patched_when_the_same_version_is_mapped_again() {
    let code = [0x90, 0x0f, 0x05, 0x48, 0x85, 0xc0, 0xc3];
    let key = |version: &[u8]| {
        (
            Version::BuildId(version.to_vec(), code.len() as u64),
            0x1000,
        )
    };
    let mut cache = Cache::new();
    let mut looked = 0;
    let mut count = |cache: &mut Cache, version: &[u8]| {
        let known = cache.get(key(version), || {
            looked += 1;
            find(&code, 0, &[])
        });
        let plan = Plan::new(&code, &known.sites, &known.proven, LAYOUT);
        plan.apply(&mut code.clone())
    };
    assert_eq!(count(&mut cache, b"one"), Ok(0));
    assert!(!cache.prove(&key(b"one"), 3), "there is no site");
    assert!(!cache.prove(&key(b"two"), 1), "nothing is known of it");
    assert!(cache.prove(&key(b"one"), 1));
    assert!(!cache.prove(&key(b"one"), 1), "it is known");
    assert_eq!(count(&mut cache, b"one"), Ok(1));
    assert_eq!(count(&mut cache, b"two"), Ok(0), "another version");
    assert_eq!(looked, 2, "each version is analysed once");
}
