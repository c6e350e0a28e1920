//! Linux's system calls as imports of a module: which there are, and the code that brings
//! one of them to the kernel's gate.
//!
//! A module names memory by offsets in its window. The code here turns each argument that
//! is a pointer into the address of its lowest 32 bits there, whatever the module put into
//! the others; and the kernel refuses what does not end in the window, too (asm/uaccess.h).

use tane_host::Program;

/// A call that modules may make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// As Linux's man pages have it.
    pub name: &'static str,
    nr: i64,
    /// Arguments that are pointers, by bits from the first.
    pointers: u8,
    /// Those of them that may be null.
    nullable: u8,
}

macro_rules! calls {
    ($($name:ident $nr:ident($($kind:ident),*);)*) => {
        &[$(Call {
            name: stringify!($name),
            nr: libc::$nr,
            pointers: bits(&[$(kind!($kind)),*], 1),
            nullable: bits(&[$(kind!($kind)),*], 2),
        }),*]
    };
}

macro_rules! kind {
    (word) => {
        0
    };
    (pointer) => {
        1
    };
    (nullable) => {
        3
    };
}

const fn bits(kinds: &[u8], which: u8) -> u8 {
    let (mut mask, mut i) = (0, 0);
    while i < kinds.len() {
        mask |= ((kinds[i] & which != 0) as u8) << i;
        i += 1;
    }
    mask
}

/// Calls on what is open. What every one of these and of the following does with memory it
/// does while it runs, by its own arguments, and through access_ok(); none has a pointer in a
/// structure, maps, pins or remembers memory, makes a task, or has the kernel call somebody.
/// The one signal, of a connection that nobody reads, is without effect (kernel/calls.c).
const OPEN: &[Call] = calls! {
    read SYS_read(word, pointer, word);
    write SYS_write(word, pointer, word);
    close SYS_close(word);
};

/// Calls on files.
const FILES: &[Call] = calls! {
    pread SYS_pread64(word, pointer, word, word);
    pwrite SYS_pwrite64(word, pointer, word, word);
    openat SYS_openat(word, pointer, word, word);
    lseek SYS_lseek(word, word, word);
    fstat SYS_fstat(word, pointer);
    fstatat SYS_newfstatat(word, pointer, pointer, word);
    getdents64 SYS_getdents64(word, pointer, word);
    readlinkat SYS_readlinkat(word, pointer, pointer, word);
    faccessat SYS_faccessat(word, pointer, word);
    mkdirat SYS_mkdirat(word, pointer, word);
    unlinkat SYS_unlinkat(word, pointer, word);
    renameat SYS_renameat(word, pointer, word, pointer);
    linkat SYS_linkat(word, pointer, word, pointer, word);
    symlinkat SYS_symlinkat(pointer, word, pointer);
    fchmod SYS_fchmod(word, word);
    ftruncate SYS_ftruncate(word, word);
    fallocate SYS_fallocate(word, word, word, word);
    fsync SYS_fsync(word);
    fdatasync SYS_fdatasync(word);
};

/// Calls on sockets that are there: which there can be, and what can be set of them, is a
/// matter of `sockets.rs`.
const SOCKETS: &[Call] = calls! {
    bind SYS_bind(word, pointer, word);
    listen SYS_listen(word, word);
    accept4 SYS_accept4(word, nullable, nullable, word);
    connect SYS_connect(word, pointer, word);
    shutdown SYS_shutdown(word, word);
    sendto SYS_sendto(word, pointer, word, word, nullable, word);
    recvfrom SYS_recvfrom(word, pointer, word, word, nullable, nullable);
    getsockname SYS_getsockname(word, pointer, pointer);
    getpeername SYS_getpeername(word, pointer, pointer);
    poll SYS_poll(pointer, word, word);
};

/// Calls that touch no file.
const ALWAYS: &[Call] = calls! {
    getppid SYS_getppid();
    clock_gettime SYS_clock_gettime(word, pointer);
    getrandom SYS_getrandom(pointer, word, word);
    sched_yield SYS_sched_yield();
};

const _: () = assert!(
    ALWAYS.len() + OPEN.len() + FILES.len() + SOCKETS.len() + crate::sockets::CHECKED.len() <= 64,
    "bits of Calls"
);

/// Which of the calls a module may import: none by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calls(u64);

impl Calls {
    /// All that there are.
    pub fn all() -> Calls {
        Calls::default().and(|_| true)
    }

