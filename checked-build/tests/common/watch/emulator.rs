//! Runs modules in an emulator, and has a witness see all that they do.

use super::unicorn::{self, Engine};
use super::witness::Witness;
use std::ffi::{c_int, c_void};
use tane_checked::{Layout, Module, Refusal, Why, EMPTY, IMPORT, PAGE};

pub const WINDOW: u64 = 1 << 40;
const READ_EXECUTE: u32 = unicorn::READ | unicorn::EXECUTE;
const READ_WRITE: u32 = unicorn::READ | unicorn::WRITE;
pub const GIB4: u64 = 1 << 32;
/// Inaccessible, above the window: what begins in it may end there.
pub const ABOVE: u64 = 1 << 16;
/// The stack of return addresses.
const RETURNS: u64 = 2 << 40;
const RETURNS_SIZE: usize = 1 << 16;
/// What is outside: its first byte is where the module returns to, then come imports.
pub const OUTSIDE: u64 = 3 << 40;
const IMPORT_SIZE: usize = 16;
/// The exception of a division.
const DIVIDE: u32 = 0;
/// xor %eax,%eax; ret
const IMPORT_CODE: [u8; 3] = [0x31, 0xc0, 0xc3];

/// A test has no emulator.
#[track_caller]
pub fn skip_without() {
    tane_test_support::skip_without("libunicorn2", "libunicorn.so.2");
}

/// How a module ended that did nothing but what was said of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    Returned,
    Trapped,
    OutOfTime,
    /// The emulator does not know an instruction.
    Unknown,
}

/// An emulator for modules that have the layout of one.
pub struct Watched {
    engine: Engine,
    layout: Layout,
    heap: u64,
    code: Vec<u8>,
    table: Vec<u8>,
    read_only: Vec<u8>,
    /// Data and heap, from the layout's first byte of data on.
    pub data: Vec<u8>,
    returns: Vec<u8>,
    outside: Vec<u8>,
    witness: Witness,
    instructions: u64,
    most: u64,
    /// Of all runs before this one.
    before: u64,
    /// The exception that it ended by.
    exception: Option<u32>,
    /// The first thing that was not as it was said.
    escape: Option<String>,
}

fn pages(bytes: usize) -> usize {
    bytes.next_multiple_of(PAGE as usize)
}

impl Watched {
    /// An emulator for what has this module's layout, with so many bytes of heap and stack,
    /// that ends what runs for more instructions than this. None without the library.
    pub fn new(module: &Module<'_>, heap: u32, most: u64) -> Option<Box<Watched>> {
        let layout = module.layout;
        let data = layout.end - layout.data + heap;
        let mut it = Box::new(Watched {
            engine: Engine::new()?,
            layout,
            heap: u64::from(layout.data + data),
            code: vec![0; pages(module.code.len())],
            table: vec![0; pages(layout.slots as usize * 8)],
            read_only: vec![0; pages(module.read_only.len())],
            data: vec![0; data as usize],
            returns: vec![0; RETURNS_SIZE],
            outside: vec![0xf4; pages((module.imports.len() + 1) * IMPORT_SIZE)],
            witness: Witness::new(module),
            instructions: 0,
            most,
            before: 0,
            exception: None,
            escape: None,
        });
        for import in it.outside.chunks_exact_mut(IMPORT_SIZE).skip(1) {
            import[..IMPORT_CODE.len()].copy_from_slice(&IMPORT_CODE);
        }
        let watched = &raw mut *it;
        let here = |at: u32| WINDOW + u64::from(at);
        let it_has = &mut *it;
        let parts = [
            (here(layout.code), &mut it_has.code, READ_EXECUTE),
            (here(layout.table), &mut it_has.table, unicorn::READ),
            (here(layout.read_only), &mut it_has.read_only, unicorn::READ),
            (here(layout.data), &mut it_has.data, READ_WRITE),
            (RETURNS, &mut it_has.returns, READ_WRITE),
            (OUTSIDE, &mut it_has.outside, READ_EXECUTE),
        ];
        let engine = &it_has.engine;
        // SAFETY: the box keeps its vectors, which nobody makes longer, and is given to hooks
        // that have the types which the library asks for.
        unsafe {
            for (at, memory, how) in parts {
                if !memory.is_empty() {
                    engine.map(at, memory, how);
                }
            }
            let data = watched.cast::<c_void>();
            engine.hook(unicorn::CODE, instruction as *const c_void, data);
            engine.hook(unicorn::EXCEPTION, exception as *const c_void, data);
            engine.hook(unicorn::ACCESS, access as *const c_void, data);
            engine.hook(unicorn::FAILURE, failure as *const c_void, data);
        }
        Some(it)
    }

    /// Takes what the checker says of a module: the next runs are held against it.
    pub fn believe(&mut self, module: &Module<'_>) -> Result<(), Refusal> {
        self.witness.believe(module)
    }

    /// Runs an export, of what was believed or of another module with its layout; what was
    /// not as it was said.
    pub fn run(
        &mut self,
        module: &Module<'_>,
        at: u32,
        arguments: [u64; 2],
    ) -> Result<End, String> {
        assert_eq!(module.layout, self.layout, "another layout");
        self.load(module);
        let top = RETURNS + RETURNS_SIZE as u64 - 8;
        self.engine.reset();
        self.engine.set(unicorn::GS_BASE, WINDOW);
        let [first, second] = arguments;
        let set = [
            (7, first),
            (6, second),
            (4, top),
            (15, self.heap),
            (11, self.code(at)),
        ];
        for (register, value) in set {
            self.engine.set(unicorn::GENERAL[register], value);
        }
        self.returns.fill(0);
        self.returns[RETURNS_SIZE - 8..].copy_from_slice(&OUTSIDE.to_le_bytes());
        self.witness.begins(top);
        self.before += self.instructions;
        (self.exception, self.escape, self.instructions) = (None, None, 0);
        let error = self.engine.run(self.code(at), OUTSIDE);
        let end = self.ended(error);
        match self.escape.take() {
            None => end,
            Some(what) => Err(what),
        }
    }

