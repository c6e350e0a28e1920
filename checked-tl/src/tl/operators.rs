//! Tokens to expressions.

use super::lex::Kind;
use super::parse::{Parser, DEEPEST};
use super::tree::{Expr, ExprKind, Lambda, Op};
use super::Mistake;
use std::rc::Rc;

/// Operators, the loosest first.
const LEVELS: [&[(&str, Op)]; 9] = [
    &[("||", Op::Or)],
    &[("&&", Op::And)],
    &[
        ("==", Op::Equal),
        ("!=", Op::Unequal),
        ("<=", Op::AtMost),
        (">=", Op::AtLeast),
        ("<", Op::Less),
        (">", Op::More),
    ],
    &[("|", Op::BitOr)],
    &[("^", Op::BitXor)],
    &[("&", Op::BitAnd)],
    &[("<<", Op::Left), (">>", Op::Right)],
    &[("+", Op::Add), ("-", Op::Subtract)],
    &[("*", Op::Multiply), ("/", Op::Divide), ("%", Op::Remainder)],
];

impl Parser {
    /// What a block follows: no record is made there but in parentheses.
    pub fn condition(&mut self) -> Result<Expr, Mistake> {
        self.level(0, false)
    }

    pub fn expr(&mut self) -> Result<Expr, Mistake> {
        self.level(0, true)
    }

    /// An expression, if not too many are within each other: who walks through them later
    /// has a stack.
    fn make(&mut self, at: usize, kind: ExprKind) -> Result<Expr, Mistake> {
        let (id, first) = (self.id(), self.first_id);
        let height = |e: &Expr| self.heights.get(&(e.id - first)).copied().unwrap_or(0);
        let highest = match &kind {
            ExprKind::Call(_, all) | ExprKind::List(all) => all.iter().map(height).max(),
            ExprKind::Make(_, all) => all.iter().map(|(.., e)| height(e)).max(),
            ExprKind::Field(a, _) | ExprKind::Negate(a) | ExprKind::Not(a) => Some(height(a)),
            ExprKind::Fill(a, b) | ExprKind::Index(a, b) | ExprKind::Binary(_, a, b) => {
                Some(height(a).max(height(b)))
            }
            _ => None,
        };
        let height = highest.map_or(0, |height| height + 1);
        if height > DEEPEST {
            let what = "too many operations within each other: use a variable";
            return Err(Mistake::new(at, what));
        }
        self.heights.insert(id - first, height);
        Ok(Expr { id, at, kind })
    }

    fn level(&mut self, level: usize, makes: bool) -> Result<Expr, Mistake> {
        let Some(operators) = LEVELS.get(level) else {
            return self.unary(makes);
        };
        let mut left = self.level(level + 1, makes)?;
        let mut count = 0;
        loop {
            let at = self.at();
            let found = operators.iter().find(|(mark, _)| self.is(mark));
            let Some((mark, op)) = found else {
                return Ok(left);
            };
            if op.compares() && count > 0 {
                let what = "comparisons do not follow each other: use && between them";
                return Err(Mistake::new(at, what));
            }
            count += 1;
            self.eat(mark);
            let right = self.level(level + 1, makes)?;
            left = self.make(at, ExprKind::Binary(*op, Box::new(left), Box::new(right)))?;
        }
    }

    fn unary(&mut self, makes: bool) -> Result<Expr, Mistake> {
        self.deeper(|it| {
            let at = it.at();
            if it.eat("-") {
                if let Kind::Int(value) = it.peek().kind {
                    it.next += 1;
                    let kind = ExprKind::Int((value as i64).wrapping_neg());
                    return it.make(at, kind);
                }
                let value = it.unary(makes)?;
                return it.make(at, ExprKind::Negate(Box::new(value)));
            }
            if it.eat("!") {
                let value = it.unary(makes)?;
                return it.make(at, ExprKind::Not(Box::new(value)));
            }
            let first = it.first(makes)?;
            it.behind(first)
        })
    }

    /// Fields and elements.
    fn behind(&mut self, mut it: Expr) -> Result<Expr, Mistake> {
        loop {
            let at = self.at();
            if self.eat(".") {
                let name = self.name()?;
                it = self.make(at, ExprKind::Field(Box::new(it), name))?;
            } else if self.eat("[") {
                let index = self.deeper(Parser::expr)?;
                self.expect("]")?;
                it = self.make(at, ExprKind::Index(Box::new(it), Box::new(index)))?;
            } else {
                return Ok(it);
            }
        }
    }

    fn first(&mut self, makes: bool) -> Result<Expr, Mistake> {
        let at = self.at();
        let kind = match self.peek().kind.clone() {
            Kind::Int(value) => {
                let Ok(value) = i64::try_from(value) else {
                    return Err(Mistake::new(at, "this fits only with - before it"));
                };
                self.next += 1;
                ExprKind::Int(value)
            }
            Kind::Text(text) => {
                self.next += 1;
                ExprKind::Text(text)
            }
            _ if self.eat("true") => ExprKind::Bool(true),
            _ if self.eat("false") => ExprKind::Bool(false),
            _ if self.eat("(") => {
                let inside = self.deeper(Parser::expr)?;
                self.expect(")")?;
                return Ok(inside);
            }
            _ if self.eat("fn") => self.deeper(|it| it.lambda(at))?,
            _ if self.eat("[") => self.deeper(Parser::array)?,
            _ => {
                if !self.is_name() {
                    return self.wrong("an expression");
                }
                let name = self.named()?;
                if self.eat("(") {
                    ExprKind::Call(name, self.deeper(|it| it.list(")", Parser::expr))?)
                } else if makes && self.eat("{") {
                    let fields = self.deeper(|it| {
                        it.list("}", |it| {
                            let at = it.at();
                            let name = it.name()?;
                            it.expect(":")?;
                            Ok((at, name, it.expr()?))
                        })
                    })?;
                    ExprKind::Make(name, fields)
                } else {
                    ExprKind::Name(name)
                }
            }
        };
        self.make(at, kind)
    }

    fn lambda(&mut self, at: usize) -> Result<ExprKind, Mistake> {
        let (parameters, result, body, end) = self.signature()?;
        Ok(ExprKind::Lambda(Rc::new(Lambda {
            at,
            parameters,
            result,
            body,
            end,
        })))
    }

    fn array(&mut self) -> Result<ExprKind, Mistake> {
        if self.eat("]") {
            return Ok(ExprKind::List(Vec::new()));
        }
        let first = self.expr()?;
        if self.eat(";") {
            let count = self.expr()?;
            self.expect("]")?;
            return Ok(ExprKind::Fill(Box::new(first), Box::new(count)));
        }
        let mut all = vec![first];
        if self.eat(",") {
            all.extend(self.list("]", Parser::expr)?);
        } else {
            self.expect("]")?;
        }
        Ok(ExprKind::List(all))
    }
}
