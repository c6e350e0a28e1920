//! Values, the ways that lead somewhere, calls, returns, and words by rsp.

use crate::typed::{
    both, bytes, join, length, made, new_array, new_record, twins, with, Item, Typed, EITHER,
    RECORD, RET, TEXT, ZERO,
};
use tane_checked::{Routine, Rule, Type};

#[test]
fn t3_what_has_no_effect_on_types_is_refused() {
    for attack in [
        &[0x66, 0x89, 0xf8][..],         // mov %di,%ax
        &[0xb0, 0, 0x88, 0xe0],          // mov %ah,%al
        &[0x48, 0x0f, 0xc1, 0xf7],       // xadd %rsi,%rdi
        &[0x48, 0x0f, 0xb1, 0xf7],       // cmpxchg
        &[0x87, 0xf7],                   // xchg
        &[0x0f, 0xae, 0xe8],             // lfence
        &[0x48, 0x0f, 0xcf],             // bswap %rdi
        &[0xc4, 0xe2, 0x40, 0xf2, 0xc6], // andn
    ] {
        let attack = [bytes(&[0x89, 0xf8]), bytes(attack), bytes(ZERO)];
        twins(
            Rule::Effect,
            &attack,
            &[bytes(&[0x48, 0x01, 0xf7]), bytes(ZERO)],
        );
    }
}

#[test]
fn t4_nothing_is_read_that_was_not_written() {
    // mov %rbx,%rax; push %rbx; add %rbx,%rdi; lea (%rbx),%rax; of rdi instead of rbx.
    for (attack, twin) in [
        (&[0x48, 0x89, 0xd8][..], &[0x48, 0x89, 0xf8][..]),
        (&[0x53, 0x58], &[0x57, 0x58]),
        (&[0x48, 0x01, 0xdf], &[0x48, 0x01, 0xf7]),
        (&[0x48, 0x8d, 0x03], &[0x48, 0x8d, 0x07]),
        (&[0x0f, 0x94, 0xc3], &[0x40, 0x0f, 0x94, 0xc7]),
        // idiv %rdi: of rax and rdx.
        (&[0x48, 0xf7, 0xff], &[0x89, 0xf8, 0x99, 0x48, 0xf7, 0xff]),
        // tzcnt and lzcnt into %rbx: on processors that lack them bsf and bsr, which leave it as
        // it was if there is no bit.
        (
            &[0xf3, 0x48, 0x0f, 0xbc, 0xdf],
            &[0xf3, 0x48, 0x0f, 0xbc, 0xf7],
        ),
        (
            &[0xf3, 0x48, 0x0f, 0xbd, 0xdf],
            &[0xf3, 0x48, 0x0f, 0xbd, 0xf7],
        ),
        // movq %rbx,%xmm0
        (
            &[0x66, 0x48, 0x0f, 0x6e, 0xc3],
            &[0x66, 0x48, 0x0f, 0x6e, 0xc7],
        ),
    ] {
        let code = |bytes_: &[u8]| [bytes(bytes_), bytes(ZERO)];
        twins(Rule::Value, &code(attack), &code(twin));
    }
    // A word that was taken and not written: sub $8,%rsp; mov (%rsp),%rax; add $8,%rsp.
    let take = [0x48, 0x83, 0xec, 8];
    let give = [0x48, 0x83, 0xc4, 8];
    let load = [0x48, 0x8b, 0x04, 0x24];
    let store = [0x48, 0x89, 0x3c, 0x24];
    let attack = [&take[..], &load, &give, RET].concat();
    let twin = [&take[..], &store, &load, &give, RET].concat();
    twins(Rule::Value, &[bytes(&attack)], &[bytes(&twin)]);
    // What a call leaves in registers.
    let call = [new_record(), vec![bytes(&[0x48, 0x89, 0xf0]), bytes(RET)]].concat();
    twins(Rule::Value, &call, &with(new_record(), &[]));
}

#[test]
fn t8_each_way_to_a_join_has_what_that_needs() {
    // A loop: 1: mov %rdi,%rax; jmp 1b. Its head, behind the call, declares rdi.
    let looped = |ty: Type, declared: bool| {
        let mut it = Typed::new(&[bytes(&[0x48, 0x89, 0xf8, 0xeb, 0xfb])]);
        if declared {
            it.joins = vec![join(5, &[(7, ty)], &[])];
        }
        it
    };
    let good = looped(Type::Int, true);
    both(Rule::Join, &looped(RECORD, true), &good);
    both(Rule::Join, &looped(TEXT, true), &good);
    both(Rule::Join, &looped(Type::Descriptor, true), &good);
    both(Rule::Join, &looped(Type::Int, false), &good);
    // What is changed in the loop does not come back as what it was.
    let mut changed = Typed::new(&with(new_record(), &[0x48, 0x83, 0xc0, 8, 0xeb, 0xfa]));
    changed.code.pop();
    let mut kept = changed.clone();
    changed.joins = vec![join(24, &[(0, RECORD)], &[])];
    kept.joins = vec![join(24, &[(0, Type::Int)], &[])];
    both(Rule::Join, &changed, &kept);
    // Words: one that is declared and not there.
    let mut words = good.clone();
    words.joins[0].words = vec![Type::Int];
    both(Rule::Height, &words, &good);
    // Dead code, and code that runs into another function.
    twins(
        Rule::Join,
        &[bytes(ZERO), bytes(RET)],
        &[bytes(ZERO), bytes(&[0x90])],
    );
    twins(
        Rule::Join,
        &[bytes(&[0x89, 0xf8])],
        &[bytes(&[0x89, 0xf8, 0xc3])],
    );
    // Out of its function.
    twins(Rule::Join, &[bytes(&[0xeb, 0])], &[bytes(ZERO)]);
    // The same from the helper into main, where the same is known.
    let jumps = |by: u8| {
        let mut it = Typed::new(&[bytes(ZERO)]);
        it.helper = vec![bytes(&[0xb8, 1, 0, 0, 0, 0xeb, by, 0xc3])];
        it
    };
    both(Rule::Join, &jumps(0xee), &jumps(0));
}