    /// The module's parts as a loader has them. What is translated of code stays so, but for
    /// what differs from that of the last run.
    fn load(&mut self, module: &Module<'_>) {
        let code = self.code(0);
        let mut at = 0;
        while at < module.code.len() {
            let differs = |at: usize| self.code[at] != module.code[at];
            let behind = (at..module.code.len()).find(|at| !differs(*at));
            let behind = behind.unwrap_or(module.code.len());
            if behind > at {
                self.engine
                    .write_code(code + at as u64, &module.code[at..behind]);
            }
            at = behind + 1;
        }
        for (slot, to) in self.table.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            *to = match module.table.get(slot).copied().unwrap_or(EMPTY) {
                EMPTY => WINDOW,
                import if import & IMPORT != 0 => {
                    OUTSIDE + IMPORT_SIZE as u64 * (1 + u64::from(import & !IMPORT))
                }
                function => code + u64::from(function),
            }
            .to_le_bytes();
        }
        self.read_only[..module.read_only.len()].copy_from_slice(module.read_only);
        self.data.fill(0);
        self.data[..module.data.len()].copy_from_slice(module.data);
    }

    /// How many instructions have run in it.
    pub fn instructions(&self) -> u64 {
        self.before + self.instructions
    }

    /// The address of code.
    fn code(&self, at: u32) -> u64 {
        WINDOW + u64::from(self.layout.code + at)
    }

    fn escaped(&mut self, what: String) {
        let at = self.engine.get(unicorn::RIP).wrapping_sub(self.code(0));
        self.escape
            .get_or_insert(format!("at code+{at:#x}: {what}"));
        self.engine.stop();
    }

    fn ended(&mut self, error: c_int) -> Result<End, String> {
        let at = self.engine.get(unicorn::RIP);
        let claim = self.witness.claim(at);
        match (error, claim) {
            _ if self.exception.is_some() => match claim {
                Some(claim) if claim.divides && self.exception == Some(DIVIDE) => Ok(End::Trapped),
                _ => Err(format!("exception {:?} at {at:#x}", self.exception)),
            },
            (0, _) if self.instructions > self.most => Ok(End::OutOfTime),
            (0, _) if at == OUTSIDE => {
                let rsp = self.engine.get(unicorn::RSP);
                self.witness.ends(rsp, at).map(|()| End::Returned)
            }
            (unicorn::INVALID, Some(claim)) if claim.why == Why::Trap => Ok(End::Trapped),
            (unicorn::INVALID, Some(_)) => Ok(End::Unknown),
            (error, _) if unicorn::FAILURES.contains(&error) => Ok(End::Trapped),
            _ => Err(format!("error {error} at {at:#x}")),
        }
    }

    fn arrived(&mut self, at: u64, length: u32) {
        self.instructions += 1;
        if self.instructions > self.most {
            return self.engine.stop();
        }
        let rsp = self.engine.get(unicorn::RSP);
        let length = (length != unicorn::NO_LENGTH).then_some(length);
        let right = self.witness.arrives(at, length, rsp);
        right.unwrap_or_else(|what| self.escaped(what));
    }

    fn accessed(&mut self, write: bool, at: u64, bytes: u64, value: u64) {
        let right = self.witness.accesses(at, bytes, write.then_some(value));
        right.unwrap_or_else(|what| self.escaped(what));
    }

    /// What could not be accessed is accessed all the same, to a witness.
    fn failed(&mut self, kind: c_int, at: u64, bytes: u64, value: u64) {
        match kind {
            // Empty slots of the table name the window's first byte.
            unicorn::FETCH_UNMAPPED | unicorn::FETCH_PROTECTED if at != WINDOW => {
                self.escaped(format!("a jump to {at:#x}"));
            }
            unicorn::FETCH_UNMAPPED | unicorn::FETCH_PROTECTED => {}
            _ => {
                let write = [unicorn::WRITE_UNMAPPED, unicorn::WRITE_PROTECTED].contains(&kind);
                self.accessed(write, at, bytes, value);
            }
        }
    }
}

unsafe extern "C" fn instruction(_: *mut c_void, at: u64, length: u32, it: *mut c_void) {
    // SAFETY: what `Watched::new` gave, whose run calls this and holds no reference meanwhile.
    unsafe { (*it.cast::<Watched>()).arrived(at, length) }
}

unsafe extern "C" fn exception(_: *mut c_void, number: u32, it: *mut c_void) {
    // SAFETY: as above.
    let it = unsafe { &mut *it.cast::<Watched>() };
    it.exception = Some(number);
    it.engine.stop();
}

unsafe extern "C" fn access(
    _: *mut c_void,
    kind: c_int,
    at: u64,
    bytes: c_int,
    value: i64,
    it: *mut c_void,
) {
    // SAFETY: as above.
    let it = unsafe { &mut *it.cast::<Watched>() };
    it.accessed(kind == unicorn::IS_WRITE, at, bytes as u64, value as u64);
}

unsafe extern "C" fn failure(
    _: *mut c_void,
    kind: c_int,
    at: u64,
    bytes: c_int,
    value: i64,
    it: *mut c_void,
) -> bool {
    // SAFETY: as above.
    let it = unsafe { &mut *it.cast::<Watched>() };
    it.failed(kind, at, bytes as u64, value as u64);
    false
}
