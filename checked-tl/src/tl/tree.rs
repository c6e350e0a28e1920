//! What a program is made of. Expressions and what declares a variable have numbers of their
//! own, by which others say what they found out of them.

use std::rc::Rc;

/// A type as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    pub at: usize,
    pub kind: WrittenKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WrittenKind {
    Name(String),
    Array(Box<Written>),
    Function(Vec<Written>, Option<Box<Written>>),
}

/// A variable, a field or a parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    pub id: usize,
    pub at: usize,
    pub name: String,
    pub ty: Written,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub at: usize,
    pub name: String,
    pub fields: Vec<Field>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variant {
    pub at: usize,
    pub name: String,
    /// The cases; each looks like a record.
    pub cases: Vec<Record>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    pub at: usize,
    /// Of the program, and not of what comes with the language.
    pub own: bool,
    pub export: bool,
    pub name: String,
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

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExprKind {
    Int(i64),
    Bool(bool),
    Text(Vec<u8>),
    Name(String),
    Call(String, Vec<Expr>),
    /// A record, with the place and name of each field.
    Make(String, Vec<(usize, String, Expr)>),
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
