//! How a form of an instruction is written down: a line of the tables.
//!
//! Operands have the names of the Intel SDM, volume 2, appendix A.2: the first letter
//! says which bits name the operand, the rest how large it is. A line of a table can
//! so be held beside the manual's opcode map.

/// Which bits name an operand: the first letter of its name in the manual.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// al, ax, eax or rax; named by no bit, as cl and the 1 of a shift are.
    A,
    Cl,
    One,
    /// VEX.vvvv, a general register.
    B,
    /// ModRM.rm, a general register or memory.
    E,
    /// ModRM.reg, a general register.
    G,
    /// VEX.vvvv, a vector register; without VEX the same as the first operand.
    H,
    I,
    /// A relative target.
    J,
    /// The high half of an immediate byte, a vector register.
    L,
    /// ModRM.rm, memory and never a register.
    M,
    /// The same, an address that is computed and not used.
    Address,
    /// ModRM.rm, a general register and never memory.
    R,
    /// ModRM.rm, a vector register and never memory.
    U,
    /// ModRM.reg, a vector register.
    V,
    /// ModRM.rm, a vector register or memory.
    W,
    /// The low bits of the opcode, a general register.
    Z,
}

/// How large an operand is: the rest of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// It is not accessed.
    None,
    B,
    W,
    D,
    Q,
    Dq,
    Qq,
    /// A register of 4 bytes, or memory of 1.
    Db,
    /// The operand size; that, but at most 4 bytes; 4 or 8 bytes, by W.
    V,
    Z,
    Y,
    /// The vector length, a half, a quarter, an eighth of it.
    X,
    X2,
    X4,
    X8,
}

/// One operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Op {
    pub place: Place,
    pub size: Size,
}

macro_rules! operands {
    ($($name:ident: $place:ident $size:ident,)*) => {
        $(pub const $name: Op = Op { place: Place::$place, size: Size::$size };)*
    };
}

/// The operands that there are, by their names in the manual. `M` is an address that is
/// computed and not used; `Mb` is asked for ahead, so that it cannot fault.
#[allow(non_upper_case_globals)]
pub(crate) mod operands {
    use super::{Op, Place, Size};
    operands! {
        Ab: A B, Av: A V, Cl: Cl B, One: One None,
        Eb: E B, Edb: E Db, Ew: E W, Ed: E D, Ev: E V, Ey: E Y,
        Gb: G B, Gd: G D, Gv: G V, Gy: G Y, By: B Y, Rv: R V,
        Zb: Z B, Zv: Z V, Zy: Z Y, Zq: Z Q,
        Ib: I B, Iz: I Z, Iv: I V, Jb: J B, Jz: J Z,
        M: Address None, Mb: M None, Mw: M W, Md: M D, Mq: M Q, Mdq: M Dq, Mx: M X,
        Vx: V X, Vdq: V Dq, Vqq: V Qq, Hx: H X, Hdq: H Dq, Hqq: H Qq, Ux: U X, Udq: U Dq,
        Wx: W X, Wx2: W X2, Wx4: W X4, Wx8: W X8,
        Wb: W B, Ww: W W, Wd: W D, Wq: W Q, Wdq: W Dq, Wqq: W Qq, Lx: L B,
    }
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
    /// By number, a bit: an operand has this place, or this size.
    places: u32,
    sizes: u32,
}

impl Form {
    /// A form without prefix and VEX.
    pub(crate) const fn new(
        name: &'static str,
        map: Map,
        opcode: u8,
        operands: &'static [Op],
    ) -> Form {
        let (mut places, mut sizes, mut i) = (0, 0, 0);
        while i < operands.len() {
            places |= 1 << operands[i].place as u32;
            sizes |= 1 << operands[i].size as u32;
            i += 1;
        }
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
            places,
            sizes,
        }
    }

    pub(crate) const fn encoded(mut self, encoding: Encoding, prefix: Prefix) -> Form {
        self.encoding = encoding;
        self.prefix = prefix;
        self
    }

    /// One of a group: `opcode /extension`.
    pub(crate) const fn extension(mut self, extension: u8) -> Form {
        self.extension = Some(extension);
        self
    }

    pub(crate) const fn flow(mut self, flow: Flow) -> Form {
        self.flow = flow;
        self
    }

    pub(crate) const fn wide(mut self) -> Form {
        self.wide = true;
        self
    }

    pub(crate) fn has(&self, places: &[Place]) -> bool {
        places
            .iter()
            .any(|place| self.places & 1 << *place as u32 != 0)
    }

    pub(crate) fn sized(&self, sizes: &[Size]) -> bool {
        sizes.iter().any(|size| self.sizes & 1 << *size as u32 != 0)
    }

    /// Whether 66 is a size here, and no part of the opcode.
    pub(crate) fn has_operand_size(&self) -> bool {
        self.sized(&[Size::V, Size::Z]) && self.flow == Flow::Next
    }

    pub(crate) fn has_modrm(&self) -> bool {
        use Place::*;
        self.extension.is_some() || self.has(&[Address, B, E, G, H, L, M, R, U, V, W])
    }

    /// Whether ModRM can be this one, and W set or not.
    pub(crate) fn fits(&self, modrm: u8, w: bool) -> bool {
        let extension = self.extension.is_none_or(|it| modrm >> 3 & 7 == it);
        let never = match modrm >= 0xc0 {
            true => [Place::M, Place::Address],
            false => [Place::R, Place::U],
        };
        // Elsewhere W chooses between 4 and 8 bytes.
        let width = self.wide == w || (w && self.sized(&[Size::V, Size::Y]));
        extension && width && !self.has(&never)
    }
}
