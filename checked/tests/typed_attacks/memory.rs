//! Fields, elements, and what was allocated.

use crate::typed::{both, join, EITHER, ZERO};
use crate::typed::{bytes, made, new_array, new_record, twins, with, Item, Typed};
use tane_checked::{Routine, Rule, Type};

/// mov %gs:at(%ebase),%rcx with base rax or rdi.
fn load(base: u8, at: u8) -> Vec<u8> {
    vec![0x65, 0x67, 0x48, 0x8b, 0x48 | base, at]
}

#[test]
fn t5_a_number_is_no_pointer() {
    twins(
        Rule::Field,
        &[bytes(&load(7, 8)), bytes(ZERO)],
        &with(new_record(), &load(0, 8)),
    );
    // A pointer that was computed with.
    let next = [&[0x48, 0x83, 0xc0, 8][..], &load(0, 8)].concat();
    twins(
        Rule::Field,
        &with(new_record(), &next),
        &with(new_record(), &load(0, 8)),
    );
    // Its lower half, moved.
    let half = [&[0x89, 0xc0][..], &load(0, 8)].concat();
    twins(
        Rule::Field,
        &with(new_record(), &half),
        &with(new_record(), &load(0, 8)),
    );
    // By no register, and beside the code.
    let absolute = [0x65, 0x67, 0x48, 0x8b, 0x0c, 0x25, 0, 0, 1, 0];
    twins(
        Rule::Field,
        &[bytes(&absolute), bytes(ZERO)],
        &with(new_record(), &load(0, 8)),
    );
    // A number that is no text's address.
    let text = |below: u32| {
        let layout = tane_checked::Layout::new(4096 - 600, 3, 24, 16).expect("small");
        let at = (layout.read_only - below).to_le_bytes();
        let code = [&[0xb8][..], &at, &load(0, 8), ZERO].concat();
        Typed::new(&[bytes(&code)])
    };
    both(Rule::Field, &text(8), &text(0));
}

#[test]
fn t5_a_field_is_one_that_the_class_has() {
    let ok = with(new_record(), &load(0, 16));
    for at in [24, 0xf8, 12, 4] {
        twins(Rule::Field, &with(new_record(), &load(0, at)), &ok);
    }
    // Of 4 bytes, and an element of what is no array.
    let short = [0x65, 0x67, 0x8b, 0x48, 8];
    twins(Rule::Field, &with(new_record(), &short), &ok);
}

#[test]
fn t5_a_field_gets_what_belongs_there() {
    // mov %rdi,%gs:at(%eax), where a call has left rdi unknown: of a number made anew.
    let store = |at: u8| {
        let number = [0xbf, 7, 0, 0, 0];
        let code = [&number[..], &[0x65, 0x67, 0x48, 0x89, 0x78, at]].concat();
        with(new_record(), &code)
    };
    twins(Rule::Field, &store(16), &store(8));
    // The class, an array's length, and a text.
    twins(Rule::Field, &store(0), &store(8));
    let array = |at: u8| {
        let code = [0xbf, 7, 0, 0, 0, 0x65, 0x67, 0x48, 0x89, 0x78, at];
        with(new_array(Routine::NewWords, 5), &code)
    };
    twins(
        Rule::Field,
        &array(8),
        &with(new_array(Routine::NewWords, 5), &load(0, 8)),
    );
    // add %rdi,%gs:16(%eax): no pointer is computed in place.
    let add = |at: u8| {
        let code = [0xbf, 7, 0, 0, 0, 0x65, 0x67, 0x48, 0x01, 0x78, at];
        with(new_record(), &code)
    };
    twins(Rule::Field, &add(16), &add(8));
    // movsd %xmm0,%gs:16(%eax)
    let float = |at: u8| with(new_record(), &[0x65, 0x67, 0xf2, 0x0f, 0x11, 0x40, at]);
    twins(Rule::Field, &float(16), &float(8));
}

