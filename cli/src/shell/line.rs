//! What a line can be: the verbs of the command line, and what a session has of
//! its own.

use crate::args::Options;
use crate::command_line::Verb;
use crate::failure::{Failure, Result};
use crate::options_first::options_first;
use crate::session::Global;
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use tane::is_remote;

#[derive(Parser)]
#[command(name = "tane", bin_name = "", no_binary_name = true)]
#[command(subcommand_required = true, max_term_width = 90)]
#[command(about = "Commands of a session; help COMMAND tells more")]
pub struct Line {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub what: What,
}

#[derive(Subcommand)]
pub enum What {
    #[command(flatten)]
    Own(Own),
    #[command(flatten)]
    Verb(Box<Verb>),
}

#[derive(Subcommand)]
pub enum Own {
    /// Go to a directory of this image, or of another one (IMAGE:/DIR)
    Cd {
        /// Where to; / if left out, and - is where you were before
        #[arg(value_name = "DIR", default_value = "/", allow_hyphen_values = true)]
        dir: OsString,
    },
    /// Show where you are
    Pwd,
    /// Go to a directory of the host
    Lcd {
        /// Where to; the home directory if left out
        #[arg(value_name = "HOST-DIR")]
        dir: Option<PathBuf>,
    },
    /// Show where you are on the host
    Lpwd,
    /// Copy a file or directory out to the host: cp PATH host:DEST
    Get {
        path: OsString,
        #[arg(value_name = "HOST-DEST", default_value = ".")]
        dest: OsString,
    },
    /// Copy a file or directory of the host in: cp host:PATH DEST
    Put {
        #[arg(value_name = "HOST-PATH")]
        path: OsString,
        #[arg(default_value = ".")]
        dest: OsString,
    },
    /// Open an image, with options of its own (--overlay, --with, --fs, ...), and go there
    Open {
        #[arg(value_name = "IMAGE")]
        image: OsString,
    },
    /// Unmount an image, by default the one you are in
    Close {
        #[arg(value_name = "IMAGE")]
        image: Option<OsString>,
    },
    /// Show the images that are open
    Images,
    /// Have all changes written to the images
    Sync,
    /// Go back to before the last command that wrote (tane sh --undo)
    Undo,
    /// Print words
    Echo {
        #[arg(
            value_name = "WORD",
            trailing_var_arg = true,
            allow_hyphen_values = true
        )]
        words: Vec<OsString>,
    },
    /// set -e: end with the first command that fails; set +e: go on
    Set {
        #[arg(value_parser = ["-e", "+e"], allow_hyphen_values = true)]
        option: String,
    },
    /// End the session
    #[command(visible_alias = "quit")]
    Exit {
        /// Its exit code; that of the last command if left out
        code: Option<u8>,
    },
}

/// Verbs that are no commands of a session.
const APART: [&str; 14] = [
    "bench", "edit", "fuzz", "generate", "kaslr", "kernel", "lab", "module", "mount", "net",
    "probe", "sh", "trace", "umount",
];
/// Verbs whose argument may be left out: the current directory.
const HERE: [(&str, &str); 6] = [
    ("df", "images"),
    ("du", "paths"),
    ("find", "paths"),
    ("ls", "paths"),
    ("tree", "paths"),
    ("trim", "images"),
];

/// The grammar of a line. `inside`: the session is in an image.
pub fn grammar(inside: bool) -> clap::Command {
    let mut command = Line::command();
    for verb in APART {
        command = command.mut_subcommand(verb, |c| c.hide(true));
    }
    if inside {
        for (verb, id) in HERE {
            command = command.mut_subcommand(verb, |c| {
                c.mut_arg(id, |a| a.required(false).default_value("."))
            });
        }
    }
    command
}

/// The grammar of a line that begins with this word: a command is all that there is. Each of
/// three dozen would get a copy of every option in [`Global`], for each line twice.
fn grammar_of_one(command: &str, inside: bool) -> Option<clap::Command> {
    if APART.contains(&command) {
        return None;
    }
    let of_own = || {
        let own = Own::augment_subcommands(clap::Command::new("tane"));
        own.find_subcommand(command).cloned()
    };
    let mut one = Verb::alone(command).or_else(of_own)?;
    if let Some((_, id)) = HERE.iter().find(|(verb, _)| inside && *verb == command) {
        one = one.mut_arg(id, |a| a.required(false).default_value("."));
    }
    let line = clap::Command::new("tane").bin_name("").no_binary_name(true);
    let line = line.subcommand_required(true).max_term_width(90);
    Some(Global::augment_args(line).subcommand(one))
}