#[test]
fn t8_a_function_pushes_no_more_than_a_jump_may_have_to_compare() {
    // push %rdi, as often; pop %rax.
    let pushes = |count| [[0x57].repeat(count), [0x58].repeat(count), RET.to_vec()].concat();
    twins(Rule::Height, &[bytes(&pushes(513))], &[bytes(&pushes(512))]);
}

#[test]
fn t9_functions_get_what_they_take() {
    // The helper takes a #3: mov %rax,%rdi and a call, of what is a record and of what is not.
    let call = |first: Vec<Item>, mov: &[u8]| {
        let mut it = Typed::new(&first);
        it.code.push(bytes(mov));
        it.code.push(Item::CallAt(0));
        it.code.push(bytes(RET));
        let last = it.code.len() - 2;
        it.code[last] = Item::CallAt(length(&it.code) as i32);
        it
    };
    let good = call(new_record(), &[0x48, 0x89, 0xc7]);
    both(Rule::Call, &call(Vec::new(), &[0x48, 0x89, 0xf7]), &good);
    both(Rule::Call, &call(made(16, 4), &[0x48, 0x89, 0xc7]), &good);
    both(Rule::Call, &call(new_record(), &[0x48, 0x89, 0xc3]), &good);
    both(Rule::Call, &call(new_record(), &[0x89, 0xc7]), &good);
    // Into a function, behind its first instruction.
    let mut behind = good.clone();
    let last = behind.code.len() - 2;
    if let Item::CallAt(at) = &mut behind.code[last] {
        *at += 5;
    }
    both(Rule::Call, &behind, &good);
    // Sizes that are not constant.
    let mut size = new_record();
    size[0] = bytes(&[0x89, 0xf8]);
    twins(Rule::Call, &with(size, &[]), &with(new_record(), &[]));
    for bytes_ in [0, 4, 12] {
        twins(
            Rule::Call,
            &with(made(bytes_, 3), &[]),
            &with(made(24, 3), &[]),
        );
    }
}

#[test]
fn t9_a_descriptor_is_nothing_but_what_the_kernel_gave() {
    // openat(text, 0, 2, 0, 0), whose result is the helper's or another import's argument.
    let open = |then: &[Item]| {
        let layout = tane_checked::Layout::new(4096 - 600, 3, 24, 16).expect("small");
        let mut code = vec![0xbf];
        code.extend(layout.read_only.to_le_bytes());
        code.extend([0xbe, 0, 0, 0, 0, 0xba, 2, 0, 0, 0, 0xb9, 0, 0, 0, 0]);
        code.extend([0x41, 0xb8, 0, 0, 0, 0]);
        let first = [bytes(&code), Item::Call(Routine::Import(0))];
        let mut it = Typed::new(&[&first, then, &[bytes(ZERO)]].concat());
        it.imports = vec!["openat", "close"];
        it
    };
    let close = Item::Call(Routine::Import(1));
    let good = open(&[bytes(&[0x48, 0x89, 0xc7]), close.clone()]);
    for attack in [
        // A number; what was computed of a descriptor; half of one.
        &[0xbf, 3, 0, 0, 0][..],
        &[0x48, 0x8d, 0x78, 1],
        &[0x48, 0x89, 0xc7, 0x48, 0x83, 0xc7, 0],
        &[0x89, 0xc7],
    ] {
        both(Rule::Call, &open(&[bytes(attack), close.clone()]), &good);
    }
    // What is opened is a text or bytes, and not what holds pointers.
    let mut record = good.clone();
    record.code.splice(1..2, new_record());
    record.code.insert(
        4,
        bytes(&[
            0x48, 0x89, 0xc7, 0xbe, 0, 0, 0, 0, 0xba, 2, 0, 0, 0, 0xb9, 0, 0, 0, 0, 0x41, 0xb8, 0,
            0, 0, 0,
        ]),
    );
    both(Rule::Call, &record, &good);
}