#[test]
fn t5_what_can_be_of_several_classes_has_no_fields_until_it_is_compared() {
    // helper(#3-4): cmpq $class,%gs:(%edi); jne 1f; mov %gs:16(%edi),%rax->rcx; 1: mov $1
    let helper = |class: u8, jump: u8, at: u8| {
        let mut it = Typed::new(&[bytes(ZERO)]);
        it.section.signatures[1].0 = vec![EITHER];
        it.change = |m| m.table[2] = tane_checked::EMPTY;
        let load = [0x65, 0x67, 0x48, 0x8b, 0x4f, at];
        let compare = [0x65, 0x67, 0x48, 0x83, 0x3f, class];
        let rest = [0xb8, 1, 0, 0, 0, 0xc3];
        let code = [&compare[..], &[jump, 6], &load, &rest].concat();
        it.helper = vec![bytes(&code)];
        // Behind the load, where either class can come to.
        it.joins = vec![join(11 + 14, &[], &[])];
        it
    };
    let good = helper(3, 0x75, 16);
    both(Rule::Field, &helper(4, 0x75, 16), &good);
    both(Rule::Field, &helper(3, 0x77, 16), &good);
    both(Rule::Field, &helper(3, 0x74, 16), &helper(4, 0x74, 16));
    both(Rule::Field, &helper(9, 0x75, 8), &helper(4, 0x75, 8));
    // Nothing comes between.
    let mut between = good.clone();
    let compare = [0x65, 0x67, 0x48, 0x83, 0x3f, 3];
    let rest = [0xb8, 1, 0, 0, 0, 0xc3];
    let load = [0x65, 0x67, 0x48, 0x8b, 0x4f, 16];
    let code = [&compare[..], &[0x90, 0x75, 6], &load, &rest].concat();
    between.helper = vec![bytes(&code)];
    between.joins[0].at += 1;
    both(Rule::Field, &between, &good);
}

/// mov $index,%ecx; cmp %gs:8(%eax),%rcx; jae over what follows; mov %gs:16(%eax,%ecx,8),%rdx
fn element(compare: &[u8], jump: u8, access: &[u8]) -> Vec<Item> {
    let index = [0xb9, 1, 0, 0, 0];
    let jump = [jump, access.len() as u8];
    let code = [&index[..], compare, &jump, access].concat();
    with(new_array(Routine::NewWords, 5), &code)
}

const LENGTH_OF_RAX: &[u8] = &[0x65, 0x67, 0x48, 0x3b, 0x48, 8];
const ELEMENT: &[u8] = &[0x65, 0x67, 0x48, 0x8b, 0x54, 0xc8, 16];

#[test]
fn t6_an_element_is_below_the_length_that_its_index_was_compared_with() {
    let good = element(LENGTH_OF_RAX, 0x73, ELEMENT);
    for attack in [
        // jbe, jb, jge: at it, beyond it, and with a sign.
        element(LENGTH_OF_RAX, 0x76, ELEMENT),
        element(LENGTH_OF_RAX, 0x72, ELEMENT),
        element(LENGTH_OF_RAX, 0x7d, ELEMENT),
        // The index's lower half alone: refused as a length of 4 bytes, below; no compare.
        element(&[], 0x73, ELEMENT),
        // With another number, and with the class.
        element(&[0x48, 0x39, 0xc9], 0x73, ELEMENT),
        element(&[0x65, 0x67, 0x48, 0x3b, 0x08], 0x73, ELEMENT),
        // Another element: the next one, by half the size, of another register.
        element(
            LENGTH_OF_RAX,
            0x73,
            &[0x65, 0x67, 0x48, 0x8b, 0x54, 0xc8, 24],
        ),
        element(
            LENGTH_OF_RAX,
            0x73,
            &[0x65, 0x67, 0x48, 0x8b, 0x54, 0x88, 16],
        ),
        element(
            LENGTH_OF_RAX,
            0x73,
            &[0x65, 0x67, 0x48, 0x8b, 0x54, 0xc0, 16],
        ),
        element(LENGTH_OF_RAX, 0x73, &[0x65, 0x67, 0x8b, 0x54, 0xc8, 16]),
        // The index has changed since.
        element(
            LENGTH_OF_RAX,
            0x73,
            &[&[0x48, 0xff, 0xc1], ELEMENT].concat(),
        ),
        element(
            LENGTH_OF_RAX,
            0x73,
            &[&[0xb9, 9, 0, 0, 0], ELEMENT].concat(),
        ),
        // Something comes between.
        element(&[LENGTH_OF_RAX, &[0x90]].concat(), 0x73, ELEMENT),
    ] {
        twins(Rule::Element, &attack, &good);
    }
    let half = element(&[0x65, 0x67, 0x3b, 0x48, 8], 0x73, ELEMENT);
    twins(Rule::Field, &half, &good);
}

