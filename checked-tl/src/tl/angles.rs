//! What stands between `<` and `>`: names for types where something is declared, and types where
//! it is used. A comparison is none of these, since types in expressions stand behind `::`.

use super::lex::{Kind, Token};
use super::parse::Parser;
use super::tree::{Named, Parameter, Written};
use super::Mistake;

impl Parser {
    /// What a declared name is generic over.
    pub fn generic(&mut self) -> Result<Vec<Parameter>, Mistake> {
        self.between_angles(|it| {
            let at = it.at();
            let name = it.name()?;
            Ok(Parameter { at, name })
        })
    }

    /// The types behind the name of one.
    pub fn types(&mut self) -> Result<Vec<Written>, Mistake> {
        self.between_angles(Parser::ty)
    }

    /// A name in an expression.
    pub fn named(&mut self) -> Result<Named, Mistake> {
        let name = self.name()?;
        let types = match self.eat("::") {
            true if self.is("<") => self.types()?,
            true => return self.wrong("\"<\" and types"),
            false => Vec::new(),
        };
        Ok(Named { name, types })
    }

    /// None if there is no `<`, else at least one.
    fn between_angles<T>(
        &mut self,
        mut read: impl FnMut(&mut Self) -> Result<T, Mistake>,
    ) -> Result<Vec<T>, Mistake> {
        let mut all = Vec::new();
        if !self.is("<") {
            return Ok(all);
        }
        self.angles.push(self.at());
        self.next += 1;
        loop {
            all.push(read(self)?);
            let more = self.eat(",");
            if self.close_angle() {
                return Ok(all);
            }
            if !more {
                return self.wrong("\",\" or \">\"");
            }
        }
    }

    /// Takes a `>`, which may be the first half of another mark.
    fn close_angle(&mut self) -> bool {
        let token = self.peek().clone();
        let Some((_, rest)) = halves(&token) else {
            return false;
        };
        self.angles.push(token.at);
        match rest {
            Some(rest) => self.replace(rest),
            None => self.next += 1,
        }
        true
    }
}

/// A `>`, and what is behind it in the same mark.
pub(super) fn halves(token: &Token) -> Option<(Token, Option<Token>)> {
    let rest = match token.kind {
        Kind::Mark(">") => None,
        Kind::Mark(">>") => Some(">"),
        Kind::Mark(">=") => Some("="),
        _ => return None,
    };
    let half = |at: usize, mark: &'static str| Token {
        at,
        length: 1,
        kind: Kind::Mark(mark),
    };
    let rest = rest.map(|mark| half(token.at + 1, mark));
    Some((half(token.at, ">"), rest))
}
