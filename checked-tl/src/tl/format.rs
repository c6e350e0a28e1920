//! A program as it is laid out: the author's lines, indented by what they are in, with one
//! space where one belongs.

use super::angles::halves;
use super::lex::{lex, Kind, Token};
use super::Told;
use std::collections::HashSet;

const INDENT: usize = 4;
/// What `<` and `>` are here if they are around types.
const OPENS: &str = "<T";
const CLOSES: &str = "T>";

/// The same program, laid out; what is no program is an error.
pub fn format(file: &str, source: &str) -> Result<String, Told> {
    let program = super::parse::parse(source, 0, 0);
    let program = program.map_err(|mistake| mistake.told(file, source))?;
    let angles = program.angles.into_iter().collect();
    let mut tokens = Vec::new();
    for token in lex(source).map_err(|mistake| mistake.told(file, source))? {
        marked(token, &angles, &mut tokens);
    }
    let mut to = String::new();
    // What is open: whether it indents, which one of a line does.
    let mut open: Vec<bool> = Vec::new();
    let mut line: Vec<&Token> = Vec::new();
    let mut end = 0;
    let mut blank = false;
    for token in &tokens {
        let between = &source[end..token.at];
        let newlines = between.matches('\n').count();
        if newlines > 0 || token.kind == Kind::End {
            write(&mut to, &line, source, &mut open, blank);
            blank = newlines > 1 && !(to.is_empty() && line.is_empty());
            line.clear();
        }
        if token.kind != Kind::End {
            line.push(token);
        }
        end = token.at + token.length;
    }
    Ok(to)
}

/// `<` and `>` that are around types as marks of their own.
fn marked(token: Token, angles: &HashSet<usize>, to: &mut Vec<Token>) {
    match halves(&token) {
        _ if !angles.contains(&token.at) => to.push(token),
        Some((half, rest)) => {
            let kind = Kind::Mark(CLOSES);
            to.push(Token { kind, ..half });
            if let Some(rest) = rest {
                marked(rest, angles, to);
            }
        }
        None => {
            let kind = Kind::Mark(OPENS);
            to.push(Token { kind, ..token });
        }
    }
}

fn is(token: &Token, marks: &[&str]) -> bool {
    matches!(&token.kind, Kind::Mark(mark) if marks.contains(mark))
}

fn write(to: &mut String, line: &[&Token], source: &str, open: &mut Vec<bool>, blank: bool) {
    let Some(first) = line.first() else {
        return;
    };
    if blank && !to.ends_with("{\n") && !is(first, &["}"]) && !to.is_empty() {
        to.push('\n');
    }
    let closes = line
        .iter()
        .take_while(|token| is(token, &["}", ")", "]"]))
        .count();
    let stay = &open[..open.len().saturating_sub(closes)];
    let depth = stay.iter().filter(|indents| **indents).count();
    to.push_str(&" ".repeat(INDENT * depth));
    // What this line opens is from here on.
    let mut first_open = open.len();
    for (i, token) in line.iter().enumerate() {
        if i > 0 && spaced(&line[..=i]) {
            to.push(' ');
        }
        to.push_str(source[token.at..token.at + token.length].trim_end());
        if is(token, &["{", "(", "["]) {
            let of_line = open.iter().skip(first_open);
            let indents = !of_line.into_iter().any(|indents| *indents);
            open.push(indents);
        } else if is(token, &["}", ")", "]"]) {
            open.pop();
            first_open = first_open.min(open.len());
        }
    }
    to.push('\n');
}

/// Whether a space is before the last one of these.
fn spaced(line: &[&Token]) -> bool {
    let (token, before) = (line[line.len() - 1], line[line.len() - 2]);
    let value = |token: &Token| match &token.kind {
        Kind::Int(_) | Kind::Text(_) => true,
        Kind::Word(word) => !matches!(word.as_str(), "return" | "in" | "if" | "while" | "match"),
        _ => is(token, &[")", "]"]),
    };
    // A sign, and not an operator between two values.
    let is_sign = |i: usize| is(line[i], &["-"]) && (i == 0 || !value(line[i - 1]));
    if is(before, &["!"])
        || is_sign(line.len() - 2)
        || is(before, &["(", "[", ".", "..", "::", OPENS])
    {
        return false;
    }
    if is(before, &["{"]) && is(token, &["}"]) {
        return false;
    }
    match &token.kind {
        Kind::Mark("," | ";" | ":" | ")" | "]" | "." | ".." | "::" | OPENS | CLOSES) => false,
        Kind::Mark("(") if is(before, &[CLOSES]) => false,
        Kind::Mark("(") => !(matches!(&before.kind, Kind::Word(word) if !keyword(word))),
        Kind::Mark("[") => !value(before),
        _ => true,
    }
}

fn keyword(word: &str) -> bool {
    matches!(
        word,
        "return" | "in" | "if" | "while" | "match" | "let" | "var" | "else"
    )
}
