//! Programs of several files.

use tane_checked_tl::tl::{build_with, Options, MOST_FILES, MOST_TEXT};

/// What becomes of a program whose other files are these.
fn built(file: &str, source: &str, others: &[(&str, String)]) -> Result<(), String> {
    let mut read = |_: &str, path: &str| {
        let found = others.iter().find(|(name, _)| *name == path);
        let (name, text) = found.ok_or("no such file")?;
        Ok(((*name).to_owned(), text.clone()))
    };
    let options = Options {
        heap: 4096,
        lines: true,
    };
    let made = build_with(file, source, &mut read, options);
    made.map(drop).map_err(|told| told.to_string())
}

#[test]
fn a_file_of_ones_own_may_be_called_as_the_languages_own_is() {
    let main = "use \"std.tl\";\nexport fn work(n: int): int {\n    return twice(n);\n}\n";
    let own = "fn twice(n: int): int {\n    print_int(n);\n    return 2 * n;\n}\n";
    assert_eq!(built("main.tl", main, &[("std.tl", own.into())]), Ok(()));
    // It is the one that mistakes are told of.
    let wrong = own.replace("2 * n", "2 * m");
    let told = built("main.tl", main, &[("std.tl", wrong)]).expect_err("a mistake");
    assert!(told.starts_with("std.tl:3:"), "{told}");
    // And so it is as the first one, with others that use it.
    let main = "use \"other.tl\";\nexport fn work(n: int): int {\n    return n;\n}\n";
    let other = [
        ("other.tl", "use \"std.tl\";\n".into()),
        ("std.tl", main.into()),
    ];
    assert_eq!(built("std.tl", main, &other), Ok(()));
    assert_eq!(built("std.tl", own, &[]), Ok(()));
}

#[test]
fn a_program_of_too_many_files_is_refused_at_the_one_that_is_too_many() {
    // Each uses the next.
    let mut read = |from: &str, path: &str| {
        let number: usize = path.parse().map_err(|_| "no number")?;
        assert!(number <= MOST_FILES && from != path);
        Ok((path.to_owned(), format!("use \"{}\";\n", number + 1)))
    };
    let made = build_with("0", "use \"1\";\n", &mut read, Options::default());
    let told = made.expect_err("too many").to_string();
    let last = MOST_FILES - 1;
    let expected = format!("{last}:1:5: {MOST_FILES}: a program has at most {MOST_FILES} files");
    assert!(told.starts_with(&expected), "{told}");
}

#[test]
fn a_program_of_too_much_text_is_refused() {
    let half = format!("// {}\n", "x".repeat(MOST_TEXT / 2));
    let main = "use \"a.tl\";\nuse \"b.tl\";\nexport fn work(n: int): int {\n    return n;\n}\n";
    let others = [("a.tl", half.clone()), ("b.tl", half.clone())];
    let told = built("main.tl", main, &others).expect_err("too much");
    assert!(
        told.starts_with("main.tl:2:5: b.tl: a program has at most 4 MiB"),
        "{told}"
    );
    let told = built("main.tl", &half.repeat(2), &[]).expect_err("too much");
    assert!(told.starts_with("main.tl:1:1: a program has"), "{told}");
    // As much as fits is no mistake.
    assert_eq!(
        built("main.tl", main, &[("a.tl", half), ("b.tl", String::new())]),
        Ok(())
    );
}
