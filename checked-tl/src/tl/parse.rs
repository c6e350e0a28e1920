//! Tokens to a program.

use super::lex::{lex, Kind, Token};
use super::tree::*;
use super::Mistake;
use std::collections::HashMap;

/// What cannot be a name.
const WORDS: [&str; 20] = [
    "record", "variant", "fn", "export", "let", "var", "if", "else", "while", "for", "in", "match",
    "return", "break", "continue", "true", "false", "_", "use", "pub",
];
/// How deep expressions and blocks are within others.
pub(super) const DEEPEST: usize = 200;

type Signature = (Vec<Field>, Option<Written>, Vec<Stmt>, usize);

pub(super) struct Parser {
    tokens: Vec<Token>,
    pub next: usize,
    ids: usize,
    pub first_id: usize,
    pub angles: Vec<usize>,
    /// Of expressions, by their numbers: how many are within each other.
    pub heights: HashMap<usize, usize>,
    deep: usize,
}

/// Reads a program, whose places and numbers begin with these.
pub fn parse(source: &str, at: usize, ids: usize) -> Result<Program, Mistake> {
    let moved = |mistake: Mistake| Mistake::new(at + mistake.at, mistake.what);
    let mut tokens = lex(source).map_err(moved)?;
    tokens.retain(|token| token.kind != Kind::Comment);
    for token in &mut tokens {
        token.at += at;
    }
    let mut it = Parser {
        tokens,
        next: 0,
        ids,
        first_id: ids,
        angles: Vec::new(),
        heights: HashMap::new(),
        deep: 0,
    };
    let mut program = Program::default();
    while it.peek().kind != Kind::End {
        it.item(&mut program)?;
    }
    (program.ids, program.angles) = (it.ids, it.angles);
    Ok(program)
}

impl Parser {
    pub fn peek(&self) -> &Token {
        &self.tokens[self.next.min(self.tokens.len() - 1)]
    }

    pub fn at(&self) -> usize {
        self.peek().at
    }

    pub fn id(&mut self) -> usize {
        self.ids += 1;
        self.ids - 1
    }

    /// What comes next is this instead.
    pub fn replace(&mut self, token: Token) {
        let last = self.tokens.len() - 1;
        self.tokens[self.next.min(last)] = token;
    }

    pub fn is(&self, mark: &str) -> bool {
        match &self.peek().kind {
            Kind::Mark(found) => *found == mark,
            Kind::Word(found) => found == mark,
            _ => false,
        }
    }

    pub fn eat(&mut self, mark: &str) -> bool {
        let is = self.is(mark);
        self.next += usize::from(is);
        is
    }

    fn found(&self) -> String {
        match &self.peek().kind {
            Kind::Int(value) => value.to_string(),
            Kind::Text(_) => "a text".into(),
            Kind::Word(word) => format!("\"{word}\""),
            Kind::Mark(mark) => format!("\"{mark}\""),
            Kind::Comment | Kind::End => "the end".into(),
        }
    }

    pub fn wrong<T>(&self, wanted: &str) -> Result<T, Mistake> {
        let what = format!("{wanted} is needed here, and not {}", self.found());
        Err(Mistake::new(self.at(), what))
    }

    pub fn expect(&mut self, mark: &str) -> Result<(), Mistake> {
        match self.eat(mark) {
            true => Ok(()),
            false => self.wrong(&format!("\"{mark}\"")),
        }
    }

    pub fn is_name(&self) -> bool {
        matches!(&self.peek().kind, Kind::Word(word) if !WORDS.contains(&word.as_str()))
    }

    pub fn name(&mut self) -> Result<String, Mistake> {
        match &self.peek().kind {
            Kind::Word(word) if !WORDS.contains(&word.as_str()) => {
                let word = word.clone();
                self.next += 1;
                Ok(word)
            }
            _ => self.wrong("a name"),
        }
    }

