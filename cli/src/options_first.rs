//! Options may stand anywhere, as with GNU's tools. clap takes none between many SOURCEs
//! and the DEST behind them, so for such verbs they go to the front.

use clap::{Arg, Command};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

/// Verbs with SOURCE... DEST.
const VERBS: [&str; 2] = ["cp", "mv"];

/// The words with the options of such a verb before what it works on. `start`: where the
/// verb can be; options of all verbs may be before it.
pub fn options_first(grammar: &Command, words: Vec<OsString>, start: usize) -> Vec<OsString> {
    let at = verb_at(grammar, &words, start);
    let verb = words.get(at).and_then(|word| word.to_str());
    let verb = verb.filter(|verb| VERBS.contains(verb));
    let Some(own) = verb.and_then(|verb| grammar.find_subcommand(verb)) else {
        return words;
    };
    let grammars = [grammar, own];
    let mut front: Vec<OsString> = words[..=at].to_vec();
    let mut rest = Vec::new();
    let mut words = words.into_iter().skip(at + 1);
    while let Some(word) = words.next() {
        if word == "--" {
            rest.push(word);
            rest.extend(words);
            break;
        }
        if !is_option(&word) {
            rest.push(word);
            continue;
        }
        let has_value = takes_next(&grammars, &word);
        front.push(word);
        front.extend(has_value.then(|| words.next()).flatten());
    }
    front.append(&mut rest);
    front
}

/// Where the verb is among these words, at `start` or behind options of all verbs.
pub fn verb_at(grammar: &Command, words: &[OsString], start: usize) -> usize {
    let mut at = start;
    while words.get(at).is_some_and(|word| is_option(word)) {
        at += 1 + usize::from(takes_next(&[grammar], &words[at]));
    }
    at
}

/// Of these words those that are `own`'s, and what is no option; and options that are all
/// verbs', as `grammar` has them, with their values.
pub fn split_own(own: &Command, grammar: &Command, words: &[OsString]) -> [Vec<OsString>; 2] {
    let mut parts = [Vec::new(), Vec::new()];
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let is_own = !is_option(word) || is_known(own, word);
        let part = &mut parts[usize::from(!is_own)];
        part.push(word.clone());
        if is_option(word) && takes_next(&[own, grammar], word) {
            part.extend(words.next().cloned());
        }
    }
    parts
}

/// Whether it is an option of this grammar, or asks for help.
fn is_known(grammar: &Command, option: &OsStr) -> bool {
    let Some(text) = option.to_str() else {
        return false;
    };
    let mut all = grammar.get_arguments();
    match text.strip_prefix("--") {
        Some(long) => {
            let name = long.split('=').next().unwrap_or(long);
            name == "help" || all.any(|arg| has_long(arg, name))
        }
        None => {
            let letter = text.chars().nth(1).unwrap_or('-');
            letter == 'h' || all.any(|arg| has_short(arg, letter))
        }
    }
}

/// The verb of a command line, the first word of which is the program's name.
pub fn verb<'w>(grammar: &Command, words: &'w [OsString]) -> Option<&'w str> {
    words.get(verb_at(grammar, words, 1))?.to_str()
}

fn is_option(word: &OsStr) -> bool {
    word.len() > 1 && word.as_bytes().starts_with(b"-")
}

/// Whether the word behind an option is its value.
fn takes_next(grammars: &[&Command], option: &OsStr) -> bool {
    let Some(text) = option.to_str() else {
        return false;
    };
    let all = || grammars.iter().flat_map(|grammar| grammar.get_arguments());
    if let Some(long) = text.strip_prefix("--") {
        return all().any(|arg| has_long(arg, long) && has_value(arg));
    }
    let mut letters = text.chars().skip(1);
    let of_value = |letter: char| all().any(|arg| has_short(arg, letter) && has_value(arg));
    // What follows the letter in the same word is its value.
    letters.find(|letter| of_value(*letter)).is_some() && letters.next().is_none()
}

fn has_value(arg: &Arg) -> bool {
    arg.get_action().takes_values() && !arg.is_require_equals_set()
}

fn has_long(arg: &Arg, name: &str) -> bool {
    let others = arg.get_all_aliases().unwrap_or_default();
    arg.get_long() == Some(name) || others.contains(&name)
}

fn has_short(arg: &Arg, letter: char) -> bool {
    let others = arg.get_all_short_aliases().unwrap_or_default();
    arg.get_short() == Some(letter) || others.contains(&letter)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command_line::Cli;
    use clap::CommandFactory;

    #[test]
    fn options_go_before_what_a_verb_works_on_with_their_values() {
        let grammar = Cli::command();
        let first = |text: &str| {
            let words = text.split(' ').map(OsString::from).collect();
            let words = options_first(&grammar, words, 1);
            let words: Vec<_> = words.iter().map(|w| w.to_str().expect("UTF-8")).collect();
            words.join(" ")
        };
        for (line, wanted) in [
            ("tane cp a -q b", "tane cp -q a b"),
            ("tane cp a --owner root b", "tane cp --owner root a b"),
            ("tane cp a --owner=root b -v", "tane cp --owner=root -v a b"),
            ("tane cp a --memory 64M b", "tane cp --memory 64M a b"),
            ("tane cp a - -q", "tane cp -q a -"),
            ("tane cp a -q -- -b -c", "tane cp -q a -- -b -c"),
            ("tane --fs ext4 cp a -q b", "tane --fs ext4 cp -q a b"),
            ("tane mv a b -n c", "tane mv -n a b c"),
            ("tane --fs cp cp a -q b", "tane --fs cp cp -q a b"),
            ("tane ls a -l b", "tane ls a -l b"),
            ("tane", "tane"),
        ] {
            assert_eq!(first(line), wanted);
        }
    }
}
