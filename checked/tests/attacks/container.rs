//! The file, and each instruction by itself.

use crate::module::{around, one, refused, twins};
use crate::RET;
use tane_checked::{check, Layout, Module, Rule, EMPTY, IMPORT};

/// mov %gs:(%eax),%eax
const LOAD: &[u8] = &[0x65, 0x67, 0x8b, 0x00];

#[test]
fn r1_a_file_that_is_cut_off_anywhere_is_refused() {
    let file = around(&[RET]).to_bytes();
    assert!(check(&file).is_ok());
    for length in 0..file.len() {
        let refusal = check(&file[..length]).expect_err("it is cut off");
        assert_eq!((refusal.rule, refusal.at), (Rule::Container, None));
    }
}

#[test]
fn r1_more_than_the_header_says_another_version_and_another_magic_are_refused() {
    let good = around(&[RET]).to_bytes();
    let longer = [&good[..], &[0]].concat();
    assert_eq!(check(&longer).expect_err("longer").rule, Rule::Container);
    for (at, what) in [(0, "TMOD"), (4, "version 3")] {
        let mut bad = good.clone();
        bad[at] ^= 2;
        let refusal = check(&bad).expect_err("changed");
        assert!(refusal.to_string().contains(what), "{refusal}");
    }
}

#[test]
fn r1_sizes_that_overflow_are_refused_without_the_memory_they_ask_for() {
    let good = around(&[RET]).to_bytes();
    for field in (8..44).step_by(4) {
        for size in [u32::MAX, 0x8000_0000, 0x7fff_ffff] {
            let mut bad = good.clone();
            bad[field..field + 4].copy_from_slice(&size.to_le_bytes());
            assert_eq!(check(&bad).expect_err("too large").rule, Rule::Container);
        }
    }
}