    /// Within another one, if that is not too deep.
    pub fn deeper<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, Mistake>,
    ) -> Result<T, Mistake> {
        self.deep += 1;
        if self.deep > DEEPEST {
            let what = format!("more than {DEEPEST} within each other");
            return Err(Mistake::new(self.at(), what));
        }
        let result = read(self);
        self.deep -= 1;
        result
    }

    /// What is between two marks, with commas; one may be at the end.
    pub fn list<T>(
        &mut self,
        close: &str,
        mut read: impl FnMut(&mut Self) -> Result<T, Mistake>,
    ) -> Result<Vec<T>, Mistake> {
        let mut all = Vec::new();
        while !self.eat(close) {
            all.push(read(self)?);
            if !self.eat(",") && !self.is(close) {
                return self.wrong(&format!("\",\" or \"{close}\""));
            }
        }
        Ok(all)
    }

    fn item(&mut self, to: &mut Program) -> Result<(), Mistake> {
        let public = self.eat("pub");
        let at = self.at();
        if self.eat("record") {
            let (name, generic) = (self.name()?, self.generic()?);
            self.expect("{")?;
            let fields = self.list("}", Parser::field)?;
            to.records.push(Record {
                at,
                name,
                public,
                generic,
                fields,
            });
        } else if self.eat("variant") {
            let (name, generic) = (self.name()?, self.generic()?);
            self.expect("{")?;
            let cases = self.list("}", |it| {
                let at = it.at();
                let name = it.name()?;
                let fields = match it.eat("(") {
                    true => it.list(")", Parser::field)?,
                    false => Vec::new(),
                };
                Ok(Record {
                    at,
                    name,
                    public: false,
                    generic: Vec::new(),
                    fields,
                })
            })?;
            to.variants.push(Variant {
                at,
                name,
                public,
                generic,
                cases,
            });
        } else if !public && self.eat("use") {
            let at = self.at();
            to.uses.push((at, self.path()?));
            self.expect(";")?;
        } else {
            let export = !public && self.eat("export");
            if !self.eat("fn") {
                return self.wrong(match public {
                    true => "record, variant or fn",
                    false => "record, variant, fn, export, pub or use",
                });
            }
            to.functions.push(self.function(export, public)?);
        }
        Ok(())
    }

    /// The name of a file.
    fn path(&mut self) -> Result<String, Mistake> {
        if let Kind::Text(text) = &self.peek().kind {
            if let Ok(path) = String::from_utf8(text.clone()) {
                self.next += 1;
                return Ok(path);
            }
        }
        self.wrong("the name of a file, as a text,")
    }

    fn field(&mut self) -> Result<Field, Mistake> {
        let at = self.at();
        let (id, name) = (self.id(), self.name()?);
        self.expect(":")?;
        let ty = self.ty()?;
        Ok(Field { id, at, name, ty })
    }

    fn function(&mut self, export: bool, public: bool) -> Result<Function, Mistake> {
        let at = self.at();
        let (name, generic) = (self.name()?, self.generic()?);
        let (parameters, result, body, end) = self.signature()?;
        Ok(Function {
            at,
            own: true,
            export,
            public: public || export,
            name,
            generic,
            parameters,
            result,
            body,
            end,
        })
    }

    /// Parameters, the result's type, what it does, and where that ends.
    pub fn signature(&mut self) -> Result<Signature, Mistake> {
        self.expect("(")?;
        let parameters = self.list(")", Parser::field)?;
        let result = match self.eat(":") {
            true => Some(self.ty()?),
            false => None,
        };
        let body = self.block()?;
        let end = self.tokens[self.next - 1].at;
        Ok((parameters, result, body, end))
    }

    pub fn ty(&mut self) -> Result<Written, Mistake> {
        self.deeper(|it| {
            let at = it.at();
            let kind = if it.eat("[") {
                let element = it.ty()?;
                it.expect("]")?;
                WrittenKind::Array(Box::new(element))
            } else if it.eat("fn") {
                it.expect("(")?;
                let arguments = it.list(")", Parser::ty)?;
                let result = match it.eat(":") {
                    true => Some(Box::new(it.ty()?)),
                    false => None,
                };
                WrittenKind::Function(arguments, result)
            } else {
                WrittenKind::Name(it.name()?, it.types()?)
            };
            Ok(Written { at, kind })
        })
    }

    fn block(&mut self) -> Result<Vec<Stmt>, Mistake> {
        self.expect("{")?;
        self.deeper(|it| {
            let mut all = Vec::new();
            while !it.eat("}") {
                all.push(it.stmt()?);
            }
            Ok(all)
        })
    }

    fn stmt(&mut self) -> Result<Stmt, Mistake> {
        let at = self.at();
        let kind = if self.is("let") || self.is("var") {
            let changes = self.is("var");
            self.next += 1;
            let name = self.name()?;
            let ty = match self.eat(":") {
                true => Some(self.ty()?),
                false => None,
            };
            self.expect("=")?;
            let value = self.expr()?;
            self.expect(";")?;
            StmtKind::Let {
                id: self.id(),
                name,
                changes,
                ty,
                value,
            }
        } else if self.eat("while") {
            StmtKind::While(self.condition()?, self.block()?)
        } else if self.eat("for") {
            let (id, name) = (self.id(), self.name()?);
            self.expect("in")?;
            let from = self.condition()?;
            self.expect("..")?;
            let to = self.condition()?;
            let body = self.block()?;
            StmtKind::For {
                id,
                name,
                from,
                to,
                body,
            }
        } else if self.is("if") {
            return self.branch();
        } else if self.eat("match") {
            let value = self.condition()?;
            self.expect("{")?;
            StmtKind::Match(value, self.list_of_arms()?)
        } else if self.eat("return") {
            let value = match self.is(";") {
                true => None,
                false => Some(self.expr()?),
            };
            self.expect(";")?;
            StmtKind::Return(value)
        } else if self.eat("break") {
            self.expect(";")?;
            StmtKind::Break
        } else if self.eat("continue") {
            self.expect(";")?;
            StmtKind::Continue
        } else {
            let left = self.expr()?;
            let kind = match self.eat("=") {
                true => StmtKind::Assign(left, self.expr()?),
                false => StmtKind::Expr(left),
            };
            self.expect(";")?;
            kind
        };
        Ok(Stmt { at, kind })
    }

    fn branch(&mut self) -> Result<Stmt, Mistake> {
        self.deeper(|it| {
            let at = it.at();
            it.expect("if")?;
            let condition = it.condition()?;
            let then = it.block()?;
            let or = match it.eat("else") {
                true if it.is("if") => vec![it.branch()?],
                true => it.block()?,
                false => Vec::new(),
            };
            let kind = StmtKind::If(condition, then, or);
            Ok(Stmt { at, kind })
        })
    }

    fn list_of_arms(&mut self) -> Result<Vec<Arm>, Mistake> {
        let mut arms = Vec::new();
        while !self.eat("}") {
            let at = self.at();
            let case = match self.eat("_") {
                true => None,
                false => Some(self.name()?),
            };
            let names = match case.is_some() && self.eat("(") {
                true => self.list(")", |it| {
                    let id = it.id();
                    Ok(match it.eat("_") {
                        true => (id, "_".to_owned()),
                        false => (id, it.name()?),
                    })
                })?,
                false => Vec::new(),
            };
            self.expect("=>")?;
            let body = self.block()?;
            self.eat(",");
            arms.push(Arm {
                id: self.id(),
                at,
                case,
                names,
                body,
            });
        }
        Ok(arms)
    }
}
