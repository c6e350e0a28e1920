//! Typed modules that were changed at random, their annotations too, are refused, or run
//! without touching anything but their window, and leave a heap in which every object is of
//! a class, and every pointer one to an object of the class that its field has. Some run on
//! the processor: `TANE_MUTANTS` says how many. More run in an emulator that holds each
//! instruction against what the checker has said of it: `TANE_WATCHED` says how many.
//! `TANE_SEED` says which.

#[path = "../../checked-build/tests/common/apart.rs"]
mod apart;
#[path = "../../checked-build/tests/common/watch/mod.rs"]
mod watch;

use apart::{run_mutants, Random};
use std::cell::RefCell;
use std::collections::HashMap;
use std::path::Path;
use tane_checked::{Class, Layout, Module, Section, Type, TEXT};
use tane_checked_run::Instance;
use tane_checked_tl::tl::{build, Options};
use watch::watch;

/// Bits, bytes of elsewhere, numbers of the section of types, or whole pieces of it.
fn mutate(file: &mut [u8], random: &mut Random) {
    let types = Module::parse(file).ok().and_then(|module| module.types);
    let (length, types) = (file.len(), types.map_or(1, <[u8]>::len));
    let start = 48;
    match random.below(6) {
        0 | 1 => file[start + random.below(length - start)] ^= 1 << random.below(8),
        2 => {
            let bytes = 1 + random.below(8);
            let from = start + random.below(length - start - bytes);
            let to = start + random.below(length - start - bytes);
            file.copy_within(from..from + bytes, to);
        }
        3 => {
            let at = length - types + random.below(types);
            file[at] = file[at]
                .wrapping_add(1)
                .wrapping_sub(2 * random.below(2) as u8);
        }
        4 => {
            let (a, b) = (random.below(types), random.below(types));
            file.swap(length - types + a, length - types + b);
        }
        _ => {
            // An instruction's length is about this.
            let bytes = 3 + random.below(5);
            let code = length - types - start;
            let (a, b) = (random.below(code - bytes), random.below(code - bytes));
            for i in 0..bytes {
                file.swap(start + a + i, start + b + i);
            }
        }
    }
}

/// A module's heap, as its own routines and classes have it.
struct Heap<'a> {
    layout: Layout,
    section: &'a Section,
    /// All of the module's data.
    data: &'a [u8],
}

impl Heap<'_> {
    fn word(&self, at: u64) -> u64 {
        let at = (at - u64::from(self.layout.data)) as usize;
        let word = self.data.get(at..).and_then(|data| data.first_chunk());
        word.map_or(0, |word| u64::from_le_bytes(*word))
    }

    /// Where the free part begins: 4 bytes at the heap's start.
    fn next(&self) -> u64 {
        self.word(self.layout.data.into()) & u64::from(u32::MAX)
    }

    /// Bytes of the object there; none if it has no class.
    fn size(&self, at: u64) -> Option<u64> {
        let class = u16::try_from(self.word(at)).ok()?;
        let length = || self.word(at + 8);
        Some(match self.section.class(class)? {
            Class::Record(fields) => 8 + 8 * fields.len() as u64,
            Class::Array(_) => length().checked_mul(8)?.checked_add(16)?,
            Class::Bytes => length().checked_add(23)? & !7,
        })
    }

    fn is(&self, objects: &HashMap<u64, u16>, value: u64, ty: Type) -> bool {
        let text = value.wrapping_sub(self.layout.read_only.into());
        let is_text = u32::try_from(text).is_ok_and(|at| self.section.texts.contains(&at));
        match ty {
            Type::Object(first, last) => match objects.get(&value) {
                _ if value == 0 => true,
                Some(class) => (first..=last).contains(class),
                None => is_text && first == TEXT,
            },
            _ => true,
        }
    }

    /// Whether all of it is what it was made as.
    fn is_typed(&self, objects: &mut HashMap<u64, u16>) -> bool {
        let (mut at, next) = (u64::from(self.layout.data) + 8, self.next());
        while at < next {
            // The last one may not have got its class yet.
            if self.word(at) == 0 {
                break;
            }
            let Some(size) = self.size(at).filter(|size| *size <= next - at) else {
                return false;
            };
            objects.insert(at, self.word(at) as u16);
            at += size;
        }
        let whole = at == next || next == 0 || self.word(at) == 0;
        whole
            && objects
                .iter()
                .all(|(at, class)| self.points_well(objects, *at, *class))
    }

    fn points_well(&self, objects: &HashMap<u64, u16>, at: u64, class: u16) -> bool {
        match self.section.class(class) {
            Some(Class::Record(fields)) => fields.iter().enumerate().all(|(i, ty)| {
                let value = self.word(at + 8 + 8 * i as u64);
                self.is(objects, value, *ty)
            }),
            Some(Class::Array(element)) => (0..self.word(at + 8)).all(|i| {
                let value = self.word(at + 16 + 8 * i);
                self.is(objects, value, *element)
            }),
            _ => true,
        }
    }
}