impl Line {
    pub fn parse_words(
        words: Vec<OsString>,
        inside: bool,
    ) -> std::result::Result<Line, clap::Error> {
        let words = crate::verbs::find::accept_single_dashes(words.into_iter());
        let first = words.first().and_then(|word| word.to_str());
        let one = first.and_then(|command| grammar_of_one(command, inside));
        let grammar = one.unwrap_or_else(|| grammar(inside));
        let words = options_first(&grammar, words, 0);
        let matches = grammar.try_get_matches_from(words)?;
        Line::from_arg_matches(&matches)
    }

    /// The line's options on top of the session's, as they are meant in `dir`.
    pub fn options(&self, base: &Global, dir: &Path) -> Result<Global> {
        let Options {
            kernel,
            memory,
            cpus,
            append,
            fs,
            options,
            format,
            overlay,
            trust,
            with,
            lower,
            passphrase_file,
            key_file,
            sector_size,
            verity,
            wait,
            no_jail,
            time_limit,
            hang_limit,
            memory_limit,
            json,
            quiet,
            verbose,
        } = (*self.global).clone();
        let whole = kernel.is_some() || memory.is_some() || cpus.is_some() || append.is_some();
        if whole
            || no_jail
            || time_limit.is_some()
            || hang_limit.is_some()
            || memory_limit.is_some()
        {
            let text = "options of the kernel and of the jail are for the whole session: \
                        tane sh --kernel ...";
            return Err(Failure::usage(text));
        }
        let own = fs.is_some() || options.is_some() || format.is_some() || overlay.is_some();
        let own = own || passphrase_file.is_some() || key_file.is_some();
        let own = own || sector_size.is_some() || verity.is_some();
        let own = own || !trust.is_empty() || !with.is_empty() || !lower.is_empty();
        if own && !matches!(self.what, What::Own(Own::Open { .. })) {
            return Err(Failure::usage(
                "options of an image are for the command that opens it: open --overlay FILE IMAGE",
            ));
        }
        let mut global = base.clone();
        global.json |= json;
        global.quiet |= quiet;
        global.verbose |= verbose;
        global.wait = wait.or(global.wait);
        if own {
            *global = Options {
                fs,
                options,
                format,
                overlay,
                trust,
                with,
                lower,
                passphrase_file,
                key_file,
                sector_size,
                verity,
                ..(*global).clone()
            };
            absolute(&mut global, dir)?;
        }
        Ok(global)
    }
}

/// What names files of the host, from `dir`, must mean the same after `lcd`.
pub fn absolute(options: &mut Options, dir: &Path) -> Result<()> {
    let one = |path: &mut PathBuf| {
        let is_file = path.as_os_str() != "-" && path.as_os_str() != ":memory:";
        if is_file && !is_remote(path) {
            *path = std::path::absolute(dir.join(&*path))
                .map_err(|e| Failure::usage(format!("{}: {e}", path.display())))?;
        }
        Ok(())
    };
    let single = [
        &mut options.overlay,
        &mut options.passphrase_file,
        &mut options.key_file,
    ];
    single.into_iter().flatten().try_for_each(one)?;
    options.trust.iter_mut().try_for_each(one)?;
    options.with.iter_mut().try_for_each(one)?;
    options.lower.iter_mut().try_for_each(one)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grammar_of_a_line_is_consistent() {
        grammar(false).debug_assert();
        grammar(true).debug_assert();
    }

    #[test]
    fn a_line_is_what_it_is_whether_its_command_is_all_of_the_grammar_or_not() {
        let mut commands = 0;
        for inside in [false, true] {
            for command in grammar(inside).get_subcommands() {
                let name = command.get_name();
                let Some(one) = grammar_of_one(name, inside) else {
                    assert!(APART.contains(&name), "{name}");
                    continue;
                };
                commands += 1;
                for rest in [
                    &[][..],
                    &["--no-such-option"],
                    &["--json", "x"],
                    &["x", "y", "z"],
                ] {
                    let words = || std::iter::once(name).chain(rest.iter().copied());
                    let said = |grammar: clap::Command| {
                        let matches = grammar.try_get_matches_from(words());
                        let line = matches.and_then(|matches| {
                            let line = Line::from_arg_matches(&matches)?;
                            Ok((
                                matches.subcommand_name().map(str::to_owned),
                                line.global.json,
                            ))
                        });
                        line.map_err(|e| (e.kind(), e.to_string()))
                    };
                    assert_eq!(said(one.clone()), said(grammar(inside)), "{name} {rest:?}");
                }
            }
        }
        assert!(commands > 60);
        // What begins with no command has all of it.
        for word in ["help", "--json", "no-such", ""] {
            assert!(grammar_of_one(word, true).is_none(), "{word}");
        }
    }
}
