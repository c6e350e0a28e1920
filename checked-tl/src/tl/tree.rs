//! What a program is made of. Expressions, arms and what declares a variable have numbers of their
//! own, by which others say what they found out of them.

use std::fmt;
use std::rc::Rc;

/// A type as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    pub at: usize,
    pub kind: WrittenKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WrittenKind {
    /// With the types that it is made of, if it is generic.
    Name(String, Vec<Written>),
    Array(Box<Written>),
    Function(Vec<Written>, Option<Box<Written>>),
}

impl Written {
    /// Whether a name is in it.
    pub fn names(&self, wanted: &str) -> bool {
        let names = |all: &[Written]| all.iter().any(|ty| ty.names(wanted));
        match &self.kind {
            WrittenKind::Name(name, types) => name == wanted || names(types),
            WrittenKind::Array(element) => element.names(wanted),
            WrittenKind::Function(arguments, result) => {
                names(arguments) || result.as_ref().is_some_and(|ty| ty.names(wanted))
            }
        }
    }
}

impl fmt::Display for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let listed = |all: &[Written]| {
            let all: Vec<String> = all.iter().map(Written::to_string).collect();
            all.join(", ")
        };
        match &self.kind {
            WrittenKind::Name(name, types) if types.is_empty() => f.write_str(name),
            WrittenKind::Name(name, types) => write!(f, "{name}<{}>", listed(types)),
            WrittenKind::Array(element) => write!(f, "[{element}]"),
            WrittenKind::Function(arguments, None) => write!(f, "fn({})", listed(arguments)),
            WrittenKind::Function(arguments, Some(result)) => {
                write!(f, "fn({}): {result}", listed(arguments))
            }
        }
    }
}

/// A variable, a field or a parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    pub id: usize,
    pub at: usize,
    pub name: String,
    pub ty: Written,
}

/// What stands for a type in what is generic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    pub at: usize,
    pub name: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub at: usize,
    pub name: String,
    /// It is seen by all files of the program.
    pub public: bool,
    /// None for a record that is not generic, and for a case.
    pub generic: Vec<Parameter>,
    pub fields: Vec<Field>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variant {
    pub at: usize,
    pub name: String,
    pub public: bool,
    pub generic: Vec<Parameter>,
    /// The cases; each looks like a record.
    pub cases: Vec<Record>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    pub at: usize,
    /// Of the program, and not of what comes with the language.
    pub own: bool,
    pub export: bool,
    /// It is seen by all files of the program, and so is what is exported.
    pub public: bool,
    pub name: String,
    pub generic: Vec<Parameter>,
    pub parameters: Vec<Field>,
    pub result: Option<Written>,
    pub body: Vec<Stmt>,
    /// Where it ends.
    pub end: usize,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// Other files: where they are named, and how.
    pub uses: Vec<(usize, String)>,
    pub records: Vec<Record>,
    pub variants: Vec<Variant>,
    pub functions: Vec<Function>,
    /// Numbers that were given away.
    pub ids: usize,
    /// Places of `<` and `>` that are around types, and compare nothing.
    pub angles: Vec<usize>,
}

impl Program {
    /// Takes in what was read with numbers behind its own.
    pub fn add(&mut self, other: Program) {
        self.records.extend(other.records);
        self.variants.extend(other.variants);
        self.functions.extend(other.functions);
        self.ids = other.ids;
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stmt {
    pub at: usize,
    pub kind: StmtKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StmtKind {
    Let {
        id: usize,
        name: String,
        /// It may be assigned to.
        changes: bool,
        ty: Option<Written>,
        value: Expr,
    },
    Assign(Expr, Expr),
    While(Expr, Vec<Stmt>),
    For {
        id: usize,
        name: String,
        from: Expr,
        to: Expr,
        body: Vec<Stmt>,
    },
    If(Expr, Vec<Stmt>, Vec<Stmt>),
    Match(Expr, Vec<Arm>),
    Return(Option<Expr>),
    Break,
    Continue,
    Expr(Expr),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arm {
    pub id: usize,
    pub at: usize,
    /// None for `_`.
    pub case: Option<String>,
    /// The number and the name of each field's variable; `_` for none.
    pub names: Vec<(usize, String)>,
    pub body: Vec<Stmt>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expr {
    pub id: usize,
    pub at: usize,
    pub kind: ExprKind,
}

/// A name in an expression, with the types behind `::`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    pub name: String,
    pub types: Vec<Written>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExprKind {
    Int(i64),
    Bool(bool),
    Text(Vec<u8>),
    Name(Named),
    Call(Named, Vec<Expr>),
    /// A record, with the place and name of each field.
    Make(Named, Vec<(usize, String, Expr)>),
    List(Vec<Expr>),
    /// A value, and how often.
    Fill(Box<Expr>, Box<Expr>),
    Field(Box<Expr>, String),
    Index(Box<Expr>, Box<Expr>),
    Negate(Box<Expr>),
    Not(Box<Expr>),
    /// A function without a name.
    Lambda(Rc<Lambda>),
    Binary(Op, Box<Expr>, Box<Expr>),
}

/// What a function without a name is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lambda {
    pub at: usize,
    pub parameters: Vec<Field>,
    pub result: Option<Written>,
    pub body: Vec<Stmt>,
    pub end: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    Or,
    And,
    Equal,
    Unequal,
    Less,
    AtMost,
    More,
    AtLeast,
    BitOr,
    BitXor,
    BitAnd,
    Left,
    Right,
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

impl Op {
    /// Whether the result is a bool.
    pub fn compares(self) -> bool {
        matches!(
            self,
            Op::Equal | Op::Unequal | Op::Less | Op::AtMost | Op::More | Op::AtLeast
        )
    }
}