fn changed(change: impl FnOnce(&mut Module<'_>)) -> Option<Rule> {
    let mut module = around(&[0x90, RET]);
    change(&mut module);
    refused(&module).map(|(rule, _)| rule)
}

#[test]
fn r1_names_of_nothing_and_twice_the_same_are_refused() {
    let refused = Some(Rule::Container);
    assert_eq!(changed(|m| m.table[1] = IMPORT | 1), refused);
    assert_eq!(changed(|m| m.table[1] = EMPTY), None);
    assert_eq!(changed(|m| m.table[0] = 2), refused);
    assert_eq!(changed(|m| m.exports[0].at = 2), refused);
    assert_eq!(changed(|m| m.exports[0].at = 1), None);
    assert_eq!(changed(|m| m.exports.push(m.exports[0])), refused);
    assert_eq!(changed(|m| m.imports[0] = ""), refused);
    assert_eq!(changed(|m| m.heights = vec![(1, 0), (0, 0)]), refused);
    assert_eq!(changed(|m| m.heights = vec![(0, 0), (1, 0)]), None);
    assert_eq!(changed(|m| m.heights = vec![(2, 0)]), refused);
}

#[test]
fn r2_what_enters_the_system_or_asks_the_machine_is_refused() {
    let bad: [&[u8]; 20] = [
        &[0x0f, 0x05],             // syscall
        &[0x0f, 0x34],             // sysenter
        &[0xcd, 0x80],             // int 0x80
        &[0xcc],                   // int3
        &[0xf1],                   // int1
        &[0x0f, 0x31],             // rdtsc
        &[0x0f, 0x01, 0xf9],       // rdtscp
        &[0x0f, 0x33],             // rdpmc
        &[0x0f, 0xa2],             // cpuid
        &[0x0f, 0x01, 0xd0],       // xgetbv
        &[0xf4],                   // hlt
        &[0xe4, 0x60],             // in
        &[0xee],                   // out
        &[0xfa],                   // cli
        &[0x0f, 0xc7, 0xf0],       // rdrand
        &[0x0f, 0x01, 0xef],       // wrpkru
        &[0x0f, 0x01, 0xd5],       // xend
        &[0xc7, 0xf8, 0, 0, 0, 0], // xbegin
        &[0xc6, 0xf8, 0],          // xabort
        &[0x0f, 0x0b, 0x0f, 0xff], // ud2, and behind it ud0
    ];
    for attack in bad {
        let at = if attack.starts_with(&[0x0f, 0x0b]) {
            2
        } else {
            0
        };
        twins(
            Rule::Form,
            at,
            &[attack, &[RET]].concat(),
            &[0x0f, 0x0b, RET],
        );
    }
}

#[test]
fn r2_what_sets_more_than_registers_is_refused() {
    let bad: [&[u8]; 18] = [
        &[0x8e, 0xe8],                         // mov %eax,%gs
        &[0xf3, 0x48, 0x0f, 0xae, 0xd8],       // wrgsbase
        &[0xf3, 0x48, 0x0f, 0xae, 0xd0],       // wrfsbase
        &[0xf3, 0x48, 0x0f, 0xae, 0xc8],       // rdgsbase
        &[0x0f, 0x01, 0xf8],                   // swapgs
        &[0x65, 0x67, 0x0f, 0xae, 0x10],       // ldmxcsr
        &[0x65, 0x67, 0xc5, 0xf8, 0xae, 0x10], // vldmxcsr
        &[0xfd],                               // std
        &[0x9d],                               // popf
        &[0x9c],                               // pushf
        &[0xd9, 0xe8],                         // fld1
        &[0x0f, 0x77],                         // emms
        &[0x0f, 0x6f, 0xc1],                   // movq %mm1,%mm0
        &[0xf3, 0x0f, 0xd6, 0xc0],             // movq2dq
        &[0x0f, 0x2a, 0xc0],                   // cvtpi2ps %mm0,%xmm0
        &[0x65, 0x67, 0x0f, 0xae, 0x08],       // fxrstor
        &[0x0f, 0xa1],                         // pop %fs
        &[0x0f, 0x01, 0xcb],                   // stac
    ];
    for attack in bad {
        one(Rule::Form, attack, LOAD);
    }
}

#[test]
fn r2_memory_that_no_operand_names_is_refused() {
    let bad: [&[u8]; 17] = [
        &[0xa4],                                           // movsb
        &[0xf3, 0x48, 0xab],                               // rep stosq
        &[0x65, 0x67, 0xac],                               // lodsb %gs:(%esi)
        &[0xd7],                                           // xlat
        &[0x65, 0x67, 0xd7],                               // the same by %gs
        &[0x66, 0x0f, 0xf7, 0xc1],                         // maskmovdqu
        &[0x65, 0x67, 0x66, 0x0f, 0xf7, 0xc1],             // the same by %gs
        &[0xc8, 0, 0, 0],                                  // enter
        &[0xc9],                                           // leave
        &[0x65, 0x67, 0x8f, 0x00],                         // pop %gs:(%eax)
        &[0x65, 0x67, 0xff, 0x30],                         // push %gs:(%eax)
        &[0x65, 0xa1, 0, 0, 0, 0, 0, 0, 0, 0],             // movabs %gs:0,%eax
        &[0x65, 0x67, 0x0f, 0xa3, 0x08],                   // bt %ecx,%gs:(%eax)
        &[0x65, 0x67, 0x0f, 0xab, 0x08],                   // bts
        &[0x65, 0x67, 0xc4, 0xe2, 0x69, 0x90, 0x04, 0x08], // vpgatherdd
        &[0x65, 0x67, 0x0f, 0xc7, 0x08],                   // cmpxchg8b
        &[0x65, 0x67, 0x0f, 0xae, 0x38],                   // clflush
    ];
    for attack in bad {
        one(Rule::Form, attack, LOAD);
    }
}

#[test]
fn r2_what_locks_the_bus_is_refused() {
    let add = [0x65, 0x67, 0x01, 0x08];
    one(Rule::Form, &[0xf0, 0x65, 0x67, 0x01, 0x08], &add);
    one(Rule::Form, &[0x65, 0x67, 0xf0, 0x01, 0x08], &add);
    // xchg with memory locks without a prefix; with a register it does not.
    one(Rule::Form, &[0x65, 0x67, 0x87, 0x08], &[0x87, 0xc8]);
}

#[test]
fn r2_far_and_short_control_is_refused() {
    for attack in [
        &[0xc2, 8, 0][..],               // ret $8
        &[0xcb],                         // lret
        &[0xcf],                         // iret
        &[0xf3, 0xc3],                   // rep ret
        &[0x66, 0xc3],                   // ret of 16 bits
        &[0xe0, 0],                      // loopne
        &[0xe3, 0],                      // jrcxz
        &[0x66, 0xe9, 0, 0],             // jmp of 16 bits
        &[0x66, 0xe8, 0, 0, 0, 0],       // call of 16 bits
        &[0x2e, 0x74, 0],                // a hint
        &[0xf2, 0xe8, 0, 0, 0, 0],       // bnd call
        &[0x65, 0x67, 0xff, 0x18],       // lcall
        &[0x65, 0x67, 0xff, 0x28],       // ljmp
        &[0xff, 0xd0],                   // call *%rax
        &[0xff, 0xe0],                   // jmp *%rax
        &[0xf3, 0x0f, 0x1e, 0xfa],       // endbr64
        &[0x62, 0xf1, 0x7c, 0x48, 0x28], // EVEX
    ] {
        one(Rule::Form, attack, &[0xe8, 0xfb, 0xff, 0xff, 0xff]);
    }
}

#[test]
fn r2_an_encoding_that_is_not_the_canonical_one_is_refused() {
    for (attack, twin) in [
        // Prefixes in another order, twice, or of no meaning.
        (&[0x67, 0x65, 0x8b, 0x00][..], LOAD),
        (&[0x65, 0x65, 0x67, 0x8b, 0x00], LOAD),
        (&[0x65, 0x67, 0x67, 0x8b, 0x00], LOAD),
        (
            &[0x66, 0x65, 0x67, 0x8b, 0x00],
            &[0x65, 0x67, 0x66, 0x8b, 0x00],
        ),
        (&[0x66, 0x66, 0x89, 0xc8], &[0x66, 0x89, 0xc8]),
        (&[0x64, 0x65, 0x67, 0x8b, 0x00], LOAD),
        (&[0xf3, 0x89, 0xc8], &[0x89, 0xc8]),
        (&[0x48, 0x66, 0x89, 0xc8], &[0x66, 0x89, 0xc8]),
        (&[0x66, 0x48, 0x89, 0xc8], &[0x48, 0x89, 0xc8]),
        (&[0x48, 0x48, 0x89, 0xc8], &[0x48, 0x89, 0xc8]),
        (&[0x40, 0x89, 0xc8], &[0x41, 0x89, 0xc8]),
        (&[0x42, 0x89, 0xc8], &[0x44, 0x89, 0xc8]),
        (&[0x40, 0x88, 0xc8], &[0x40, 0x88, 0xce]),
        // SIB where ModRM would do, and a scale of no index.
        (
            &[0x65, 0x67, 0x8b, 0x04, 0x20],
            &[0x65, 0x67, 0x8b, 0x04, 0x08],
        ),
        (
            &[0x65, 0x67, 0x41, 0x8b, 0x04, 0x64],
            &[0x65, 0x67, 0x41, 0x8b, 0x04, 0x24],
        ),
        // VEX: three bytes for two, a vvvv of no operand, W, another prefix before it.
        (&[0xc4, 0xe1, 0x7c, 0x28, 0xc1], &[0xc5, 0xfc, 0x28, 0xc1]),
        (&[0xc5, 0xf4, 0x28, 0xc1], &[0xc5, 0xfc, 0x28, 0xc1]),
        (&[0xc5, 0xfe, 0x58, 0xc1], &[0xc5, 0xfa, 0x58, 0xc1]),
        (&[0x66, 0xc5, 0xfc, 0x28, 0xc1], &[0xc5, 0xfc, 0x28, 0xc1]),
        (&[0x48, 0xc5, 0xfc, 0x28, 0xc1], &[0xc5, 0xfc, 0x28, 0xc1]),
        // A nop with a register in it.
        (&[0x0f, 0x1f, 0x01], &[0x0f, 0x1f, 0x00]),
        (&[0x0f, 0x1f, 0xc0], &[0x0f, 0x1f, 0x40, 0x00]),
    ] {
        one(Rule::Form, attack, twin);
    }
}

#[test]
fn r3_memory_without_the_window_is_refused() {
    one(Rule::Guarded, &[0x8b, 0x00], LOAD);
    one(Rule::Guarded, &[0x89, 0x08], &[0x65, 0x67, 0x89, 0x08]);
    // By %gs with an address of 64 bits, which reaches everything.
    one(Rule::Form, &[0x65, 0x8b, 0x00], LOAD);
    // Of 32 bits without %gs.
    one(Rule::Form, &[0x67, 0x8b, 0x00], LOAD);
    // By another segment.
    one(Rule::Form, &[0x64, 0x67, 0x8b, 0x00], LOAD);
    one(
        Rule::Guarded,
        &[0xc5, 0xfc, 0x10, 0x00],
        &[0x65, 0x67, 0xc5, 0xfc, 0x10, 0x00],
    );
    // No base: an address of 32 bits with its sign.
    let absolute = [0x8b, 0x04, 0x25, 0, 0, 0, 0x80];
    one(
        Rule::Guarded,
        &absolute,
        &[&[0x65, 0x67], &absolute[..]].concat(),
    );
}

#[test]
fn r3_the_window_is_for_operands_that_are_memory() {
    one(Rule::Guarded, &[0x65, 0x67, 0x89, 0xc8], &[0x89, 0xc8]);
    // An address that is computed is accessed by what comes later.
    one(Rule::Guarded, &[0x65, 0x67, 0x8d, 0x00], &[0x8d, 0x00]);
    // Nor does the module learn where it is.
    one(
        Rule::Guarded,
        &[0x48, 0x8d, 0x05, 0, 0, 0, 0],
        &[0x48, 0x8d, 0x40, 0],
    );
    // %gs would be added to where the code is.
    let own = [0x8b, 0x05, 0xfa, 0x1f, 0, 0];
    one(Rule::Guarded, &[&[0x65, 0x67], &own[..]].concat(), &own);
}

#[test]
fn r4_what_is_beside_the_code_is_the_modules_own_data_to_its_last_byte() {
    let layout = Layout::new(7, 2, 16, 16).expect("small");
    let load = |at: u32| {
        let distance = at.wrapping_sub(layout.code + 6);
        [&[0x8b, 0x05][..], &distance.to_le_bytes(), &[RET]].concat()
    };
    for (bad, good) in [
        (layout.read_only - 1, layout.read_only),
        (layout.end - 3, layout.end - 4),
        (layout.table, layout.data),
        (0, layout.data),
        (layout.code.wrapping_sub(0x2_0000), layout.data),
        (layout.end + 0x1000, layout.data),
    ] {
        twins(Rule::OwnData, 0, &load(bad), &load(good));
    }
    // 16 bytes reach farther than 4.
    let wide = |at: u32| {
        let distance = at.wrapping_sub(layout.code + 7);
        [&[0x0f, 0x28, 0x05][..], &distance.to_le_bytes(), &[RET]].concat()
    };
    twins(
        Rule::OwnData,
        0,
        &wide(layout.end - 8),
        &wide(layout.end - 16),
    );
}

#[test]
fn r5_nothing_names_rsp() {
    for (attack, twin) in [
        (&[0x48, 0x89, 0xc4][..], &[0x48, 0x89, 0xc5][..]), // mov %rax,%rsp
        (&[0x48, 0x89, 0xe0], &[0x48, 0x89, 0xe8]),         // mov %rsp,%rax
        (&[0x48, 0x83, 0xec, 8], &[0x48, 0x83, 0xed, 8]),   // sub $8,%rsp
        (&[0x66, 0x83, 0xec, 8], &[0x66, 0x83, 0xed, 8]),   // sub $8,%sp
        (&[0x40, 0x80, 0xec, 8], &[0x40, 0x80, 0xed, 8]),   // sub $8,%spl
        (&[0x48, 0x87, 0xc4], &[0x48, 0x87, 0xc5]),         // xchg %rax,%rsp
        (&[0x48, 0x0f, 0x44, 0xe0], &[0x48, 0x0f, 0x44, 0xe8]), // cmove %rax,%rsp
        (&[0x48, 0x8d, 0x60, 8], &[0x48, 0x8d, 0x68, 8]),   // lea 8(%rax),%rsp
        (&[0x48, 0x0f, 0xcc], &[0x48, 0x0f, 0xcd]),         // bswap %rsp
        (&[0xbc, 0, 0, 0, 0], &[0xbd, 0, 0, 0, 0]),         // mov $0,%esp
        (&[0x65, 0x67, 0x8b, 0x04, 0x24], LOAD),            // mov %gs:(%esp),%eax
        (&[0x48, 0x8d, 0x44, 0x24, 8], &[0x48, 0x8d, 0x45, 8]), // lea 8(%rsp),%rax
        (
            &[0xc4, 0xe2, 0x60, 0xf2, 0xe0],
            &[0xc4, 0xe2, 0x60, 0xf2, 0xe8],
        ), // andn into %esp
        (
            &[0xc4, 0xe2, 0x58, 0xf2, 0xe8],
            &[0xc4, 0xe2, 0x60, 0xf2, 0xe8],
        ), // andn of %esp
        (
            &[0xf2, 0x48, 0x0f, 0x2c, 0xe0],
            &[0xf2, 0x48, 0x0f, 0x2c, 0xe8],
        ), // cvttsd2si
        (
            &[0x66, 0x48, 0x0f, 0x7e, 0xc4],
            &[0x66, 0x48, 0x0f, 0x7e, 0xc5],
        ), // movq %xmm0,%rsp
        (&[0x66, 0x0f, 0xd7, 0xe0], &[0x66, 0x0f, 0xd7, 0xe8]), // pmovmskb %xmm0,%esp
    ] {
        one(Rule::StackPointer, attack, twin);
    }
    twins(
        Rule::StackPointer,
        1,
        &[0x50, 0x5c, RET],
        &[0x50, 0x5d, RET],
    ); // pop %rsp
    twins(
        Rule::StackPointer,
        0,
        &[0x54, 0x58, RET],
        &[0x55, 0x58, RET],
    ); // push %rsp
}
