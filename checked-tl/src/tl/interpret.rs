//! Runs a program as it is written, slowly: what modules compute is compared with this.

use super::tree::*;
use super::types::{Built, Known, Name, Ty};
use super::Told;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

/// What ended a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// An overflow, or an index that there is not: a module traps with Unreachable.
    Failed,
    /// A division: a module traps with Divide.
    Divided,
    /// More memory than there is.
    Memory,
    /// It took more steps than it was given, or called itself too deep.
    Long,
    /// It called what is imported.
    Import(String),
}

#[derive(Clone, Debug)]
enum Value {
    Nothing,
    Int(i64),
    Bool(bool),
    Text(Rc<Vec<u8>>),
    Bytes(Rc<RefCell<Vec<u8>>>),
    Array(Rc<RefCell<Vec<Value>>>),
    Record(Rc<RefCell<Vec<Value>>>),
    Case(usize, Rc<Vec<Value>>),
    Function(usize),
    Closure(Rc<Lambda>, Rc<Locals>),
}

/// How a statement ended.
enum Flow {
    On,
    Break,
    Continue,
    Return(Value),
}

const DEEPEST: usize = 100;
const MOST_ELEMENTS: i64 = 1 << 20;

type Run<T> = Result<T, Ended>;

struct Interpreter<'a> {
    program: &'a Program,
    known: &'a Known,
    steps: u64,
    deep: usize,
    output: Vec<u8>,
}

/// What an exported function gives, or what ended it, and what it has printed.
pub fn interpret(
    file: &str,
    source: &str,
    name: &str,
    arguments: &[i64],
    steps: u64,
) -> Result<(Result<i64, Ended>, Vec<u8>), Told> {
    let (_, program, known) = super::program(file, source, &mut super::alone)?;
    let mut it = Interpreter {
        program: &program,
        known: &known,
        steps,
        deep: 0,
        output: Vec::new(),
    };
    let found = program
        .functions
        .iter()
        .position(|f| f.export && f.name == name);
    let Some(function) = found else {
        let mistake = super::Mistake::new(0, format!("{name} is not exported"));
        return Err(mistake.told(file, source));
    };
    let arguments = arguments.iter().map(|n| Value::Int(*n)).collect();
    let result = it.call(function, arguments).map(|value| match value {
        Value::Int(n) => n,
        _ => 0,
    });
    Ok((result, it.output))
}

type Locals = HashMap<usize, Value>;

