//! One function's code, as C: a variable for each place on the stack of operands and each of
//! its types, and a label for each block. The code was validated before.

use super::bounded;
use super::control::{Frame, Kind};
use super::operators::{access, simple};
use super::parse::Parsed;
use super::types::{Signature, Type};
use crate::Error;
use std::collections::BTreeSet;
use std::fmt::Write;
use wasmparser::{FunctionBody, Operator};

/// A function, as far as it was translated.
pub struct Function<'a> {
    pub parsed: &'a Parsed<'a>,
    signature: Signature,
    pub out: String,
    pub stack: Vec<Type>,
    pub frames: Vec<Frame>,
    locals: Vec<Type>,
    /// Those that an operator names. There can be very many of others.
    named: BTreeSet<u32>,
    pub labels: usize,
    /// Variables for operands that there are.
    pub used: BTreeSet<(usize, char)>,
    /// Blocks that were opened in code that is not reached.
    pub dead: Option<usize>,
    /// The operator before was this load, of this address, and where it is in `out`.
    loaded: Option<(usize, String)>,
}

/// The C function of a body.
pub fn translate(
    parsed: &Parsed<'_>,
    number: usize,
    signature: &Signature,
    body: &FunctionBody<'_>,
) -> Result<String, Error> {
    let mut locals = signature.takes.to_vec();
    for declared in body.get_locals_reader()? {
        let (count, kind) = declared?;
        let kind = Type::of(kind)?;
        locals.extend(std::iter::repeat_n(kind, count as usize));
    }
    let mut it = Function {
        parsed,
        signature: signature.clone(),
        out: String::new(),
        stack: Vec::new(),
        frames: Vec::new(),
        locals,
        named: BTreeSet::new(),
        labels: 0,
        used: BTreeSet::new(),
        dead: None,
        loaded: None,
    };
    let whole = Signature {
        takes: [].into(),
        gives: signature.gives.clone(),
    };
    it.enter(Kind::Block, whole);
    for operator in body.get_operators_reader()? {
        it.operator(&operator?)?;
        bounded(&it.out)?;
    }
    Ok(it.finish(number))
}

/// The variable of that type for a place on the stack.
pub fn name(kind: Type, height: usize) -> String {
    format!("{}_{height}", kind.letter())
}

