//! The routines that the code of a typed module begins with, byte for byte. They do what
//! types cannot follow: they take memory, and turn arrays into addresses for imports. The
//! other rules hold for them as for all code.
//!
//! A descriptor is held as its number and 1, since memory that was not written holds 0.
//!
//! The module's zeroes are the heap: a word, which says where its free part begins, and
//! memory that is zero from there on.

use super::{Kind, Signature, Type, ARGUMENTS};
use crate::layout::Layout;

/// What one of the routines does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Routine {
    /// Everything is free again, and zero.
    Reset,
    /// rax: bytes, a constant. Gives them, zero.
    New,
    /// rax: how many. Gives an array of words.
    NewWords,
    /// The same, of bytes.
    NewBytes,
    /// The import of this number.
    Import(usize),
}

/// The code, and where in it each routine begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Runtime {
    pub code: Vec<u8>,
    pub routines: Vec<(u32, Routine)>,
}

impl Runtime {
    /// The routine that begins there.
    pub(super) fn routine(&self, at: u32) -> Option<Routine> {
        let found = self.routines.binary_search_by_key(&at, |(at, _)| *at);
        found.ok().map(|i| self.routines[i].1)
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.code.extend(bytes);
    }

    fn number(&mut self, bytes: &[u8], number: u32) {
        self.bytes(bytes);
        self.bytes(&number.to_le_bytes());
    }

    /// The code begins with what ends the module.
    fn fault(&mut self, jump: u8) {
        let back = -(self.code.len() as i32 + 6);
        self.number(&[0x0f, jump], back as u32);
    }

    fn begin(&mut self, routine: Routine) {
        self.routines.push((self.code.len() as u32, routine));
    }

    /// Two registers of 8 bytes: `op r/m64, r64`.
    fn pair(&mut self, opcode: u8, rm: u8, reg: u8) {
        let rex = 0x48 | (reg >> 3) << 2 | rm >> 3;
        self.bytes(&[rex, opcode, 0xc0 | (reg & 7) << 3 | rm & 7]);
    }

    /// An import: offsets and lengths within their arrays, then the arguments as it takes them.
    fn import(&mut self, slot: u32, signature: &Signature) {
        let mut next = 0;
        let mut from = Vec::new();
        for kind in signature.kinds {
            let here = ARGUMENTS.get(next..).unwrap_or_default();
            match (kind, here) {
                (Kind::Root, _) => from.push(None),
                (Kind::Int | Kind::Descriptor, &[one, ..]) => {
                    if *kind == Kind::Descriptor {
                        // sub $1,one
                        self.bytes(&[0x48 | one >> 3, 0x83, 0xe8 | one & 7, 1]);
                    }
                    from.push(Some(one));
                    next += 1;
                }
                (_, &[array, offset, length, ..]) => {
                    self.range(array, offset, length);
                    from.push(Some(array));
                    match kind {
                        Kind::Path => self.ends_in_zero(array, length),
                        _ => from.push(Some(length)),
                    }
                    next += 3;
                }
                _ => {}
            }
        }
        for (to, from) in ARGUMENTS.iter().zip(&from) {
            if let Some(from) = from.filter(|from| from != to) {
                self.pair(0x89, *to, from);
            }
        }
        if signature.kinds.contains(&Kind::Root) {
            // mov $AT_FDCWD,%rdi
            self.number(&[0x48, 0xc7, 0xc7], -100_i32 as u32);
        }
        if signature.result == Type::Descriptor {
            // call *%gs:slot; add $1,%rax; ret
            self.number(&[0x65, 0x67, 0xff, 0x14, 0x25], slot);
            self.bytes(&[0x48, 0x83, 0xc0, 1, 0xc3]);
            return;
        }
        // jmp *%gs:slot
        self.number(&[0x65, 0x67, 0xff, 0x24, 0x25], slot);
    }

