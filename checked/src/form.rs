//! How a form of an instruction is written down: a line of the tables.
//!
//! Operands have the names of the Intel SDM, volume 2, appendix A.2: the first letter
//! says which bits name the operand, the rest how large it is. A line of a table can
//! so be held beside the manual's opcode map.

/// One operand. `E`, `G`, `R`, `Z`, `B`: general registers; `V`, `H`, `U`, `W`, `L`:
/// vector registers; `M`: memory alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// ModRM.rm, a general register or memory: of 1, 2, 4 bytes, the operand size, 4 or 8.
    Eb,
    /// A register of 4 bytes, or memory of 1.
    Edb,
    Ew,
    Ed,
    Ev,
    Ey,
    /// ModRM.reg, a general register.
    Gb,
    Gd,
    Gv,
    Gy,
    /// ModRM.rm, a general register and never memory.
    Rv,
    Ry,
    /// The low bits of the opcode; `Zq` is of 8 bytes without any prefix.
    Zb,
    Zv,
    Zy,
    Zq,
    /// VEX.vvvv, a general register.
    By,
    /// al, ax, eax or rax, by the operand size; named by no bit.
    Ab,
    Av,
    /// cl, and the 1 of a shift; named by no bit.
    Cl,
    One,
    /// Immediates: a byte, the operand size but at most 4 bytes, the operand size.
    Ib,
    Iz,
    Iv,
    /// Relative targets.
    Jb,
    Jz,
    /// An address that is computed and not used.
    M,
    /// Memory that is asked for ahead: its address cannot fault.
    Mb,
    Mw,
    Md,
    Mq,
    Mdq,
    Mqq,
    Mx,
    /// ModRM.reg, a vector register: of the vector length, 16 or 32 bytes.
    Vx,
    Vdq,
    Vqq,
    /// VEX.vvvv, a vector register; without VEX the same as the first operand.
    Hx,
    Hdq,
    Hqq,
    /// ModRM.rm, a vector register and never memory.
    Ux,
    Udq,
    /// ModRM.rm, a vector register or memory of: the vector length, a half, a quarter,
    /// an eighth of it; 1, 2, 4, 8, 16, 32 bytes.
    Wx,
    Wx2,
    Wx4,
    Wx8,
    Wb,
    Ww,
    Wd,
    Wq,
    Wdq,
    Wqq,
    /// The high half of an immediate byte, a vector register.
    Lx,
}

/// The prefix that is a part of the opcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prefix {
    None = 0,
    P66 = 1,
    PF3 = 2,
    PF2 = 3,
}

/// The opcode map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Map {
    Byte = 0,
    M0F = 1,
    M0F38 = 2,
    M0F3A = 3,
}

/// Without VEX, with it, or both alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    Legacy,
    Vex,
    Both,
}

/// What an instruction does to control and to the return stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    Next,
    Push,
    Pop,
    Call,
    Jump,
    Branch,
    CallTable,
    JumpTable,
    Return,
    Trap,
}

/// A line of a table.
#[derive(Debug)]
pub struct Form {
    pub name: &'static str,
    pub encoding: Encoding,
    pub map: Map,
    pub prefix: Prefix,
    pub opcode: u8,
    /// What ModRM.reg has to be where it is a part of the opcode.
    pub extension: Option<u8>,
    /// REX.W or VEX.W has to be set. Elsewhere the operands say whether it may be.
    pub wide: bool,
    pub operands: &'static [Op],
    pub flow: Flow,
}

impl Form {
    const fn new(name: &'static str, map: Map, opcode: u8, operands: &'static [Op]) -> Form {
        Form {
            name,
            encoding: Encoding::Legacy,
            map,
            prefix: Prefix::None,
            opcode,
            extension: None,
            wide: false,
            operands,
            flow: Flow::Next,
        }
    }

    pub(crate) const fn flow(mut self, flow: Flow) -> Form {
        self.flow = flow;
        self
    }

    pub(crate) const fn wide(mut self) -> Form {
        self.wide = true;
        self
    }

    pub(crate) fn has(&self, any: &[Op]) -> bool {
        self.operands.iter().any(|op| any.contains(op))
    }

    /// Whether 66 is a size here, and no part of the opcode.
    pub(crate) fn has_operand_size(&self) -> bool {
        use Op::*;
        self.has(&[Ev, Gv, Rv, Zv, Av, Iz]) && self.flow == Flow::Next
    }

    /// Whether W chooses between 4 and 8 bytes.
    pub(crate) fn has_wide(&self) -> bool {
        use Op::*;
        self.has(&[Ev, Gv, Rv, Zv, Av, Ey, Gy, Ry, Zy, By])
    }

    pub(crate) fn has_modrm(&self) -> bool {
        use Op::*;
        self.extension.is_some()
            || self.operands.iter().any(|op| {
                !matches!(
                    op,
                    Zb | Zv | Zy | Zq | Ab | Av | Cl | One | Ib | Iz | Iv | Jb | Jz
                )
            })
    }
}

/// A form of one opcode byte.
pub(crate) const fn byte(opcode: u8, name: &'static str, operands: &'static [Op]) -> Form {
    Form::new(name, Map::Byte, opcode, operands)
}

/// One with 0F before it.
pub(crate) const fn two(opcode: u8, name: &'static str, operands: &'static [Op]) -> Form {
    Form::new(name, Map::M0F, opcode, operands)
}

/// A form of a group: `opcode /extension`.
pub(crate) const fn group(
    map: Map,
    opcode: u8,
    extension: u8,
    name: &'static str,
    operands: &'static [Op],
) -> Form {
    let mut form = Form::new(name, map, opcode, operands);
    form.extension = Some(extension);
    form
}

/// A form with all that an opcode can have.
pub(crate) const fn form(
    encoding: Encoding,
    map: Map,
    prefix: Prefix,
    opcode: u8,
    name: &'static str,
    operands: &'static [Op],
) -> Form {
    let mut form = Form::new(name, map, opcode, operands);
    form.encoding = encoding;
    form.prefix = prefix;
    form
}

/// A vector form of a group.
pub(crate) const fn vector_group(
    opcode: u8,
    extension: u8,
    name: &'static str,
    operands: &'static [Op],
) -> Form {
    let mut it = form(
        Encoding::Both,
        Map::M0F,
        Prefix::P66,
        opcode,
        name,
        operands,
    );
    it.extension = Some(extension);
    it
}