impl Function<'_> {
    pub fn line(&mut self, text: impl AsRef<str>) {
        self.out.push('\t');
        self.out.push_str(text.as_ref());
        self.out.push('\n');
    }

    pub fn push(&mut self, kind: Type) -> String {
        let at = self.stack.len();
        self.stack.push(kind);
        self.used.insert((at, kind.letter()));
        name(kind, at)
    }

    pub fn pop(&mut self) -> String {
        // Validated: there is one.
        let kind = self.stack.pop().unwrap_or(Type::I32);
        name(kind, self.stack.len())
    }

    /// The topmost values, in order, taken away.
    pub fn take(&mut self, count: usize) -> Vec<String> {
        let mut taken: Vec<String> = (0..count).map(|_| self.pop()).collect();
        taken.reverse();
        taken
    }

    pub fn give(&mut self, kind: Type, text: impl AsRef<str>) {
        let to = self.push(kind);
        self.line(format!("{to} = {};", text.as_ref()));
    }

    /// What follows is not reached, up to the end of this block.
    pub fn stop(&mut self) {
        self.dead = Some(0);
    }

    fn operator(&mut self, operator: &Operator<'_>) -> Result<(), Error> {
        if let Some(depth) = self.dead {
            match operator {
                Operator::Block { .. } | Operator::Loop { .. } | Operator::If { .. } => {
                    self.dead = Some(depth + 1);
                }
                Operator::End if depth > 0 => self.dead = Some(depth - 1),
                Operator::End => self.end(),
                Operator::Else if depth == 0 => self.otherwise(),
                _ => {}
            }
            return Ok(());
        }
        let loaded = self.loaded.take();
        if let Some((takes, gives, text)) = simple(operator) {
            let values = self.take(takes.len());
            let mut c = text.to_owned();
            for (n, value) in values.iter().enumerate() {
                c = c.replace(&format!("${n}"), value);
            }
            self.give(gives, c);
            return Ok(());
        }
        if let Some((function, kind, offset, is_load)) = access(operator) {
            if is_load {
                let address = self.pop();
                let at = self.out.len();
                self.give(kind, format!("{function}({address}, {offset}ul)"));
                let dropped = format!("{function}_dropped({address}, {offset}ul);");
                self.loaded = Some((at, dropped));
            } else {
                let values = self.take(2);
                self.line(format!(
                    "{function}({}, {offset}ul, {});",
                    values[0], values[1]
                ));
            }
            return Ok(());
        }
        match operator {
            Operator::Nop => {}
            Operator::Unreachable => {
                self.line("trap_unreachable();");
                self.stop();
            }
            Operator::Block { blockty } => {
                let signature = self.block(*blockty)?;
                self.enter(Kind::Block, signature);
            }
            Operator::Loop { blockty } => {
                let signature = self.block(*blockty)?;
                self.enter(Kind::Loop, signature);
                let label = self.labels;
                self.line(format!("L{label}:;"));
            }
            Operator::If { blockty } => {
                let condition = self.pop();
                let signature = self.block(*blockty)?;
                self.enter(Kind::If, signature);
                let label = self.labels;
                self.line(format!("if (!{condition}) goto E{label};"));
            }
            Operator::Else => self.otherwise(),
            Operator::End => self.end(),
            Operator::Br { relative_depth } => {
                self.reserve(*relative_depth);
                let text = self.branch(*relative_depth);
                self.line(text);
                self.stop();
            }
            Operator::BrIf { relative_depth } => {
                let condition = self.pop();
                self.reserve(*relative_depth);
                let text = self.branch(*relative_depth);
                self.line(format!("if ({condition}) {{ {text} }}"));
            }
            Operator::BrTable { targets } => self.branch_table(targets)?,
            Operator::Return => {
                let outermost = self.frames.len() as u32 - 1;
                self.reserve(outermost);
                let text = self.branch(outermost);
                self.line(text);
                self.stop();
            }
            Operator::Call { function_index } => {
                let number = *function_index as usize;
                let signature = self.parsed.function(number).clone();
                let arguments = self.take(signature.takes.len()).join(", ");
                self.call(&signature, &format!("fn{number}({arguments})"));
            }
            Operator::CallIndirect { type_index, .. } => {
                let signature = self.parsed.types[*type_index as usize].clone();
                let index = self.pop();
                let arguments = self.take(signature.takes.len()).join(", ");
                let number = self.parsed.number_of_type(&signature);
                self.line(format!(
                    "if (RARELY({index} >= TABLE || table[{index}].type != {number})) trap_call();"
                ));
                let (result, takes) = (signature.result(), signature.parameters());
                let call = format!("(({result} (*)({takes}))table[{index}].function)({arguments})");
                self.call(&signature, &call);
            }
            Operator::Drop => {
                let value = self.pop();
                match loaded {
                    // It may be out of bounds, though nobody wants it.
                    Some((at, dropped)) => {
                        self.out.truncate(at);
                        self.line(dropped);
                    }
                    None => self.line(format!("(void){value};")),
                }
            }
            Operator::Select | Operator::TypedSelect { .. } => {
                let condition = self.pop();
                let other = self.pop();
                let kind = self.stack.last().copied().unwrap_or(Type::I32);
                let one = name(kind, self.stack.len() - 1);
                self.line(format!("{one} = {condition} ? {one} : {other};"));
            }
            Operator::LocalGet { local_index } => {
                let kind = self.local(*local_index);
                self.give(kind, format!("l{local_index}"));
            }
            Operator::LocalSet { local_index } => {
                let value = self.pop();
                self.local(*local_index);
                self.line(format!("l{local_index} = {value};"));
            }
            Operator::LocalTee { local_index } => {
                let value = self.pop();
                let kind = self.local(*local_index);
                self.push(kind);
                self.line(format!("l{local_index} = {value};"));
            }
            Operator::GlobalGet { global_index } => {
                let kind = self.parsed.globals[*global_index as usize].kind;
                self.give(kind, format!("g{global_index}"));
            }
            Operator::GlobalSet { global_index } => {
                let value = self.pop();
                self.line(format!("g{global_index} = {value};"));
            }
            Operator::MemorySize { .. } => self.give(Type::I32, "memory_pages"),
            Operator::MemoryGrow { .. } => {
                let by = self.pop();
                self.give(Type::I32, format!("memory_grow({by})"));
            }
            Operator::MemoryFill { .. } | Operator::MemoryCopy { .. } => {
                let what = if matches!(operator, Operator::MemoryFill { .. }) {
                    "fill"
                } else {
                    "copy"
                };
                let values = self.take(3).join(", ");
                self.line(format!("memory_{what}({values});"));
            }
            Operator::MemoryInit { data_index, .. } => {
                let values = self.take(3).join(", ");
                let n = data_index;
                self.line(format!("memory_init(data{n}, has{n}, {values});"));
            }
            Operator::DataDrop { data_index } => self.line(format!("has{data_index} = 0;")),
            Operator::I32Const { value } => self.give(Type::I32, format!("{}u", *value as u32)),
            Operator::I64Const { value } => self.give(Type::I64, format!("{}ul", *value as u64)),
            Operator::F32Const { value } => {
                self.give(Type::F32, format!("f32_of({}u)", value.bits()));
            }
            Operator::F64Const { value } => {
                self.give(Type::F64, format!("f64_of({}ul)", value.bits()));
            }
            other => {
                let text = format!("{other:?}");
                let word = text.split([' ', '{']).next().unwrap_or_default().to_owned();
                return Err(Error::new(format!("the operator {word} is not supported")));
            }
        }
        Ok(())
    }

    /// The type of a local that an operator names.
    fn local(&mut self, number: u32) -> Type {
        self.named.insert(number);
        self.locals[number as usize]
    }

    fn call(&mut self, signature: &Signature, call: &str) {
        match &*signature.gives {
            [] => self.line(format!("{call};")),
            [one] => self.give(*one, call),
            several => {
                let result = signature.result();
                self.line(format!("{{ {result} all = {call};"));
                for (n, kind) in several.iter().enumerate() {
                    self.give(*kind, format!("all.v{n}"));
                }
                self.line("}");
            }
        }
    }

    fn finish(mut self, number: usize) -> String {
        let gives = self.signature.gives.clone();
        let values = self.take(gives.len());
        match values.as_slice() {
            [] => self.line("return;"),
            [one] => {
                let one = one.clone();
                self.line(format!("return {one};"));
            }
            several => {
                let text = format!(
                    "return ({}){{ {} }};",
                    self.signature.result(),
                    several.join(", ")
                );
                self.line(text);
            }
        }
        let mut text = head(number, &self.signature);
        text.push_str("\n{\n");
        let parameters = self.signature.takes.len() as u32;
        for n in self.named.range(parameters..) {
            let kind = self.locals[*n as usize];
            let _ = writeln!(text, "\t{} l{n} = 0;", kind.c());
        }
        for (height, letter) in &self.used {
            let kind = match letter {
                'i' => "u32",
                'j' => "u64",
                'f' => "f32",
                _ => "f64",
            };
            let _ = writeln!(text, "\t{kind} {letter}_{height} = 0;");
        }
        text + &self.out + "}\n"
    }
}

/// A function's declaration, with names of its parameters.
pub fn head(number: usize, signature: &Signature) -> String {
    let takes = signature.takes.iter().enumerate();
    let takes: Vec<String> = takes.map(|(n, t)| format!("{} l{n}", t.c())).collect();
    let takes = match takes.is_empty() {
        true => "void".to_owned(),
        false => takes.join(", "),
    };
    format!("static {} fn{number}({takes})", signature.result())
}