#[test]
fn t9_a_text_is_not_what_an_import_writes_into() {
    let input = |class: u8| {
        let code = [0x48, 0x89, 0xc7, 0xbe, 0, 0, 0, 0, 0xba, 4, 0, 0, 0];
        let mut all = new_array(Routine::NewBytes, class);
        all.extend([bytes(&code), Item::Call(Routine::Import(0)), bytes(RET)]);
        let mut it = Typed::new(&all);
        it.imports = vec!["tane_input"];
        it
    };
    both(Rule::Call, &input(1), &input(2));
}

#[test]
fn t9_a_slot_is_called_by_its_signature() {
    // A record's field holds the slot: mov $2,%ecx; store; load; and; call.
    let call = |field: Type, slot: u8, mask: u8| {
        let layout = tane_checked::Layout::new(4096 - 600, 3, 24, 16).expect("small");
        let mut code = vec![0xb9, slot, 0, 0, 0, 0x65, 0x67, 0x48, 0x89, 0x48, 8];
        code.extend([
            0x65, 0x67, 0x48, 0x8b, 0x58, 8, 0x65, 0x67, 0x48, 0x8b, 0x78, 16,
        ]);
        code.extend([0x83, 0xe3, mask, 0x65, 0x67, 0xff, 0x14, 0xdd]);
        code.extend(layout.table.to_le_bytes());
        code.extend(RET);
        let mut it = Typed::new(&[new_record(), vec![bytes(&code)]].concat());
        it.section.classes[0] = tane_checked::Class::Record(vec![field, RECORD]);
        it
    };
    let good = call(Type::Function(1), 2, 3);
    // A number; another signature; an import's slot; none; another mask.
    both(Rule::Call, &call(Type::Int, 2, 3), &good);
    both(Rule::Field, &call(Type::Function(0), 2, 3), &good);
    both(Rule::Field, &call(Type::Function(1), 1, 3), &good);
    both(Rule::Field, &call(Type::Function(1), 0, 3), &good);
    both(Rule::Field, &call(Type::Function(1), 9, 3), &good);
    both(Rule::Call, &call(Type::Function(1), 2, 1), &good);
}

#[test]
fn t10_a_return_gives_what_is_promised() {
    let helper = |code: &[u8], result: Type| {
        let mut it = Typed::new(&[bytes(ZERO)]);
        it.helper = vec![bytes(code)];
        it.section.signatures[1].1 = result;
        it
    };
    let same = [0x48, 0x89, 0xf8, 0xc3];
    let good = helper(&same, RECORD);
    both(Rule::Result, &helper(ZERO, RECORD), &good);
    both(Rule::Result, &helper(&same, Type::Object(4, 4)), &good);
    both(Rule::Result, &helper(&same, Type::Descriptor), &good);
    both(
        Rule::Result,
        &helper(RET, Type::Int),
        &helper(ZERO, Type::Int),
    );
    assert_eq!(helper(&same, EITHER).refused(), None);
}

#[test]
fn t11_words_by_rsp_are_the_functions_own() {
    let take = |bytes: u8| [0x48, 0x83, 0xec, bytes];
    let give = |bytes: u8| [0x48, 0x83, 0xc4, bytes];
    let store = |at: u8| [0x48, 0x89, 0x7c, 0x24, at];
    let code = |parts: &[&[u8]]| [bytes(&parts.concat()), bytes(ZERO)];
    let good = code(&[&take(16), &store(8), &give(16)]);
    for attack in [
        // The return address, beyond it, below rsp, and not at a word.
        code(&[&take(16), &store(16), &give(16)]),
        code(&[&take(16), &store(24), &give(16)]),
        code(&[&take(16), &store(0xf8), &give(16)]),
        code(&[&take(16), &store(4), &give(16)]),
        // More than are there; none; twice; more than the guard page; upwards.
        code(&[&take(16), &give(24)]),
        code(&[&take(0), &give(16)]),
        code(&[&take(16), &take(16), &give(16), &give(16)]),
        code(&[
            &[0x48, 0x81, 0xec, 8, 8, 0, 0],
            &[0x48, 0x81, 0xc4, 8, 8, 0, 0],
        ]),
        code(&[&take(0xf0), &give(16)]),
        // 4 bytes of a word.
        code(&[&take(16), &[0x89, 0x7c, 0x24, 8], &give(16)]),
    ] {
        twins(Rule::Word, &attack, &good);
    }
    // By half of rsp, by no whole words, and otherwise.
    for attack in [
        &[0x83, 0xec, 16][..],
        &[0x48, 0x83, 0xec, 12],
        &[0x48, 0x83, 0xe4, 0xf0],
        &[0x48, 0x89, 0xe0],
        &[0x48, 0x8d, 0x44, 0x24, 8],
    ] {
        twins(Rule::StackPointer, &code(&[attack]), &good);
    }
    // With an index it is no word.
    twins(
        Rule::Guarded,
        &code(&[&take(16), &[0x48, 0x89, 0x3c, 0x3c], &give(16)]),
        &good,
    );
    twins(Rule::Return, &code(&[&take(16)]), &good);
}