    /// Those on files, and those that touch none.
    pub fn files() -> Calls {
        Calls::without_files().and_files()
    }

    /// These and those on files.
    pub fn and_files(self) -> Calls {
        self.and(|call| OPEN.contains(call) || FILES.contains(call))
    }

    /// These and those on sockets.
    pub fn and_sockets(self) -> Calls {
        let checked = crate::sockets::CHECKED;
        self.and(|call| OPEN.contains(call) || SOCKETS.contains(call) || checked.contains(call))
    }

    /// Those that touch no file.
    pub fn without_files() -> Calls {
        Calls::default().and(|call| ALWAYS.contains(call))
    }

    /// These and the one with this name; none if there is none.
    pub fn and_named(self, name: &str) -> Option<Calls> {
        let one = Calls::default().and(|call| call.name == name);
        (one.0 != 0).then_some(Calls(self.0 | one.0))
    }

    fn and(self, wanted: impl Fn(&Call) -> bool) -> Calls {
        let wanted = every().enumerate().filter(|(_, call)| wanted(call));
        Calls(wanted.fold(self.0, |bits, (i, _)| bits | 1 << i))
    }

    /// The call that has to be one of them for an import of this name; none if no call is.
    pub fn needed(name: &str) -> Option<&'static str> {
        match crate::views::import(name) {
            Some(_) => Some(crate::views::AS),
            None => Calls::all().find(name).map(|call| call.name),
        }
    }

    /// The call with this name, if it is one of them.
    pub fn find(self, name: &str) -> Option<Call> {
        self.list().find(|call| call.name == name)
    }

    pub fn list(self) -> impl Iterator<Item = Call> {
        let calls = every().enumerate();
        calls
            .filter(move |(i, _)| self.0 & 1 << i != 0)
            .map(|(_, call)| *call)
    }
}

fn every() -> impl Iterator<Item = &'static Call> {
    let sockets = SOCKETS.iter().chain(crate::sockets::CHECKED);
    ALWAYS.iter().chain(OPEN).chain(FILES).chain(sockets)
}

impl Call {
    /// One that a function of the host's makes, with numbers alone, as `sockets.rs` does.
    pub(crate) const fn by_host(name: &'static str, nr: i64) -> Call {
        Call {
            name,
            nr,
            pointers: 0,
            nullable: 0,
        }
    }

    /// Whether there is no use for it without a directory.
    pub(crate) fn needs_directory(&self) -> bool {
        FILES.contains(self)
    }
}

/// Bytes of code that one call's way out takes at most.
pub const MOST: usize = 96;

/// What a slot of the table leads to: a C function that makes this call. The window's
/// address gets into r11, and the place to go on at into rcx: the module may know both.
pub fn thunk(call: Call, window: usize) -> Vec<u8> {
    // By number of the argument: mov r32, r32 and add r64, r11.
    const BASED: [&[u8]; 6] = [
        &[0x89, 0xff, 0x4c, 0x01, 0xdf],
        &[0x89, 0xf6, 0x4c, 0x01, 0xde],
        &[0x89, 0xd2, 0x4c, 0x01, 0xda],
        &[0x45, 0x89, 0xd2, 0x4d, 0x01, 0xda],
        &[0x45, 0x89, 0xc0, 0x4d, 0x01, 0xd8],
        &[0x45, 0x89, 0xc9, 0x4d, 0x01, 0xd9],
    ];
    // mov r10, rcx; mov r11, window
    let mut code = vec![0x49, 0x89, 0xca, 0x49, 0xbb];
    code.extend((window as u64).to_le_bytes());
    for (i, based) in BASED.iter().enumerate() {
        if call.pointers & 1 << i != 0 {
            let (low, base) = based.split_at(based.len() - 3);
            code.extend(low);
            if call.nullable & 1 << i != 0 {
                // test r32, r32, of the same register twice; jz behind what comes
                code.extend(&low[..low.len() - 2]);
                code.extend([0x85, low[low.len() - 1], 0x74, 3]);
            }
            code.extend(base);
        }
    }
    // mov eax, nr; lea rcx, [rip + 8]; jmp gs:[gate]; ret
    code.push(0xb8);
    code.extend((call.nr as u32).to_le_bytes());
    code.extend([0x48, 0x8d, 0x0d, 8, 0, 0, 0]);
    code.extend([0x65, 0xff, 0x24, 0x25]);
    code.extend(Program::GATE.to_le_bytes());
    code.push(0xc3);
    assert!(code.len() <= MOST);
    code
}