    /// The array becomes the address of what begins at the offset, if all of it is there.
    fn range(&mut self, array: u8, offset: u8, length: u8) {
        // mov %gs:8(array),%rax
        self.bytes(&[0x65, 0x67, 0x48 | array >> 3, 0x8b, 0x40 | array & 7, 8]);
        self.pair(0x29, 0, offset);
        self.fault(0x82);
        self.pair(0x39, 0, length);
        self.fault(0x82);
        // lea 16(array,offset),array
        let rex = 0x48 | (array >> 3) << 2 | (offset >> 3) << 1 | array >> 3;
        let (modrm, sib) = (0x44 | (array & 7) << 3, (offset & 7) << 3 | array & 7);
        self.bytes(&[rex, 0x8d, modrm, sib, 16]);
    }

    fn ends_in_zero(&mut self, address: u8, length: u8) {
        self.pair(0x85, length, length);
        self.fault(0x84);
        // cmpb $0,%gs:-1(address,length)
        let rex = 0x40 | (length >> 3) << 1 | address >> 3;
        self.bytes(&[0x65, 0x67]);
        if rex != 0x40 {
            self.bytes(&[rex]);
        }
        let sib = (length & 7) << 3 | address & 7;
        self.bytes(&[0x80, 0x7c, sib, 0xff, 0]);
        self.fault(0x85);
    }
}

/// The routines of a module with these imports; its table has them from slot 1 on.
pub fn runtime(layout: &Layout, zeroes: u32, imports: &[Signature]) -> Runtime {
    let (next, start) = (layout.data, layout.data + 8);
    let end = layout.data + zeroes;
    let mut it = Runtime::default();
    // mov %gs:0,%eax; ud2
    it.number(&[0x65, 0x67, 0x8b, 0x04, 0x25], 0);
    it.bytes(&[0x0f, 0x0b]);
    it.begin(Routine::Reset);
    it.number(&[0x65, 0x67, 0x8b, 0x04, 0x25], next); // mov %gs:next,%eax
    it.number(&[0x3d], start); // cmp $start,%eax
    it.bytes(&[0x76, 14]); // jbe to the movl
    it.bytes(&[0x83, 0xe8, 8]); // sub $8,%eax
    it.number(&[0x65, 0x67, 0x48, 0xc7, 0x00], 0); // movq $0,%gs:(%eax)
    it.bytes(&[0xeb, 0xeb]); // jmp to the cmp
    it.number(&[0x65, 0x67, 0xc7, 0x04, 0x25], next); // movl $start,%gs:next
    it.number(&[], start);
    it.bytes(&[0xc3]);
    it.begin(Routine::New);
    it.number(&[0x65, 0x67, 0x8b, 0x0c, 0x25], next); // mov %gs:next,%ecx
    it.bytes(&[0x01, 0xc8]); // add %ecx,%eax
    it.number(&[0x3d], end); // cmp $end,%eax
    it.fault(0x87); // ja
    it.number(&[0x65, 0x67, 0x89, 0x04, 0x25], next); // mov %eax,%gs:next
    it.bytes(&[0x89, 0xc8, 0xc3]); // mov %ecx,%eax; ret
    for (routine, most, behind) in [
        // lea 16(%rcx,%rax,8),%rdx
        (
            Routine::NewWords,
            1 << 27,
            &[0x48, 0x8d, 0x54, 0xc1, 16][..],
        ),
        // lea 23(%rcx,%rax),%rdx; and $-8,%rdx
        (
            Routine::NewBytes,
            1 << 30,
            &[0x48, 0x8d, 0x54, 0x01, 23, 0x48, 0x83, 0xe2, 0xf8],
        ),
    ] {
        it.begin(routine);
        it.number(&[0x48, 0x3d], most); // cmp $most,%rax
        it.fault(0x87);
        it.number(&[0x65, 0x67, 0x8b, 0x0c, 0x25], next); // mov %gs:next,%ecx
        it.bytes(behind);
        it.number(&[0x48, 0x81, 0xfa], end); // cmp $end,%rdx
        it.fault(0x87);
        it.number(&[0x65, 0x67, 0x89, 0x14, 0x25], next); // mov %edx,%gs:next
        it.bytes(&[0x65, 0x67, 0x48, 0x89, 0x41, 8]); // mov %rax,%gs:8(%ecx)
        it.bytes(&[0x89, 0xc8, 0xc3]);
    }
    for (i, signature) in imports.iter().enumerate() {
        it.begin(Routine::Import(i));
        it.import(layout.table + 8 * (i as u32 + 1), signature);
    }
    it
}
