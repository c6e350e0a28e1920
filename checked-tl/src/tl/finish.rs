//! What is left to do when all of a function is there.

use super::emit::RSP;
use crate::asm::{Arg, Item};
use std::collections::HashMap;
use tane_checked::Type;

/// The frame, and joins, now that the number of words is known.
pub fn finish(items: Vec<Item>, words: usize) -> Vec<Item> {
    let mut all: Vec<Item> = Vec::new();
    let by_rsp = |args: &[Arg]| args == [Arg::Reg(RSP, 8), Arg::Imm(0)];
    for item in items {
        match item {
            Item::Ins(name, args) if by_rsp(&args) => {
                if words > 0 {
                    let by = Arg::Imm(8 * words as i64);
                    all.push(Item::Ins(name, vec![Arg::Reg(RSP, 8), by]));
                }
            }
            Item::Join(label, mut known) => {
                known.words.resize(words, Type::Unknown);
                known.words.reverse();
                all.push(Item::Join(label, known));
            }
            other => all.push(other),
        }
    }
    // A jump to what comes next is none.
    let mut i = 0;
    while i < all.len() {
        if let Item::Jump("jmp", label) = all[i] {
            let next = all[i + 1..]
                .iter()
                .find(|item| !matches!(item, Item::Line(_)));
            if matches!(next, Some(Item::Label(l) | Item::Join(l, _)) if *l == label) {
                all.remove(i);
                continue;
            }
        }
        i += 1;
    }
    // Nor is there anything to declare where one jump leads, and nothing else.
    let mut jumps: HashMap<usize, (usize, usize)> = HashMap::new();
    for (i, item) in all.iter().enumerate() {
        if let Item::Jump(_, label) = item {
            let (count, last) = jumps.entry(*label).or_insert((0, 0));
            (*count, *last) = (*count + 1, i);
        }
    }
    let mut ends = false;
    for (i, item) in all.iter_mut().enumerate() {
        if let Item::Join(label, _) = item {
            let alone = matches!(jumps.get(label), Some((1, at)) if *at < i);
            if ends && alone {
                *item = Item::Label(*label);
            }
        }
        match item {
            Item::Jump("jmp", _) | Item::Ins("ret" | "ud2", _) => ends = true,
            Item::Line(_) => {}
            _ => ends = false,
        }
    }
    all
}
