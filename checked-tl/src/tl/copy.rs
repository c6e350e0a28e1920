//! A generic function once more, with numbers of its own: what is found out of one copy is not
//! mixed up with what is found out of another. Places stay, so that mistakes and failures are
//! told where the source has them.

use super::tree::*;
use std::rc::Rc;

/// A copy, whose numbers begin with this one.
pub fn copy(function: &Function, ids: usize) -> (Function, usize) {
    let mut it = Copier { ids };
    let copy = Function {
        at: function.at,
        own: function.own,
        export: false,
        public: function.public,
        name: function.name.clone(),
        generic: Vec::new(),
        parameters: it.fields(&function.parameters),
        result: function.result.clone(),
        body: it.block(&function.body),
        end: function.end,
    };
    (copy, it.ids)
}

struct Copier {
    ids: usize,
}

impl Copier {
    fn id(&mut self) -> usize {
        self.ids += 1;
        self.ids - 1
    }

    fn fields(&mut self, all: &[Field]) -> Vec<Field> {
        let each = all.iter().map(|field| Field {
            id: self.id(),
            ..field.clone()
        });
        each.collect()
    }

    fn block(&mut self, all: &[Stmt]) -> Vec<Stmt> {
        all.iter().map(|stmt| self.stmt(stmt)).collect()
    }

    fn stmt(&mut self, stmt: &Stmt) -> Stmt {
        let kind = match &stmt.kind {
            StmtKind::Let {
                name,
                changes,
                ty,
                value,
                ..
            } => StmtKind::Let {
                id: self.id(),
                name: name.clone(),
                changes: *changes,
                ty: ty.clone(),
                value: self.expr(value),
            },
            StmtKind::Assign(place, value) => StmtKind::Assign(self.expr(place), self.expr(value)),
            StmtKind::While(condition, body) => {
                StmtKind::While(self.expr(condition), self.block(body))
            }
            StmtKind::For {
                name,
                from,
                to,
                body,
                ..
            } => StmtKind::For {
                id: self.id(),
                name: name.clone(),
                from: self.expr(from),
                to: self.expr(to),
                body: self.block(body),
            },
            StmtKind::If(condition, then, or) => {
                StmtKind::If(self.expr(condition), self.block(then), self.block(or))
            }
            StmtKind::Match(value, arms) => {
                let value = self.expr(value);
                StmtKind::Match(value, arms.iter().map(|arm| self.arm(arm)).collect())
            }
            StmtKind::Return(value) => StmtKind::Return(value.as_ref().map(|e| self.expr(e))),
            StmtKind::Break => StmtKind::Break,
            StmtKind::Continue => StmtKind::Continue,
            StmtKind::Expr(value) => StmtKind::Expr(self.expr(value)),
        };
        Stmt { at: stmt.at, kind }
    }

    fn arm(&mut self, arm: &Arm) -> Arm {
        let names = arm.names.iter();
        Arm {
            id: self.id(),
            at: arm.at,
            case: arm.case.clone(),
            names: names.map(|(_, name)| (self.id(), name.clone())).collect(),
            body: self.block(&arm.body),
        }
    }

    fn boxed(&mut self, e: &Expr) -> Box<Expr> {
        Box::new(self.expr(e))
    }

    fn all(&mut self, all: &[Expr]) -> Vec<Expr> {
        all.iter().map(|e| self.expr(e)).collect()
    }

    fn expr(&mut self, e: &Expr) -> Expr {
        let kind = match &e.kind {
            ExprKind::Int(value) => ExprKind::Int(*value),
            ExprKind::Bool(value) => ExprKind::Bool(*value),
            ExprKind::Text(text) => ExprKind::Text(text.clone()),
            ExprKind::Name(name) => ExprKind::Name(name.clone()),
            ExprKind::Call(name, all) => ExprKind::Call(name.clone(), self.all(all)),
            ExprKind::Make(name, fields) => {
                let fields = fields.iter();
                let fields = fields.map(|(at, field, e)| (*at, field.clone(), self.expr(e)));
                ExprKind::Make(name.clone(), fields.collect())
            }
            ExprKind::List(all) => ExprKind::List(self.all(all)),
            ExprKind::Fill(one, count) => ExprKind::Fill(self.boxed(one), self.boxed(count)),
            ExprKind::Field(of, name) => ExprKind::Field(self.boxed(of), name.clone()),
            ExprKind::Index(of, index) => ExprKind::Index(self.boxed(of), self.boxed(index)),
            ExprKind::Negate(of) => ExprKind::Negate(self.boxed(of)),
            ExprKind::Not(of) => ExprKind::Not(self.boxed(of)),
            ExprKind::Lambda(lambda) => ExprKind::Lambda(Rc::new(Lambda {
                at: lambda.at,
                parameters: self.fields(&lambda.parameters),
                result: lambda.result.clone(),
                body: self.block(&lambda.body),
                end: lambda.end,
            })),
            ExprKind::Binary(op, left, right) => {
                ExprKind::Binary(*op, self.boxed(left), self.boxed(right))
            }
        };
        Expr {
            id: self.id(),
            at: e.at,
            kind,
        }
    }
}