/// More objects than the heap has room for: a process that may make no system call has to
/// have room for them before.
fn room() -> RefCell<HashMap<u64, u16>> {
    RefCell::new(HashMap::with_capacity(1 << 13))
}

fn heap_is_typed(
    module: &Module<'_>,
    section: &Section,
    data: &[u8],
    room: &RefCell<HashMap<u64, u16>>,
) -> bool {
    let mut objects = room.borrow_mut();
    objects.clear();
    let heap = Heap {
        layout: module.layout,
        section,
        data,
    };
    heap.is_typed(&mut objects)
}

/// What a module's data holds in an instance that nobody runs meanwhile.
fn data_of<'a>(module: &Module<'_>, instance: &'a Instance) -> &'a [u8] {
    let layout = module.layout;
    let bytes = (layout.end - layout.data) as usize;
    // SAFETY: it is there as long as the instance, and can be read.
    unsafe {
        let start = instance.window().as_ptr().add(layout.data as usize);
        std::slice::from_raw_parts(start, bytes)
    }
}

const OPTIONS: Options = Options {
    heap: 1 << 16,
    lines: false,
};

fn file(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
    let source = std::fs::read_to_string(folder.join(format!("{name}.tl")));
    build(name, &source.expect("a program"), OPTIONS).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn changed_typed_modules_are_refused_or_keep_their_window_and_their_types() {
    if let Some(what) = tane_checked_run::lacks() {
        return tane_test_support::skip(what);
    }
    let modules = ["sort", "tree", "sieve", "words", "closures"].map(file);
    let (room, mut typed) = (room(), 0);
    let prepare = |module: &Module<'_>, before: &[u8]| {
        typed += usize::from(module.types != Module::parse(before).expect("a module").types);
        let section = Section::parse(module, module.types.unwrap_or_default());
        section.expect("it was accepted")
    };
    run_mutants(&modules, 2, mutate, prepare, |module, section, instance| {
        heap_is_typed(module, section, data_of(module, instance), &room)
    });
    println!("{typed} with other types");
}

#[test]
fn changed_typed_modules_do_what_the_checker_says_and_leave_a_typed_heap() {
    let files = ["sort", "tree", "sieve", "words", "closures"].map(file);
    let room = room();
    watch(&files, 0, 2, mutate, |module, data| {
        let section = Section::parse(module, module.types.unwrap_or_default());
        heap_is_typed(module, &section.expect("it was accepted"), data, &room)
    });
}

#[test]
fn the_oracle_of_mutants_sees_what_is_not_typed() {
    if let Some(what) = tane_checked_run::lacks() {
        return tane_test_support::skip(what);
    }
    let source = "record R { n: int, next: [R] }
export fn work(n: int): int {
    let all = [R { n: n, next: [] }];
    return len(all);
}";
    let options = Options {
        heap: 4096,
        lines: false,
    };
    let file = build("t.tl", source, options).unwrap_or_else(|e| panic!("{e}"));
    let module = Module::parse(&file).expect("a module");
    let section = Section::parse(&module, module.types.unwrap_or_default()).expect("typed");
    let room = room();
    let mut instance = Instance::new(&file, 4096, Vec::new()).expect("an instance");
    let is_typed =
        |instance: &Instance| heap_is_typed(&module, &section, data_of(&module, instance), &room);
    assert_eq!(instance.call("work", &[1]).expect("exported"), Ok(1));
    assert!(is_typed(&instance));
    let start = u64::from(module.layout.data) + 8;
    // Nothing but classes, lengths, and pointers.
    let mut seen = 0;
    for word in 0..6 {
        let at = start + 8 * word;
        let before = instance.memory().read(at, 8).expect("memory");
        assert!(instance.memory().write(at, &77_777_u64.to_le_bytes()));
        seen += usize::from(!is_typed(&instance));
        assert!(instance.memory().write(at, &before));
    }
    assert!(is_typed(&instance));
    assert!(seen >= 4, "{seen} of 6");
}