impl Interpreter<'_> {
    fn step(&mut self) -> Run<()> {
        self.steps = self.steps.checked_sub(1).ok_or(Ended::Long)?;
        Ok(())
    }

    fn call(&mut self, function: usize, arguments: Vec<Value>) -> Run<Value> {
        let function = &self.program.functions[function];
        let ids = function.parameters.iter().map(|p| p.id);
        let mut locals: Locals = ids.zip(arguments).collect();
        self.run(&function.body, &mut locals)
    }

    fn run(&mut self, body: &[Stmt], locals: &mut Locals) -> Run<Value> {
        self.deep += 1;
        if self.deep > DEEPEST {
            return Err(Ended::Long);
        }
        let flow = self.block(body, locals)?;
        self.deep -= 1;
        Ok(match flow {
            Flow::Return(value) => value,
            _ => Value::Nothing,
        })
    }

    fn block(&mut self, block: &[Stmt], locals: &mut Locals) -> Run<Flow> {
        for stmt in block {
            match self.stmt(stmt, locals)? {
                Flow::On => {}
                flow => return Ok(flow),
            }
        }
        Ok(Flow::On)
    }

    fn stmt(&mut self, stmt: &Stmt, locals: &mut Locals) -> Run<Flow> {
        self.step()?;
        match &stmt.kind {
            StmtKind::Let { id, value, .. } => {
                let value = self.value(value, locals)?;
                locals.insert(*id, value);
            }
            StmtKind::Assign(place, value) => self.assign(place, value, locals)?,
            StmtKind::While(condition, body) => {
                while self.is(condition, locals)? {
                    self.step()?;
                    match self.block(body, locals)? {
                        Flow::Break => break,
                        Flow::On | Flow::Continue => {}
                        flow => return Ok(flow),
                    }
                }
            }
            StmtKind::For {
                id, from, to, body, ..
            } => {
                let from = self.int(from, locals)?;
                let to = self.int(to, locals)?;
                for i in from..to {
                    self.step()?;
                    locals.insert(*id, Value::Int(i));
                    match self.block(body, locals)? {
                        Flow::Break => break,
                        Flow::On | Flow::Continue => {}
                        flow => return Ok(flow),
                    }
                }
            }
            StmtKind::If(condition, then, or) => {
                let block = if self.is(condition, locals)? {
                    then
                } else {
                    or
                };
                return self.block(block, locals);
            }
            StmtKind::Match(value, arms) => {
                let Value::Case(case, fields) = self.value(value, locals)? else {
                    return Err(Ended::Failed);
                };
                let of = |arm: &&Arm| match self.known.arms.get(&arm.id) {
                    Some(Some((_, number))) => *number == case,
                    _ => true,
                };
                if let Some(arm) = arms.iter().find(of) {
                    let ids = arm.names.iter().map(|(id, _)| *id);
                    locals.extend(ids.zip(fields.iter().cloned()));
                    return self.block(&arm.body, locals);
                }
            }
            StmtKind::Return(value) => {
                return Ok(Flow::Return(match value {
                    Some(value) => self.value(value, locals)?,
                    None => Value::Nothing,
                }));
            }
            StmtKind::Break => return Ok(Flow::Break),
            StmtKind::Continue => return Ok(Flow::Continue),
            StmtKind::Expr(value) => {
                self.value(value, locals)?;
            }
        }
        Ok(Flow::On)
    }

    fn assign(&mut self, place: &Expr, value: &Expr, locals: &mut Locals) -> Run<()> {
        match &place.kind {
            ExprKind::Field(of, name) => {
                let Value::Record(fields) = self.value(of, locals)? else {
                    return Err(Ended::Failed);
                };
                let value = self.value(value, locals)?;
                let i = self.field(of, name);
                fields.borrow_mut()[i] = value;
            }
            ExprKind::Index(of, index) => {
                let array = self.value(of, locals)?;
                let index = self.int(index, locals)? as usize;
                let value = self.value(value, locals)?;
                match (array, value) {
                    (Value::Array(all), value) => {
                        *all.borrow_mut().get_mut(index).ok_or(Ended::Failed)? = value;
                    }
                    (Value::Bytes(all), Value::Int(n)) => {
                        let byte = u8::try_from(n).map_err(|_| Ended::Failed)?;
                        *all.borrow_mut().get_mut(index).ok_or(Ended::Failed)? = byte;
                    }
                    _ => return Err(Ended::Failed),
                }
            }
            _ => {
                let value = self.value(value, locals)?;
                if let Some(Name::Variable(id)) = self.known.names.get(&place.id) {
                    locals.insert(*id, value);
                }
            }
        }
        Ok(())
    }

    fn field(&self, of: &Expr, name: &str) -> usize {
        match self.known.ty(of.id) {
            Ty::Record(record) => {
                let fields = &self.known.records[record].fields;
                fields
                    .iter()
                    .position(|(field, _)| field == name)
                    .unwrap_or(0)
            }
            _ => 0,
        }
    }

    fn is(&mut self, e: &Expr, locals: &mut Locals) -> Run<bool> {
        Ok(matches!(self.value(e, locals)?, Value::Bool(true)))
    }

    fn int(&mut self, e: &Expr, locals: &mut Locals) -> Run<i64> {
        match self.value(e, locals)? {
            Value::Int(n) => Ok(n),
            Value::Bool(n) => Ok(n.into()),
            _ => Err(Ended::Failed),
        }
    }

    fn value(&mut self, e: &Expr, locals: &mut Locals) -> Run<Value> {
        self.step()?;
        Ok(match &e.kind {
            ExprKind::Int(n) => Value::Int(*n),
            ExprKind::Bool(is) => Value::Bool(*is),
            ExprKind::Text(text) => Value::Text(Rc::new(text.clone())),
            ExprKind::Name(_) => match self.known.names.get(&e.id) {
                Some(Name::Variable(id)) => locals.get(id).cloned().ok_or(Ended::Failed)?,
                Some(Name::Function(function)) => Value::Function(*function),
                Some(Name::Case(_, case)) => Value::Case(*case, Rc::default()),
                _ => return Err(Ended::Failed),
            },
            ExprKind::Lambda(lambda) => {
                let closed = self.known.closed.iter().find(|closed| closed.id == e.id);
                let ids = closed.map(|closed| closed.captures.iter());
                let taken = ids.into_iter().flatten();
                let taken = taken.filter_map(|id| Some((*id, locals.get(id)?.clone())));
                Value::Closure(Rc::clone(lambda), Rc::new(taken.collect()))
            }
            ExprKind::Call(_, arguments) => return self.called(e, arguments, locals),
            ExprKind::Make(_, given) => {
                let Ty::Record(record) = self.known.ty(e.id) else {
                    return Err(Ended::Failed);
                };
                let shape = &self.known.records[record];
                let mut fields = vec![Value::Nothing; shape.fields.len()];
                for (_, name, value) in given {
                    let i = shape.fields.iter().position(|(field, _)| field == name);
                    fields[i.unwrap_or(0)] = self.value(value, locals)?;
                }
                Value::Record(Rc::new(RefCell::new(fields)))
            }
            ExprKind::List(all) => {
                let all: Run<Vec<Value>> = all.iter().map(|e| self.value(e, locals)).collect();
                Value::Array(Rc::new(RefCell::new(all?)))
            }
            ExprKind::Fill(one, count) => {
                let one = self.value(one, locals)?;
                let count = self.count(count, locals)?;
                Value::Array(Rc::new(RefCell::new(vec![one; count])))
            }
            ExprKind::Field(of, name) => {
                let Value::Record(fields) = self.value(of, locals)? else {
                    return Err(Ended::Failed);
                };
                let value = fields.borrow()[self.field(of, name)].clone();
                value
            }
            ExprKind::Index(of, index) => {
                let of = self.value(of, locals)?;
                let index = self.int(index, locals)? as usize;
                let byte = |byte: Option<&u8>| byte.map(|byte| Value::Int((*byte).into()));
                let found = match of {
                    Value::Array(all) => all.borrow().get(index).cloned(),
                    Value::Text(all) => byte(all.get(index)),
                    Value::Bytes(all) => byte(all.borrow().get(index)),
                    _ => None,
                };
                found.ok_or(Ended::Failed)?
            }
            ExprKind::Negate(of) => {
                let n = self.int(of, locals)?;
                Value::Int(n.checked_neg().ok_or(Ended::Failed)?)
            }
            ExprKind::Not(of) => match self.value(of, locals)? {
                Value::Bool(is) => Value::Bool(!is),
                Value::Int(n) => Value::Int(!n),
                _ => return Err(Ended::Failed),
            },
            ExprKind::Binary(Op::And, left, right) => {
                Value::Bool(self.is(left, locals)? && self.is(right, locals)?)
            }
            ExprKind::Binary(Op::Or, left, right) => {
                Value::Bool(self.is(left, locals)? || self.is(right, locals)?)
            }
            ExprKind::Binary(op, left, right) => {
                let (a, b) = (self.int(left, locals)?, self.int(right, locals)?);
                return binary(*op, a, b);
            }
        })
    }

    fn count(&mut self, e: &Expr, locals: &mut Locals) -> Run<usize> {
        let count = self.int(e, locals)?;
        let count = Some(count).filter(|n| (0..MOST_ELEMENTS).contains(n));
        count.map(|n| n as usize).ok_or(Ended::Memory)
    }

    fn called(&mut self, e: &Expr, arguments: &[Expr], locals: &mut Locals) -> Run<Value> {
        let name = self.known.names.get(&e.id).cloned().ok_or(Ended::Failed)?;
        if let Name::Built(Built::Bytes) = name {
            let count = self.count(&arguments[0], locals)?;
            return Ok(Value::Bytes(Rc::new(RefCell::new(vec![0; count]))));
        }
        let all: Run<Vec<Value>> = arguments.iter().map(|e| self.value(e, locals)).collect();
        let all = all?;
        match name {
            Name::Function(function) => self.call(function, all),
            Name::Variable(id) => match locals.get(&id) {
                Some(Value::Function(function)) => self.call(*function, all),
                Some(Value::Closure(lambda, taken)) => {
                    let (lambda, mut locals) = (Rc::clone(lambda), (**taken).clone());
                    let ids = lambda.parameters.iter().map(|p| p.id);
                    locals.extend(ids.zip(all));
                    self.run(&lambda.body, &mut locals)
                }
                _ => Err(Ended::Failed),
            },
            Name::Case(_, case) => Ok(Value::Case(case, Rc::new(all))),
            Name::Import(name) => Err(Ended::Import(name)),
            Name::Built(built) => match (built, &all[0]) {
                (Built::Len, Value::Text(text)) => Ok(Value::Int(text.len() as i64)),
                (Built::Len, Value::Bytes(bytes)) => Ok(Value::Int(bytes.borrow().len() as i64)),
                (Built::Len, Value::Array(all)) => Ok(Value::Int(all.borrow().len() as i64)),
                (Built::Print, Value::Text(text)) => {
                    self.output.extend(text.iter());
                    Ok(Value::Nothing)
                }
                (Built::Print, Value::Bytes(bytes)) => {
                    self.output.extend(bytes.borrow().iter());
                    Ok(Value::Nothing)
                }
                _ => Err(Ended::Failed),
            },
        }
    }
}

