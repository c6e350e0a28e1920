//! An attack on every rule of typed modules, each beside a twin that differs in little and
//! is accepted.

mod typed;

use tane_checked::{check, Join, Routine, Rule, State, Type};
use typed::{both, bytes, twins, Item, Typed, EITHER, RECORD, TEXT};

const RET: &[u8] = &[0xc3];
/// mov $0,%eax; ret
const ZERO: &[u8] = &[0xb8, 0, 0, 0, 0, 0xc3];

/// A new record of class 3, in rax.
fn new_record() -> Vec<Item> {
    made(24, 3)
}

/// mov $bytes,%eax; call; movq $class,%gs:(%eax)
fn made(size: u8, class: u8) -> Vec<Item> {
    vec![
        bytes(&[0xb8, size, 0, 0, 0]),
        Item::Call(Routine::New),
        head(class),
    ]
}

fn head(class: u8) -> Item {
    bytes(&[0x65, 0x67, 0x48, 0xc7, 0x00, class, 0, 0, 0])
}

/// An array of 4 elements.
fn new_array(routine: Routine, class: u8) -> Vec<Item> {
    vec![bytes(&[0xb8, 4, 0, 0, 0]), Item::Call(routine), head(class)]
}

/// These behind a new record, or behind an array of ints, then a return of 0.
fn with(first: Vec<Item>, rest: &[u8]) -> Vec<Item> {
    [first, vec![bytes(rest), bytes(ZERO)]].concat()
}

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

fn join(at: u32, registers: &[(usize, Type)], words: &[Type]) -> Join {
    let mut all = [Type::Unknown; 16];
    for (register, ty) in registers {
        all[*register] = *ty;
    }
    Join {
        at,
        registers: all,
        words: words.to_vec(),
    }
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
fn t9_functions_get_what_they_take() {
    // The helper takes a #3: mov %rax,%rdi and a call, of what is a record and of what is not.
    let call = |first: Vec<Item>, mov: &[u8]| {
        let mut it = Typed::new(&first);
        it.code.push(bytes(mov));
        it.code.push(Item::CallAt(0));
        it.code.push(bytes(RET));
        let length: usize = it
            .code
            .iter()
            .map(|item| match item {
                Item::Bytes(bytes) => bytes.len(),
                _ => 5,
            })
            .sum();
        let last = it.code.len() - 2;
        it.code[last] = Item::CallAt(length as i32);
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

#[test]
fn what_is_known_can_be_told() {
    let mut registers = [Type::Unknown; 16];
    registers[0] = EITHER;
    let mut state = State::new(registers, vec![Type::Descriptor, Type::Int]);
    state.bound(1, 0);
    assert_eq!(
        state.to_string(),
        "rax:#3-4 0(rsp):int 8(rsp):fd rcx<len(rax)"
    );
}
