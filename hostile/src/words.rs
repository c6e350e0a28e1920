//! What a kernel says of itself when something is wrong, in a form in which the same thing
//! has the same words each time.

/// Not what file systems say of themselves in the same word.
pub const WARNING: &str = "WARNING: CPU: ";

/// "WARNING: CPU: 0 PID: 18 at fs/x/y.c:12 function+0x1/0x2": place and function.
pub fn warnings(log: &str) -> Vec<String> {
    let lines = log.lines().filter(|line| line.contains(WARNING));
    let places = lines.map(|line| match line.split_once(" at ") {
        Some((_, place)) => without_offsets(place),
        None => line.to_owned(),
    });
    places.collect()
}

/// Nor the directory that Linux was built in.
fn without_offsets(text: &str) -> String {
    let word = |word: &str| {
        let below = word
            .strip_prefix("../")
            .and_then(|path| path.split_once('/'));
        let word = below.map_or(word, |(_, path)| path);
        word.split("+0x").next().unwrap_or_default().to_owned()
    };
    text.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

/// The kernel's own words for where it died: what, and in which function.
pub fn place(words: &str) -> String {
    let find = |mark: &str| {
        words
            .lines()
            .find_map(|line| line.split_once(mark))
            .map(|(_, rest)| rest)
    };
    let function = find("RIP: ").map(|rest| {
        let rest = rest.strip_prefix("0010:").unwrap_or(rest);
        rest.split(['+', ' ']).next().unwrap_or_default().to_owned()
    });
    let what = [
        "kernel BUG at ",
        "BUG: ",
        "Oops: ",
        "Kernel panic - not syncing: ",
    ];
    let what = what.iter().find_map(|mark| {
        let rest = find(mark)?;
        let rest = rest.split(" at address").next().unwrap_or(rest);
        // "division error at 000053c61ea72ca5"
        let is_address = |word: &str| word.len() == 16 && u64::from_str_radix(word, 16).is_ok();
        let bare = rest.split_once(" at ").filter(|(_, at)| is_address(at));
        let rest = bare.map_or(rest, |(bare, _)| bare);
        Some(format!("{}{}", mark, without_offsets(rest)))
    });
    let what = what.unwrap_or_else(|| words.lines().next().unwrap_or_default().to_owned());
    match function {
        Some(function) => format!("{what}, in {function}"),
        None => what,
    }
}
