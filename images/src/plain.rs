//! What other programs are called, and files, for messages.

/// Without what a terminal would take for a command.
pub(crate) fn plain(text: &str) -> String {
    let shown = |c: char| match c.is_control() {
        true => c.escape_default().collect(),
        false => c.to_string(),
    };
    text.chars().map(shown).collect()
}