fn binary(op: Op, a: i64, b: i64) -> Run<Value> {
    let checked = |n: Option<i64>| n.map(Value::Int).ok_or(Ended::Failed);
    let divided = |n: Option<i64>| n.map(Value::Int).ok_or(Ended::Divided);
    let by = u32::try_from(b).ok().filter(|b| *b < 64);
    match op {
        Op::Add => checked(a.checked_add(b)),
        Op::Subtract => checked(a.checked_sub(b)),
        Op::Multiply => checked(a.checked_mul(b)),
        Op::Divide => divided(a.checked_div(b)),
        Op::Remainder => divided(a.checked_rem(b)),
        Op::BitAnd => Ok(Value::Int(a & b)),
        Op::BitOr => Ok(Value::Int(a | b)),
        Op::BitXor => Ok(Value::Int(a ^ b)),
        Op::Left => checked(by.map(|by| a << by)),
        Op::Right => checked(by.map(|by| a >> by)),
        Op::Equal => Ok(Value::Bool(a == b)),
        Op::Unequal => Ok(Value::Bool(a != b)),
        Op::Less => Ok(Value::Bool(a < b)),
        Op::AtMost => Ok(Value::Bool(a <= b)),
        Op::More => Ok(Value::Bool(a > b)),
        Op::AtLeast => Ok(Value::Bool(a >= b)),
        Op::And | Op::Or => Err(Ended::Failed),
    }
}