#[test]
fn t6_what_was_compared_is_forgotten_where_ways_meet() {
    // The loop's head is where the comparison is, or right behind it.
    let first = new_array(Routine::NewWords, 5);
    let code = |head: u32| {
        let mut it = Typed::new(&with(
            first.clone(),
            &[
                &[0xb9, 1, 0, 0, 0],
                LENGTH_OF_RAX,
                &[0x73, 9],
                ELEMENT,
                &[0xeb, 0],
            ]
            .concat(),
        ));
        // call, mov, call, movq are 24; mov $1,%ecx 5; cmp 6; jae 2.
        let known = [(0, Type::Object(5, 5)), (1, Type::Int)];
        it.joins = vec![join(head, &known, &[])];
        it
    };
    both(Rule::Element, &code(24 + 13), &code(24 + 5));
}

#[test]
fn t6_elements_of_bytes_are_bytes_and_those_of_texts_are_read() {
    let bytes_of = |class: u8, access: &[u8]| {
        let code = [
            &[0xb9, 1, 0, 0, 0][..],
            LENGTH_OF_RAX,
            &[0x73, access.len() as u8],
            access,
        ];
        with(new_array(Routine::NewBytes, class), &code.concat())
    };
    let load = [0x65, 0x67, 0x0f, 0xb6, 0x54, 0x08, 16];
    let wide = [0x65, 0x67, 0x48, 0x8b, 0x54, 0x08, 16];
    let store = [0x65, 0x67, 0xc6, 0x44, 0x08, 16, 1];
    twins(Rule::Element, &bytes_of(2, &wide), &bytes_of(2, &load));
    twins(Rule::Field, &bytes_of(1, &store), &bytes_of(2, &store));
}

#[test]
fn t7_what_was_allocated_becomes_an_object_of_its_size() {
    for (size, class) in [
        (16, 3),
        (24, 4),
        (24, 5),
        (24, 1),
        (24, 2),
        (24, 0),
        (24, 99),
    ] {
        twins(
            Rule::Make,
            &with(made(size, class), &[]),
            &with(made(24, 3), &[]),
        );
    }
    twins(
        Rule::Make,
        &with(new_array(Routine::NewWords, 2), &[]),
        &with(new_array(Routine::NewBytes, 2), &[]),
    );
    twins(
        Rule::Make,
        &with(new_array(Routine::NewBytes, 6), &[]),
        &with(new_array(Routine::NewWords, 6), &[]),
    );
    twins(
        Rule::Make,
        &with(new_array(Routine::NewWords, 3), &[]),
        &with(new_array(Routine::NewWords, 5), &[]),
    );
    // Elsewhere than its first word, or of 4 bytes.
    let elsewhere = [0x65, 0x67, 0x48, 0xc7, 0x40, 8, 3, 0, 0, 0];
    let short = [0x65, 0x67, 0xc7, 0x00, 3, 0, 0, 0];
    for attack in [&elsewhere[..], &short] {
        let mut code = new_record();
        code[2] = bytes(attack);
        twins(Rule::Make, &with(code, &[]), &with(new_record(), &[]));
    }
    // Twice the same memory: it cannot be moved before it is something.
    let mut twice = new_record();
    twice.insert(2, bytes(&[0x48, 0x89, 0xc3]));
    twins(
        Rule::Value,
        &with(twice, &[]),
        &with(new_record(), &[0x48, 0x89, 0xc3]),
    );
}
