//! What the checker's decoder says of an instruction, another project's decoder says too.

mod enumerate;

use enumerate::every_encoding;
use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction as Other, InstructionInfoFactory, OpAccess,
    OpKind, Register, RflagsBits,
};
use std::collections::BTreeSet;
use tane_checked::{decode, Flow, Instruction, Memory, Operand};

const HERE: u64 = 0x1000_0000;

/// Names that depend on sizes which ours leave open.
fn has_name(ours: &Instruction, other: &Other) -> bool {
    let name = format!("{:?}", other.mnemonic()).to_lowercase();
    let vex = format!("v{}", ours.name);
    let by_size: &[&str] = match ours.name {
        "cwde" => &["cbw", "cdqe"],
        "cdq" => &["cwd", "cqo"],
        "movd" => &["movq", "vmovq"],
        "pextrd" => &["pextrq", "vpextrq"],
        "pinsrd" => &["pinsrq", "vpinsrq"],
        _ => &[],
    };
    name == ours.name || name == vex || by_size.contains(&name.as_str())
}

/// Bits of the general and of the vector registers that operands and addresses name.
fn registers(other: &Other) -> (u16, u16) {
    let mut named: Vec<Register> = (0..other.op_count())
        .filter(|i| other.op_kind(*i) == OpKind::Register)
        .map(|i| other.op_register(i))
        .collect();
    named.extend([other.memory_base(), other.memory_index()]);
    let (mut general, mut vector) = (0, 0);
    for register in named {
        let whole = register.full_register();
        if whole.is_gpr() {
            general |= 1 << whole.number();
        } else if whole.is_vector_register() {
            vector |= 1 << whole.number();
        } else {
            let known = [Register::None, Register::RIP, Register::EIP];
            assert!(known.contains(&whole), "{register:?} is named");
        }
    }
    (general, vector)
}

fn same_memory(ours: &Instruction, other: &Other) {
    let address_only = ours.name == "lea";
    let has = (0..other.op_count()).any(|i| other.op_kind(i) == OpKind::Memory);
    for i in 0..other.op_count() {
        let kind = other.op_kind(i);
        let implicit = kind as u32 >= OpKind::MemorySegSI as u32 && kind != OpKind::Memory;
        assert!(!implicit, "memory that no operand names");
    }
    assert_eq!(has, ours.memory.is_some() || address_only);
    let Some((memory, bytes)) = ours.memory else {
        return;
    };
    if !ours.name.starts_with("prefetch") {
        assert_eq!(other.memory_size().size(), usize::from(bytes));
    }
    match memory {
        Memory::Relative(distance) => {
            let behind = HERE + ours.length as u64;
            assert_eq!(other.memory_base(), Register::RIP);
            assert_eq!(other.segment_prefix(), Register::None);
            assert_eq!(
                other.memory_displacement64(),
                behind.wrapping_add_signed(distance.into())
            );
        }
        Memory::Stack(distance) => {
            assert_eq!(other.memory_base(), Register::RSP);
            assert_eq!(other.memory_index(), Register::None);
            assert_eq!(other.segment_prefix(), Register::None);
            assert_eq!(other.memory_displacement64() as i64, i64::from(distance));
        }
        Memory::Window {
            base,
            index,
            displacement,
        } => {
            assert_eq!(other.memory_segment(), Register::GS);
            let register = |number: u8| Register::EAX + u32::from(number);
            assert_eq!(other.memory_base(), base.map_or(Register::None, register));
            assert_eq!(
                other.memory_index(),
                index.map_or(Register::None, |i| register(i.0))
            );
            if let Some((_, scale)) = index {
                assert_eq!(other.memory_index_scale(), u32::from(scale));
            }
            assert_eq!(other.memory_displacement64() as u32, displacement as u32);
            // Without registers it is this alone that says how long an address is.
            assert!(base.is_some() || index.is_some() || other.memory_displ_size() == 4);
        }
    }
}

/// What is written comes first, and registers are those that the other one has, as wide.
fn same_operands(ours: &Instruction, other: &Other) {
    // The other one has no operands for these, or has them the other way round.
    let implied = matches!(ours.name, "cwde" | "cdq" | "xchg");
    let operands = ours.operands.iter().flatten();
    for (i, operand) in operands.enumerate().filter(|_| !implied) {
        let i = i as u32;
        let (kind, register) = (other.op_kind(i), other.op_register(i));
        let number = register.full_register().number();
        match operand {
            Operand::General(known, bytes) => {
                assert!(register.is_gpr() && !high(register));
                assert_eq!(number, usize::from(*known));
                // What is inserted of a register is its lower half.
                let half = ours.name == "pinsrw" && (register.size(), *bytes) == (4, 2);
                assert!(half || register.size() == usize::from(*bytes));
            }
            Operand::High(known) => {
                assert!(high(register) && number == usize::from(*known));
            }
            Operand::Vector(known) => {
                assert!(register.is_vector_register() && number == usize::from(*known));
            }
            Operand::Memory | Operand::Address => assert_eq!(kind, OpKind::Memory),
            Operand::Immediate => assert!(!matches!(kind, OpKind::Register | OpKind::Memory)),
        }
    }
}

