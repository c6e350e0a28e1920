//! Typed modules put together by hand, byte by byte.

use tane_checked::{
    check, imported, runtime, Class, Export, Function, Join, Layout, Module, Routine, Rule,
    Section, Type, EMPTY, IMPORT,
};

/// A part of the code.
#[derive(Clone, Debug)]
pub enum Item {
    Bytes(Vec<u8>),
    Call(Routine),
    /// A function, or anything else, at this place of the code behind the routines.
    CallAt(i32),
}

pub fn bytes(bytes: &[u8]) -> Item {
    Item::Bytes(bytes.to_vec())
}

pub const RECORD: Type = Type::Object(3, 3);
pub const EITHER: Type = Type::Object(3, 4);
pub const TEXT: Type = Type::Object(1, 1);

/// A typed module: main(int, int): int begins it, of `code`; a helper(#3): int follows, of
/// `helper`. Class 3 is a record of an int and a #3; 4 of an int; 5 an array of ints; 6 one
/// of #3. The table has slot 2 for the helper. The read-only data begins with a text "ab".
#[derive(Clone)]
pub struct Typed {
    pub code: Vec<Item>,
    pub helper: Vec<Item>,
    /// Their places are behind the routines.
    pub joins: Vec<Join>,
    pub section: Section,
    pub imports: Vec<&'static str>,
    pub zeroes: u32,
    /// Changes the module when all of it is there.
    pub change: fn(&mut Module<'_>),
    pub types: fn(&mut Vec<u8>),
}

/// Bytes of code that they become.
pub fn length(items: &[Item]) -> usize {
    items
        .iter()
        .map(|item| match item {
            Item::Bytes(bytes) => bytes.len(),
            _ => 5,
        })
        .sum()
}

impl Typed {
    pub fn new(code: &[Item]) -> Typed {
        let section = Section {
            classes: vec![
                Class::Record(vec![Type::Int, RECORD]),
                Class::Record(vec![Type::Int]),
                Class::Array(Type::Int),
                Class::Array(RECORD),
            ],
            signatures: vec![
                (vec![Type::Int, Type::Int], Type::Int),
                (vec![RECORD], Type::Int),
            ],
            ..Section::default()
        };
        let reset = [Item::Call(Routine::Reset)];
        Typed {
            code: [&reset, code].concat(),
            helper: vec![bytes(&[0xb8, 1, 0, 0, 0, 0xc3])],
            joins: Vec::new(),
            section,
            imports: vec!["openat"],
            zeroes: 1 << 16,
            change: |_| {},
            types: |_| {},
        }
    }

    pub fn file(&self) -> Vec<u8> {
        let signatures: Vec<_> = self
            .imports
            .iter()
            .filter_map(|name| imported(name))
            .collect();
        let text = [1_u64.to_le_bytes(), 2_u64.to_le_bytes(), *b"ab\0\0\0\0\0\0"].concat();
        let all = [&self.code[..], &self.helper].concat();
        let table: Vec<u32> = (0..self.imports.len() as u32).map(|i| IMPORT | i).collect();
        let entries = table.len() as u64 + 2;
        let (data, rodata) = (u64::from(self.zeroes), text.len() as u64);
        let layout = |code: usize| Layout::new(code as u64, entries, rodata, data).expect("small");
        let first = runtime(&layout(0), self.zeroes, &signatures).code.len();
        let layout = layout(first + length(&all));
        let routines = runtime(&layout, self.zeroes, &signatures);
        let mut code = routines.code.clone();
        for item in &all {
            let call = |code: &mut Vec<u8>, target: i32| {
                let distance = target - (code.len() as i32 + 5);
                code.push(0xe8);
                code.extend(distance.to_le_bytes());
            };
            match item {
                Item::Bytes(bytes) => code.extend(bytes),
                Item::Call(routine) => {
                    let found = routines.routines.iter().find(|(_, it)| it == routine);
                    call(&mut code, found.expect("a routine").0 as i32);
                }
                Item::CallAt(at) => call(&mut code, first as i32 + at),
            }
        }
        let helper = (first + length(&self.code)) as u32;
        let mut section = self.section.clone();
        section.functions = vec![
            Function {
                at: first as u32,
                signature: 0,
            },
            Function {
                at: helper,
                signature: 1,
            },
        ];
        section.texts = vec![0];
        section.joins = self.joins.clone();
        for join in &mut section.joins {
            join.at += first as u32;
        }
        let mut types = section.to_bytes();
        (self.types)(&mut types);
        let mut module = Module {
            code: &code,
            table: [&[EMPTY], &table[..], &[helper]].concat(),
            read_only: &text,
            data: &[],
            zeroes: self.zeroes,
            imports: self.imports.clone(),
            exports: vec![Export {
                name: "main",
                at: first as u32,
            }],
            heights: Vec::new(),
            types: Some(&types),
            layout,
        };
        (self.change)(&mut module);
        module.to_bytes()
    }

    /// The rule that it breaks, and where behind the routines.
    pub fn refused(&self) -> Option<(Rule, Option<i64>)> {
        let file = self.file();
        let refusal = check(&file).err()?;
        let signatures: Vec<_> = self
            .imports
            .iter()
            .filter_map(|name| imported(name))
            .collect();
        let layout = Layout::new(0, 1, 0, 16).expect("small");
        let first = runtime(&layout, 16, &signatures).code.len() as i64;
        assert!(!refusal.what.is_empty() && !refusal.rule.remedy().is_empty());
        Some((refusal.rule, refusal.at.map(|at| i64::from(at) - first)))
    }
}

/// Code of main behind its first call: the attack is refused for the rule, the twin is not.
#[track_caller]
pub fn twins(rule: Rule, attack: &[Item], twin: &[Item]) {
    both(rule, &Typed::new(attack), &Typed::new(twin));
}

#[track_caller]
pub fn both(rule: Rule, attack: &Typed, twin: &Typed) {
    let refused = check(&twin.file()).err().map(|refusal| refusal.to_string());
    assert_eq!(refused, None, "the twin");
    let refused = attack.refused().map(|(rule, _)| rule);
    assert_eq!(refused, Some(rule), "{:?}", check(&attack.file()).err());
}

pub const RET: &[u8] = &[0xc3];
/// mov $0,%eax; ret
pub const ZERO: &[u8] = &[0xb8, 0, 0, 0, 0, 0xc3];

/// A new record of class 3, in rax.
pub fn new_record() -> Vec<Item> {
    made(24, 3)
}

/// mov $bytes,%eax; call; movq $class,%gs:(%eax)
pub fn made(size: u8, class: u8) -> Vec<Item> {
    vec![
        bytes(&[0xb8, size, 0, 0, 0]),
        Item::Call(Routine::New),
        head(class),
    ]
}

pub fn head(class: u8) -> Item {
    bytes(&[0x65, 0x67, 0x48, 0xc7, 0x00, class, 0, 0, 0])
}

/// An array of 4 elements.
pub fn new_array(routine: Routine, class: u8) -> Vec<Item> {
    vec![bytes(&[0xb8, 4, 0, 0, 0]), Item::Call(routine), head(class)]
}

/// These behind a new record, or behind an array of ints, then a return of 0.
pub fn with(first: Vec<Item>, rest: &[u8]) -> Vec<Item> {
    [first, vec![bytes(rest), bytes(ZERO)]].concat()
}

pub fn join(at: u32, registers: &[(usize, Type)], words: &[Type]) -> Join {
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
