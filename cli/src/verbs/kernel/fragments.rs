//! Files of options that somebody wrote.

use crate::failure::{Failure, Result};
use std::path::{Path, PathBuf};
use tane_kernel_build::layout;

/// A file's name without its ending, which becomes a part of the image's, and its text.
/// `known` are the names of those that come with tane.
pub fn read(path: &Path, known: &[String]) -> Result<(String, String)> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).map_err(|e| match e.kind() {
        std::io::ErrorKind::InvalidData => Failure::usage(format!("{shown}: is no text")),
        std::io::ErrorKind::NotFound => Failure::usage(format!(
            "{shown}: no such file, and no fragment that comes with tane; these are: {}",
            known.join(", ")
        )),
        _ => Failure::of_host(path, &e),
    })?;
    for (number, line) in (1..).zip(text.lines()) {
        if !is_option(line) {
            let text = format!("{shown}:{number}: no option: {}", line.trim());
            let remedy =
                "an option is CONFIG_NAME=VALUE or # CONFIG_NAME is not set; a text is in \
                          quotes, and without signs that make or a shell would heed";
            return Err(Failure::usage(text).remedy(remedy));
        }
    }
    // Without what other systems end lines with.
    let text = text.lines().flat_map(|line| [line, "\n"]).collect();
    let name = path.file_stem().and_then(|name| name.to_str());
    let fits = |name: &&str| {
        let fits = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
        name.chars().all(fits) && !name.starts_with(['-', '.'])
    };
    let Some(name) = name.filter(fits) else {
        let text = format!("{shown}: its name becomes a part of the image's");
        return Err(Failure::usage(text).remedy("call it by letters, digits, - and _"));
    };
    Ok((name.to_owned(), text))
}

/// Or nothing, or a remark.
fn is_option(line: &str) -> bool {
    let line = line.trim();
    let is_name = |name: &str| {
        let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        let name = name.strip_prefix("CONFIG_");
        name.is_some_and(|name| !name.is_empty() && name.chars().all(is_part))
    };
    match line.split_once('=') {
        _ if line.is_empty() || line.starts_with('#') => true,
        Some((name, value)) => is_name(name) && is_value(value),
        None => false,
    }
}

/// Kconfig hands values on as they are: make expands them, and scripts have them in commands.
fn is_value(value: &str) -> bool {
    let quoted = value
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'));
    let of_these = |text: &str, signs: &str| {
        let mut letters = text.chars();
        letters.all(|letter| letter.is_ascii_alphanumeric() || signs.contains(letter))
    };
    match quoted {
        Some(text) => of_these(text, " _-+.,:/=@%"),
        None => !value.is_empty() && of_these(value, "_-+.,:/"),
    }
}

/// Where builds find them: the names of Linux's own tools must not have what others may.
pub fn write(texts: &[(PathBuf, String)]) -> Result<()> {
    for (path, text) in texts {
        let directory = path.parent().unwrap_or(Path::new("."));
        layout::create_dir(directory)
            .and_then(|()| layout::write(path, text))
            .map_err(Failure::image)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_kconfig_writes_is_an_option_and_what_it_would_pass_over_is_none() {
        for line in [
            "",
            "  # anything",
            "CONFIG_A=y",
            "CONFIG_9P_FS=y",
            "# CONFIG_B is not set",
            "CONFIG_C=\"x = y\"",
            "CONFIG_CMDLINE=\"console=ttyS0,115200 root=/dev/vda1\"",
            "CONFIG_D=\"\"",
            "CONFIG_E=-0x1f",
        ] {
            assert!(is_option(line), "{line}");
        }
        for line in [
            "A=y",
            "CONFIG_A",
            "CONFIG_A =y",
            "CONFIG_A= y",
            "CONFIG_=y",
            "CONFIG_A=",
            "CONFIG_A=y # why",
        ] {
            assert!(!is_option(line), "{line}");
        }
    }

    #[test]
    fn what_make_or_a_shell_would_heed_is_no_value() {
        for value in [
            "\"$(shell id)\"",
            "\"`id`\"",
            "\"a;id\"",
            "\"a\\\"b\"",
            "\"a\" \"b\"",
            "\"a'b\"",
            "\"a#b\"",
            "\"a|b\"",
            "\"open",
            "\"",
            "$(id)",
            "y;id",
        ] {
            assert!(!is_value(value), "{value}");
        }
    }
}