fn high(register: Register) -> bool {
    matches!(
        register,
        Register::AH | Register::CH | Register::DH | Register::BH
    )
}

fn same_effects(ours: &Instruction, other: &Other, infos: &mut InstructionInfoFactory) {
    let (words, flow) = match ours.flow {
        Flow::Next => (0, FlowControl::Next),
        Flow::Push => (-8, FlowControl::Next),
        Flow::Pop => (8, FlowControl::Next),
        Flow::Call => (-8, FlowControl::Call),
        Flow::CallTable => (-8, FlowControl::IndirectCall),
        Flow::Jump => (0, FlowControl::UnconditionalBranch),
        Flow::JumpTable => (0, FlowControl::IndirectBranch),
        Flow::Branch => (0, FlowControl::ConditionalBranch),
        Flow::Return => (8, FlowControl::Return),
        Flow::Trap => (0, FlowControl::Exception),
    };
    assert_eq!(other.flow_control(), flow);
    assert_eq!(other.stack_pointer_increment(), words);
    if matches!(ours.flow, Flow::Call | Flow::Jump | Flow::Branch) {
        let behind = HERE + ours.length as u64;
        assert_eq!(
            other.near_branch_target(),
            behind.wrapping_add_signed(ours.immediate)
        );
    }
    assert!(!other.is_privileged() && !other.has_lock_prefix());
    let kept = RflagsBits::DF | RflagsBits::IF | RflagsBits::AC;
    assert_eq!(other.rflags_modified() & kept, 0);
    let info = infos.info(other);
    for used in info.used_registers() {
        let register = used.register();
        assert!(!register.is_mm() && !register.is_st(), "{register:?}");
        let written = !matches!(
            used.access(),
            OpAccess::Read | OpAccess::CondRead | OpAccess::None
        );
        assert!(!(register.is_segment_register() && written));
        let is_stack = register.full_register() == Register::RSP;
        let is_stack = is_stack && !matches!(ours.memory, Some((Memory::Stack(_), _)));
        assert!(!is_stack || words != 0 || ours.general & 16 != 0, "rsp");
    }
    for used in info.used_memory() {
        let stack = words != 0 && used.base() == Register::RSP && used.segment() == Register::SS;
        assert!(stack || ours.memory.is_some(), "memory {used:?}");
    }
    let operands = info
        .used_memory()
        .iter()
        .filter(|used| used.base() != Register::RSP)
        .count();
    assert!(operands <= 2, "read and written, and nothing else");
}

#[test]
fn another_decoder_agrees_on_every_form_that_is_accepted() {
    let mut infos = InstructionInfoFactory::new();
    let (mut accepted, mut names) = (0_u64, BTreeSet::new());
    every_encoding(|bytes| {
        let Ok(ours) = decode(bytes) else {
            return;
        };
        accepted += 1;
        names.insert(ours.name);
        let mut decoder = Decoder::with_ip(64, bytes, HERE, DecoderOptions::NONE);
        let other = decoder.decode();
        let agree = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            assert!(!other.is_invalid());
            assert_eq!(other.len(), ours.length);
            assert!(has_name(&ours, &other), "{:?}", other.mnemonic());
            if ours.name == "nop" {
                // What gaps are filled with has operands that are not used.
                let info = infos.info(&other);
                assert!(info.used_memory().is_empty() && info.used_registers().is_empty());
                return;
            }
            let (general, vector) = registers(&other);
            // The accumulator of these is no operand for them.
            let implied = u16::from(matches!(ours.name, "cwde" | "cdq"));
            // Typed modules' words: by an address that the checker knows and no operand names.
            let by_rsp = matches!(ours.memory, Some((Memory::Stack(_), _)));
            let ours_named = ours.general | if by_rsp { 1 << 4 } else { 0 };
            assert_eq!(general | implied, ours_named);
            same_operands(&ours, &other);
            assert_eq!(vector, ours.vector);
            same_memory(&ours, &other);
            same_effects(&ours, &other, &mut infos);
        }));
        assert!(agree.is_ok(), "{bytes:02x?}\n{ours:?}\n{other:?}");
    });
    assert!(
        accepted > 1_000_000,
        "{accepted} are too few to say anything"
    );
    let all: BTreeSet<&str> = tane_checked::forms().map(|form| form.name).collect();
    let missed: Vec<_> = all.difference(&names).collect();
    assert!(missed.is_empty(), "never met: {missed:?}");
}
