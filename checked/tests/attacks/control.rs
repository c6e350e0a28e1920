//! Where control comes from and goes to, and what is pushed there.

use crate::module::{around, refused, twins};
use crate::RET;
use tane_checked::{Layout, Rule};

#[test]
fn r6_two_ways_to_one_place_push_the_same() {
    // je over a push, against je over a mov.
    twins(
        Rule::Height,
        3,
        &[0x74, 1, 0x50, 0x58, RET],
        &[0x74, 2, 0x89, 0xc0, RET],
    );
    // A loop that pushes in every turn.
    twins(Rule::Height, 1, &[0x50, 0xeb, 0xfd], &[0x90, 0xeb, 0xfd]);
    // A call into the middle of a function, behind its push.
    let calls = |back: u8| [0x50, 0x58, RET, 0xe8, back, 0xff, 0xff, 0xff, RET];
    twins(Rule::Height, 3, &calls(0xf9), &calls(0xf8));
}

#[test]
fn r6_a_declared_height_has_to_be_the_one_of_every_way() {
    // jmp 2f; 1: pop; ret; 2: push; jmp 1b
    let code = [0xeb, 2, 0x58, RET, 0x50, 0xeb, 0xfb];
    let with = |heights| {
        let mut module = around(&code);
        module.heights = heights;
        refused(&module)
    };
    assert_eq!(with(vec![(2, 1)]), None);
    assert_eq!(with(vec![(2, 2)]), Some((Rule::Return, Some(3))));
    assert_eq!(with(vec![]), Some((Rule::Pop, Some(2))));
    assert_eq!(with(vec![(4, 1)]), Some((Rule::Height, Some(0))));
    assert_eq!(with(vec![(2, 70_000)]), Some((Rule::Height, Some(2))));
}

#[test]
fn r6_functions_in_the_table_begin_with_nothing_pushed() {
    let code = [0x50, 0x58, RET];
    let mut module = around(&code);
    module.table[0] = 1;
    assert_eq!(
        refused(&module),
        Some((Rule::Height, Some(0))).map(|(r, _)| (r, Some(1)))
    );
}

#[test]
fn r7_a_return_address_is_not_popped() {
    twins(Rule::Pop, 0, &[0x58, RET], &[0x50, 0x58, RET]);
    twins(
        Rule::Pop,
        2,
        &[0x50, 0x58, 0x58, RET],
        &[0x50, 0x58, 0x50, 0x58, RET],
    );
}

#[test]
fn r8_a_return_finds_its_address_on_top() {
    twins(Rule::Return, 1, &[0x50, RET], &[0x50, 0x58, RET]);
    twins(
        Rule::Return,
        5,
        &[0x68, 0, 0, 0, 0, RET],
        &[0x68, 0, 0, 0, 0, 0x58, RET],
    );
}

#[test]
fn r9_no_jump_ends_within_an_instruction() {
    // mov $0x00c3050f,%eax has a syscall in it.
    let hidden = [0xb8, 0x0f, 0x05, 0xc3, 0x00];
    let forward = |by: u8| [&[0xeb, by][..], &hidden, &[RET]].concat();
    twins(Rule::Target, 2, &forward(1), &forward(0));
    let backward = |by: u8| [&hidden[..], &[0xeb, by]].concat();
    twins(Rule::Target, 5, &backward(0xfa), &backward(0xf9));
    let mut module = around(&hidden);
    module.exports[0].at = 1;
    assert_eq!(refused(&module), Some((Rule::Target, Some(0))));
}

#[test]
fn r9_no_jump_ends_within_itself() {
    // and $0,%eax; ret: behind 0xff, jmp *0(%rip).
    let behind = [0x25, 0, 0, 0, 0, RET];
    for (attack, twin) in [
        (&[0x74, 0xff][..], &[0x74, 0xfe][..]),
        (&[0xeb, 0xff], &[0xeb, 0xfe]),
        (
            &[0x0f, 0x84, 0xff, 0xff, 0xff, 0xff],
            &[0x0f, 0x84, 0, 0, 0, 0],
        ),
        (
            &[0xe9, 0xfc, 0xff, 0xff, 0xff],
            &[0xe9, 0xfb, 0xff, 0xff, 0xff],
        ),
        (
            &[0xe8, 0xff, 0xff, 0xff, 0xff],
            &[0xe8, 0xfb, 0xff, 0xff, 0xff],
        ),
    ] {
        let with = |jump: &[u8]| [jump, &behind].concat();
        twins(Rule::Target, 0, &with(attack), &with(twin));
    }
}

