//! As many changed modules as are asked for: what the checker accepts runs watched.

use super::emulator::{skip_without, End, Watched};
use crate::apart::{number, Random};
use std::collections::BTreeMap;
use tane_checked::Module;

/// Where numbers begin, unless `TANE_SEED` says it.
pub const SEED: u64 = 0x9e37_79b9_7f4a_7c15;
/// Instructions that one module runs for.
const MOST: u64 = 1000;
/// So many mutants an emulator sees: it never gives back what it has translated of them.
const RENEWED: u64 = 200_000;

/// Where the function is that is called.
pub fn work(module: &Module<'_>) -> Option<u32> {
    let found = module.exports.iter().find(|export| export.name == "work");
    found.map(|export| export.at)
}

/// Changes these files, at most so often each, and runs what is accepted of them with so many
/// bytes of heap and stack. `looks_right` sees each afterwards, and what its data is.
pub fn watch(
    files: &[Vec<u8>],
    heap: u32,
    most_changes: usize,
    mutate: impl Fn(&mut [u8], &mut Random),
    looks_right: impl Fn(&Module<'_>, &[u8]) -> bool,
) {
    let (count, seed) = (number("TANE_WATCHED", 1_000_000), number("TANE_SEED", SEED));
    let emulators = || {
        let each = files.iter().map(|file| {
            let module = tane_checked::check(file).expect("it was made to keep the rules");
            Watched::new(&module, heap, MOST)
        });
        each.collect::<Option<Vec<_>>>()
    };
    let Some(mut watched) = emulators() else {
        return skip_without();
    };
    let mut random = Random(seed | 1);
    let (mut refused, mut ends) = (0, BTreeMap::<End, u64>::new());
    let mut instructions = 0;
    let all = |watched: &[Box<Watched>]| watched.iter().map(|it| it.instructions()).sum::<u64>();
    for i in 0..count {
        if i % RENEWED == RENEWED - 1 {
            instructions += all(&watched);
            watched = emulators().expect("it was there before");
        }
        let which = random.below(files.len());
        let mut file = files[which].clone();
        for _ in 0..=random.below(most_changes) {
            mutate(&mut file, &mut random);
        }
        let Ok(module) = tane_checked::check(&file) else {
            refused += 1;
            continue;
        };
        let Some(at) = work(&module) else {
            continue;
        };
        let it = &mut watched[which];
        it.believe(&module).expect("it was accepted");
        match it.run(&module, at, [1, 0]) {
            Ok(end) => *ends.entry(end).or_default() += 1,
            Err(what) => panic!("mutant {i} of seed {seed:#x}: {what}"),
        }
        let right = looks_right(&module, &it.data);
        assert!(
            right,
            "mutant {i} of seed {seed:#x}: what it left is not right"
        );
    }
    instructions += all(&watched);
    println!("{count} mutants: {refused} refused, {ends:?}; {instructions} instructions");
    let tried = refused > 0 && ends.contains_key(&End::Returned);
    assert!(tried, "{ends:?}: nothing was tried");
}
