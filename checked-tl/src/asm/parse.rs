//! Typed assembly, read.

use super::encode::known as instruction;
use super::line::Line;
use super::link::jump;
use super::print::routine_name;
use super::{Arg, Func, Item, Program, Target, Wrong};
use std::collections::HashMap;
use tane_checked::{Class, Routine};

/// Calls and slots by name, until all names are known.
#[derive(Default)]
struct Names {
    /// By function and item: a line and a name.
    calls: Vec<(usize, usize, usize, String)>,
    slots: Vec<(usize, String)>,
    labels: HashMap<String, usize>,
    used: Vec<(usize, String)>,
    defined: HashMap<String, ()>,
}

impl Names {
    fn label(&mut self, name: &str) -> usize {
        let next = self.labels.len();
        *self.labels.entry(name.to_owned()).or_insert(next)
    }

    /// A function ends: its jumps have to end in it.
    fn settle(&mut self) -> Result<(), Wrong> {
        for (line, name) in self.used.drain(..) {
            if !self.defined.contains_key(&name) {
                let what = format!("there is no label {name} in this function");
                return Err(Wrong { line, what });
            }
        }
        self.defined.clear();
        self.labels.clear();
        Ok(())
    }
}

/// Reads typed assembly.
pub fn parse(text: &str) -> Result<Program, Wrong> {
    let mut it = Program::default();
    let mut names = Names::default();
    for (i, line) in text.lines().enumerate() {
        let mut line = Line {
            number: i + 1,
            rest: line,
        };
        line.skip();
        if line.rest.is_empty() || line.rest.starts_with('#') {
            continue;
        }
        one(&mut line, &mut it, &mut names)?;
        line.end()?;
    }
    names.settle()?;
    let find = |name: &str| it.functions.iter().position(|f| f.name == name);
    let missing = |line: usize, name: &str| Wrong {
        line,
        what: format!("there is no function {name}"),
    };
    let mut calls = Vec::new();
    for (line, function, item, name) in &names.calls {
        let routine = routine(name, &it.imports).map(Target::Routine);
        let target = routine.or_else(|| find(name).map(Target::Function));
        calls.push((
            *function,
            *item,
            target.ok_or_else(|| missing(*line, name))?,
        ));
    }
    let slots = names.slots.iter();
    let slots: Result<Vec<usize>, Wrong> = slots
        .map(|(line, name)| find(name).ok_or_else(|| missing(*line, name)))
        .collect();
    it.slots = slots?;
    for (function, item, target) in calls {
        it.functions[function].items[item] = Item::Call(target);
    }
    Ok(it)
}

fn routine(name: &str, imports: &[String]) -> Option<Routine> {
    let imports: Vec<&str> = imports.iter().map(String::as_str).collect();
    let own = [
        Routine::Reset,
        Routine::New,
        Routine::NewWords,
        Routine::NewBytes,
    ];
    let all = own
        .into_iter()
        .chain((0..imports.len()).map(Routine::Import));
    let mut all = all.filter(|routine| routine_name(*routine, &imports) == name);
    all.next()
}

fn one(line: &mut Line<'_>, it: &mut Program, names: &mut Names) -> Result<(), Wrong> {
    let word = line.word();
    match word {
        "heap" => it.heap = line.number()?,
        "import" => it.imports.push(line.word().to_owned()),
        "text" => it.texts.push(line.text()?),
        "class" => {
            let class = match line.word() {
                "record" => Class::Record(line.types()?),
                "array" => {
                    line.expect("(")?;
                    let element = line.ty()?;
                    line.expect(")")?;
                    Class::Array(element)
                }
                other => return line.wrong(format!("{other:?} is neither record nor array")),
            };
            it.classes.push(class);
        }
        "signature" => {
            let arguments = line.types()?;
            line.expect(":")?;
            it.signatures.push((arguments, line.ty()?));
        }
        "slot" => names.slots.push((line.number, line.word().to_owned())),
        "export" | "fn" => {
            if word == "export" {
                line.expect("fn")?;
            }
            names.settle()?;
            let name = line.word().to_owned();
            let arguments = line.types()?;
            line.expect(":")?;
            it.functions.push(Func {
                name,
                export: word == "export",
                arguments,
                result: line.ty()?,
                items: Vec::new(),
            });
        }
        _ => return code(line, word, it, names),
    }
    Ok(())
}

/// What stands in a function.
fn code(line: &mut Line<'_>, word: &str, it: &mut Program, names: &mut Names) -> Result<(), Wrong> {
    let number = it.functions.len();
    let Some(function) = it.functions.last_mut() else {
        return line.wrong(format!(
            "{word:?} is neither a declaration nor in a function"
        ));
    };
    if line.eat(":") {
        let label = names.label(word);
        if names.defined.insert(word.to_owned(), ()).is_some() {
            return line.wrong(format!("{word} is here twice"));
        }
        line.skip();
        let plain = line.rest.is_empty() || line.rest.starts_with('#');
        function.items.push(match plain {
            true => Item::Label(label),
            false => Item::Join(label, line.known()?),
        });
        return Ok(());
    }
    let item = match (word, jump(word), instruction(word)) {
        ("call", ..) => {
            let name = line.word().to_owned();
            let place = (line.number, number - 1, function.items.len(), name);
            names.calls.push(place);
            Item::Call(Target::Function(usize::MAX))
        }
        ("callslot", ..) => match line.arg()? {
            Arg::Reg(register, _) => Item::CallSlot(register),
            _ => return line.wrong("a slot is in a register"),
        },
        ("bytes", ..) => {
            let mut bytes = Vec::new();
            line.skip();
            while line.rest.starts_with(|c: char| c.is_ascii_hexdigit()) {
                let digits = line.word();
                match u8::from_str_radix(digits, 16) {
                    Ok(byte) => bytes.push(byte),
                    Err(_) => return line.wrong(format!("{digits:?} is no byte")),
                }
                line.skip();
            }
            Item::Bytes(bytes)
        }
        (_, Some(name), _) => {
            let label = line.word().to_owned();
            let number = names.label(&label);
            names.used.push((line.number, label));
            Item::Jump(name, number)
        }
        (_, _, Some(name)) => {
            let mut args = Vec::new();
            line.skip();
            while !line.rest.is_empty() && !line.rest.starts_with('#') {
                if !args.is_empty() {
                    line.expect(",")?;
                }
                args.push(line.arg()?);
                line.skip();
            }
            let numbers: Vec<Arg> = args.iter().map(|arg| arg.numbered(0)).collect();
            if super::encode(name, &numbers).is_none() {
                return line.wrong(format!("{name} does not take these operands"));
            }
            Item::Ins(name, args)
        }
        _ => return line.wrong(format!("{word:?} is no instruction")),
    };
    function.items.push(item);
    Ok(())
}