#[test]
fn r9_no_jump_leaves_the_code() {
    twins(Rule::Target, 0, &[0xeb, 0x7f, RET], &[0xeb, 0, RET]);
    twins(Rule::Target, 0, &[0xeb, 1, RET], &[0xeb, 0, RET]);
    twins(Rule::Target, 0, &[0xeb, 0x80, RET], &[0xeb, 0, RET]);
    twins(
        Rule::Target,
        0,
        &[0xe8, 0xff, 0xff, 0xff, 0x7f, RET],
        &[0xe8, 0, 0, 0, 0, RET],
    );
}

/// and $mask,%r11d; call *%gs:table+offset(,%r11d,8); ret
fn through_table(mask: u8, offset: u32, index_byte: u8) -> Vec<u8> {
    let table = Layout::new(15, 2, 16, 16).expect("small").table + offset;
    let call = [0x65, 0x67, 0x42, 0xff, 0x14, index_byte];
    [
        &[0x41, 0x83, 0xe3, mask],
        &call[..],
        &table.to_le_bytes(),
        &[RET],
    ]
    .concat()
}

#[test]
fn r10_the_index_of_the_table_is_masked_by_what_its_slots_allow() {
    let good = through_table(1, 0, 0xdd);
    twins(Rule::Indirect, 4, &through_table(2, 0, 0xdd), &good);
    twins(Rule::Indirect, 4, &through_table(0xff, 0, 0xdd), &good);
    twins(Rule::Indirect, 4, &through_table(1, 8, 0xdd), &good);
    // By 4 instead of 8, and of another register.
    twins(Rule::Indirect, 4, &through_table(1, 0, 0x9d), &good);
    twins(Rule::Indirect, 4, &through_table(1, 0, 0xd5), &good);
    // or instead of and; of 16 bits instead of 32.
    let mut or = good.clone();
    or[2] = 0xcb;
    twins(Rule::Indirect, 4, &or, &good);
}

#[test]
fn r10_nothing_comes_between_mask_and_call() {
    let table = Layout::new(17, 2, 16, 16).expect("small").table;
    let call = [
        &[0x65, 0x67, 0x42, 0xff, 0x14, 0xdd][..],
        &table.to_le_bytes(),
    ]
    .concat();
    let mask = [0x41, 0x83, 0xe3, 1];
    let nops = [0x66, 0x90];
    let good = [&nops[..], &mask, &call, &[RET]].concat();
    let bad = [&mask[..], &nops, &call, &[RET]].concat();
    twins(Rule::Indirect, 6, &bad, &good);
    // From before, and from behind.
    let forward = |by: u8| [&[0xeb, by][..], &mask, &call, &[RET]].concat();
    twins(Rule::Indirect, 6, &forward(4), &forward(0));
    let backward = |by: u8| [&mask[..], &call, &[0x90, 0xeb, by]].concat();
    twins(Rule::Target, 15, &backward(0xf3), &backward(0xef));
}

#[test]
fn r10_a_constant_slot_is_one_of_the_table() {
    let table = Layout::new(10, 2, 16, 16).expect("small").table;
    let call = |at: u32| {
        [
            &[0x65, 0x67, 0xff, 0x14, 0x25][..],
            &at.to_le_bytes(),
            &[RET],
        ]
        .concat()
    };
    for bad in [table + 16, table - 8, table + 4, 0, u32::MAX] {
        twins(Rule::Indirect, 0, &call(bad), &call(table + 8));
    }
    // From the module's own data, and from where a register says.
    let own = [0xff, 0x15, 0, 0x20, 0, 0, RET];
    twins(Rule::Indirect, 0, &own, &call(table));
    twins(
        Rule::Indirect,
        0,
        &[0x65, 0x67, 0xff, 0x10, RET],
        &call(table),
    );
}

#[test]
fn r8_a_jump_through_the_table_leaves_nothing_pushed() {
    let table = Layout::new(11, 2, 16, 16).expect("small").table;
    let jump = |push: &[u8]| {
        [
            push,
            &[0x65, 0x67, 0xff, 0x24, 0x25][..],
            &table.to_le_bytes(),
        ]
        .concat()
    };
    twins(Rule::Return, 1, &jump(&[0x50]), &jump(&[0x50, 0x58]));
}

#[test]
fn r11_control_does_not_run_over_the_end() {
    twins(Rule::End, 1, &[0x90], &[0x90, RET]);
    // A call returns to what is behind it.
    twins(
        Rule::End,
        5,
        &[0xe8, 0xfb, 0xff, 0xff, 0xff],
        &[0xe8, 0xfb, 0xff, 0xff, 0xff, RET],
    );
    twins(Rule::End, 2, &[0x74, 0xfe], &[0xeb, 0xfe]);
    twins(Rule::Form, 0, &[0xb8, 0, 0], &[0xb0, 0, RET]);
}
