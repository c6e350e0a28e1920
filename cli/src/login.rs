//! Names and passwords in addresses of images on servers. They are taken out
//! before anything else sees the command line, so that no message can show them.

use crate::command_line::Cli;
use crate::options_first::verb;
use clap::CommandFactory;
use std::ffi::OsString;
use tane::images::Login;

/// The arguments without logins, and these.
pub fn take_out(args: Vec<OsString>) -> (Vec<OsString>, Vec<Login>) {
    let mut logins = Vec::new();
    let mut bare = |argument: OsString| {
        let Some(text) = argument.to_str() else {
            return argument;
        };
        // As `--with=https://…`, too.
        let start = match text.split_once('=') {
            Some((option, _)) if option.starts_with("--") => option.len() + 1,
            _ => 0,
        };
        match Login::take(&text[start..]) {
            Some((rest, login)) => {
                logins.push(login);
                format!("{}{rest}", &text[..start]).into()
            }
            None => argument,
        }
    };
    // What is behind it are the words of a program, whose address is none of ours.
    let dashes = args.iter().position(|arg| arg == "--");
    let runs = |before: &[OsString]| {
        let is_one = |arg: &OsString| arg == "run" || arg == "run-module";
        before.iter().any(is_one)
            && matches!(verb(&Cli::command(), before), Some("run" | "run-module"))
    };
    let end = dashes.filter(|end| runs(&args[..*end]));
    let mut args = args;
    let own = args.split_off(end.unwrap_or(args.len()));
    let args = args.into_iter().map(&mut bare).chain(own).collect();
    (args, logins)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logins_are_taken_out_of_addresses_and_nothing_else() {
        let words = [
            "tane",
            "http://a:b@h/x@1:/y",
            "--with=https://c@h/z",
            "d@e:/f",
        ];
        let (args, logins) = take_out(words.map(OsString::from).to_vec());
        let wanted = ["tane", "http://h/x@1:/y", "--with=https://h/z", "d@e:/f"];
        assert_eq!(args, wanted.map(OsString::from));
        assert_eq!(logins.len(), 2);
        let words = [
            "tane",
            "run",
            "--root",
            "http://a:b@h/x",
            "--",
            "http://a:b@h/y",
        ];
        let (args, logins) = take_out(words.map(OsString::from).to_vec());
        let wanted = [
            "tane",
            "run",
            "--root",
            "http://h/x",
            "--",
            "http://a:b@h/y",
        ];
        assert_eq!(args, wanted.map(OsString::from));
        assert_eq!(logins.len(), 1);
        // Only that verb has words of a program, wherever else the word is.
        for words in [
            &["tane", "ls", "run", "--", "http://a:b@h/y"][..],
            &[
                "tane",
                "--passphrase-file",
                "run",
                "ls",
                "--",
                "http://a:b@h/y",
            ],
            &["tane", "ls", "--", "run", "http://a:b@h/y"],
        ] {
            let (args, logins) = take_out(words.iter().map(OsString::from).collect());
            assert_eq!(args.last().expect("an address"), "http://h/y", "{words:?}");
            assert_eq!(logins.len(), 1);
        }
        let (_, logins) = take_out(
            ["tane", "--fs", "ext4", "run", "--", "http://a:b@h/y"]
                .map(OsString::from)
                .to_vec(),
        );
        assert_eq!(logins.len(), 0);
    }
}
