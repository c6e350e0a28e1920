//! What a module declares, and what it begins with.

use crate::typed::{both, bytes, join, twins, Item, Typed, ZERO};
use tane_checked::{check, Routine, Rule, Type};

#[test]
fn t1_a_section_that_is_cut_off_or_longer_is_refused() {
    let good = Typed::new(&[bytes(ZERO)]);
    for change in [
        (|types: &mut Vec<u8>| types.truncate(types.len() - 1)) as fn(&mut Vec<u8>),
        |types| types.push(0),
        |types| types.clear(),
        // A count in two bytes.
        |types| {
            types[0] |= 0x80;
            types.insert(1, 0);
        },
        // More classes than bytes.
        |types| {
            types
                .splice(0..1, [0xff, 0xff, 0xff, 0xff, 0x0f])
                .for_each(drop)
        },
        // A class of no kind, and a field of no type.
        |types| types[1] = 2,
        |types| types[3] = 0,
    ] {
        let mut bad = good.clone();
        bad.types = change;
        both(Rule::Types, &bad, &good);
    }
    let whole = good.file();
    for length in 0..whole.len() {
        assert!(check(&whole[..length]).is_err());
    }
}

#[test]
fn t1_what_names_no_class_no_signature_and_no_text_is_refused() {
    let good = Typed::new(&[bytes(ZERO)]);
    let changed = |change: fn(&mut Typed)| {
        let mut it = good.clone();
        change(&mut it);
        it
    };
    for change in [
        (|it: &mut Typed| it.section.signatures[1].0 = vec![Type::Object(7, 7)]) as fn(&mut Typed),
        |it| it.section.signatures[1].0 = vec![Type::Object(6, 7)],
        |it| it.section.signatures[1].0 = vec![Type::Object(0, 3)],
        |it| it.section.signatures[1].0 = vec![Type::Object(4, 3)],
        |it| it.section.signatures[1].0 = vec![Type::Function(2)],
        |it| it.section.signatures[1].1 = Type::Unknown,
        |it| it.section.signatures.truncate(1),
        |it| it.joins = vec![join(0, &[], &[])],
        |it| it.joins = vec![join(4000, &[], &[])],
        |it| it.joins = vec![join(10, &[], &[]), join(5, &[], &[])],
    ] {
        both(Rule::Types, &changed(change), &good);
    }
    // The text's class, its length, and heights beside types.
    for (rule, change) in [
        (
            Rule::Types,
            (|m: &mut tane_checked::Module<'_>| {
                m.read_only = b"\x02\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0ab\0\0\0\0\0\0";
            }) as fn(&mut tane_checked::Module<'_>),
        ),
        (Rule::Types, |m| {
            m.read_only = b"\x01\0\0\0\0\0\0\0\x09\0\0\0\0\0\0\0ab\0\0\0\0\0\0";
        }),
        (Rule::Container, |m| m.heights = vec![(0, 0)]),
    ] {
        let mut bad = good.clone();
        bad.change = change;
        both(rule, &bad, &good);
    }
}

#[test]
fn t1_no_more_is_declared_than_can_be_held() {
    // Two functions, and joins at so many nops, each with 16 registers.
    let joins = |count: u32| {
        let mut it = Typed::new(&[bytes(&[0x90].repeat(count as usize)), bytes(ZERO)]);
        it.joins = (0..count).map(|n| join(5 + n, &[], &[])).collect();
        it
    };
    let most = (1 << 18) - 2;
    both(Rule::Types, &joins(most + 1), &joins(most));
    // A word counts as a register.
    let (mut more, mut most) = (joins(most - 1), joins(most - 1));
    more.joins[0].words = vec![Type::Unknown; 17];
    most.joins[0].words = Vec::new();
    both(Rule::Types, &more, &most);
}

#[test]
fn t2_the_routines_are_what_they_have_to_be_to_the_last_byte() {
    let good = Typed::new(&[bytes(ZERO)]).file();
    let length = Typed::new(&[]).file().len() - 44;
    assert!(check(&good).is_ok() && length > 200);
    for at in 48..48 + 200 {
        let mut bad = good.clone();
        bad[at] ^= 1;
        assert!(check(&bad).is_err(), "byte {at}");
    }
    let twin = Typed::new(&[bytes(ZERO)]);
    for change in [
        (|m: &mut tane_checked::Module<'_>| m.zeroes = 8) as fn(&mut tane_checked::Module<'_>),
        |m| m.zeroes += 4,
        // An import somewhere else in the table, or where a function pointer could find it.
        |m| m.table.swap(0, 1),
        |m| m.table[2] = tane_checked::IMPORT,
    ] {
        let mut bad = twin.clone();
        bad.change = change;
        both(Rule::Runtime, &bad, &twin);
    }
    // An import that has no type, and one whose pointer nobody would look at.
    for name in ["malloc", "fstat", "tane_try"] {
        let mut bad = twin.clone();
        bad.imports = vec![name];
        both(Rule::Runtime, &bad, &twin);
    }
}

#[test]
fn t12_exports_begin_anew_and_are_not_called() {
    let good = Typed::new(&[bytes(ZERO)]);
    let mut without = good.clone();
    without.code.remove(0);
    both(Rule::Entry, &without, &good);
    let mut other = good.clone();
    other.code[0] = bytes(&[0x90, 0x90, 0x90, 0x90, 0x90]);
    both(Rule::Entry, &other, &good);
    // Anew in the midst, and an export that is called.
    let call = |item: Item| [item, bytes(ZERO)];
    twins(
        Rule::Entry,
        &call(Item::Call(Routine::Reset)),
        &[bytes(ZERO)],
    );
    twins(Rule::Entry, &call(Item::CallAt(0)), &[bytes(ZERO)]);
    for change in [
        // A pointer to an export, an export of a record, and one within a function.
        (|m: &mut tane_checked::Module<'_>| m.table[2] = m.exports[0].at)
            as fn(&mut tane_checked::Module<'_>),
        |m| m.exports[0].at = m.table[2],
        |m| m.exports[0].at += 5,
        |m| m.table[2] += 5,
    ] {
        let mut bad = good.clone();
        bad.change = change;
        both(Rule::Entry, &bad, &good);
    }
}
