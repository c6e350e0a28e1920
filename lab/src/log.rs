//! Lines of the kernel's log.

/// What a line says, without the time before it: "[    0.123456] ".
pub fn message(line: &str) -> &str {
    let rest = line
        .strip_prefix('[')
        .and_then(|line| line.split_once("] "));
    match rest {
        Some((time, message)) if time.trim().parse::<f64>().is_ok() => message,
        _ => line,
    }
}
