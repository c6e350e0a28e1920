// SPDX-License-Identifier: GPL-2.0-only
//! Licence expressions of crates, and which of them GPL-2.0-only code can use.

/// What may be linked into a GPL-2.0-only whole. Apache-2.0 may not.
const ALLOWED: &[&str] = &[
    "0BSD",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "CC0-1.0",
    "GPL-2.0-only",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unicode-DFS-2016",
    "Unlicense",
    "Zlib",
    // BSD's two conditions and zlib's: name the origin, mark changes.
    "bzip2-1.0.6",
];

/// Can we take the crate under some of the choices that its licence leaves?
/// An expression that cannot be read is refused.
pub fn is_allowed(expression: &str) -> bool {
    // Old crates write "MIT/Apache-2.0".
    let text = expression
        .replace('/', " OR ")
        .replace('(', " ( ")
        .replace(')', " ) ");
    let mut words: Vec<&str> = text.split_whitespace().rev().collect();
    let answer = any(&mut words);
    words.is_empty() && answer == Some(true)
}

/// `words` is what is left to read, the next word last. None: not understood.
fn any(words: &mut Vec<&str>) -> Option<bool> {
    let mut answer = all(words)?;
    while words.last() == Some(&"OR") {
        words.pop();
        answer |= all(words)?;
    }
    Some(answer)
}

fn all(words: &mut Vec<&str>) -> Option<bool> {
    let mut answer = one(words)?;
    while words.last() == Some(&"AND") {
        words.pop();
        answer &= one(words)?;
    }
    Some(answer)
}

fn one(words: &mut Vec<&str>) -> Option<bool> {
    let word = words.pop()?;
    if word == "(" {
        let answer = any(words)?;
        return (words.pop()? == ")").then_some(answer);
    }
    if words.last() == Some(&"WITH") {
        words.pop();
        words.pop()?;
    }
    Some(ALLOWED.contains(&word))
}

#[cfg(test)]
mod tests {
    use super::is_allowed;

    #[test]
    fn takes_free_choices() {
        for good in [
            "MIT",
            "MIT OR Apache-2.0",
            "MIT/Apache-2.0",
            "Apache-2.0 OR BSD-3-Clause",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception OR Apache-2.0 OR MIT",
            "Unlicense OR MIT",
        ] {
            assert!(is_allowed(good), "{good}");
        }
    }

    #[test]
    fn refuses_the_rest() {
        for bad in [
            "Apache-2.0",
            "Apache-2.0 AND BSD-3-Clause",
            "MIT AND Apache-2.0",
            "Apache-2.0 WITH LLVM-exception",
            "(MIT OR Apache-2.0) AND Apache-2.0",
            "",
            "MIT OR",
            "MIT MIT",
            "(MIT",
        ] {
            assert!(!is_allowed(bad), "{bad}");
        }
    }
}
