//! Whoever trusts the checker has read it: that it can be, in one sitting, is promised.

use std::path::Path;

/// Lines of code, with the tables and what writes modules.
const MOST: usize = 2900;
/// Of these, without `types/`.
const MOST_UNTYPED: usize = 1600;

/// Lines that are neither empty nor a comment, of all files below.
fn lines(folder: &Path) -> usize {
    let files = std::fs::read_dir(folder).expect("sources");
    let each = files.map(|file| {
        let path = file.expect("a file").path();
        if path.is_dir() {
            return lines(&path);
        }
        let text = std::fs::read_to_string(&path).expect("a source");
        let code = text.lines().map(str::trim);
        code.filter(|line| !line.is_empty() && !line.starts_with("//"))
            .count()
    });
    each.sum()
}

#[test]
fn the_checker_is_read_in_one_sitting() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let (all, types) = (lines(&sources), lines(&sources.join("types")));
    println!("{all} lines, {types} of them for types");
    assert!(
        types > 500 && all > types + 500,
        "these are not the sources"
    );
    assert!(all <= MOST, "{all} lines of code are more than {MOST}");
    let untyped = all - types;
    assert!(
        untyped <= MOST_UNTYPED,
        "{untyped} lines are more than {MOST_UNTYPED}"
    );
}
