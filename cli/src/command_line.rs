//! The command line: the verbs, and the options of all of them (`args.rs`).

use crate::options_first::options_first;
use crate::session::Global;
use crate::tell;
use crate::verbs::*;
use clap::{Args, Command, CommandFactory, FromArgMatches, Parser, Subcommand};
use std::ffi::OsString;

const LONG_ABOUT: &str = "\
Look into disk images and copy in and out of them.

The file system in the image is read and written by real Linux, loaded into
this process as a library: no root, no mount, no virtual machine.

An address is IMAGE:/path. When an image holds several file systems, a selector
says which one is meant: IMAGE@2:/path (partition number), IMAGE@label=NAME:/path,
IMAGE@uuid=UUID:/path or IMAGE@GROUP/VOLUME:/path (LVM); IMAGE@subvol=PATH:/path, or
,subvol=PATH behind any of them, takes a btrfs subvolume for the root. /path may be a
pattern with *, ? and [...], in quotes. Reading never changes a byte of the image.";

const AFTER_HELP: &str = "\
Examples:
  tane ls -l disk.img                      the root directory
  tane cp disk.img:/etc/fstab .            one file out
  tane cp disk.img:/. tree                 everything out
  tane cp app disk.img@2:/opt              a directory into partition 2
  tane cat disk.img:/var/log/syslog | less
  tane inspect disk.img                    partitions and file systems
  tane cat https://host/vm.qcow2@1:/etc/os-release
  tane cp app 'nbd+unix:///vm?socket=/run/nbd@2:/opt'

Addresses:
  An argument means an image if it contains \":/\" and the text before it names an
  existing file, with or without @SELECTOR. What exists under its full name is
  always that file; a name with a colon but no \":/\", like a:b, is never an image.
  On servers: https://HOST/IMAGE (http: too), to be read, and exports of NBD servers,
  nbd://HOST[:PORT]/EXPORT or nbd+unix:///EXPORT?socket=PATH, to be written too; and
  files of servers, of 9p (9p://[USER@]HOST[:PORT]/TREE, 9p+unix:///TREE?socket=PATH) and
  of NFS (nfs://[USER@]HOST[:PORT]/EXPORT).

Exit codes:
  0    done
  1    some files failed, something was left behind under --strict, diff found a
       difference, or check a broken rule
  2    the command line makes no sense
  3    the image cannot be opened or mounted
  124  --time-limit or --hang-limit has passed
  130  interrupted";

/// Columns of a help page, at most.
const WIDTH: usize = 90;

#[derive(Parser)]
#[command(
    name = "tane",
    version,
    about = "Look into disk images and copy in and out of them"
)]
#[command(long_about = LONG_ABOUT, after_help = AFTER_HELP, max_term_width = WIDTH)]
#[command(disable_help_subcommand = true, subcommand_required = true)]
pub struct Cli {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub verb: Verb,
}

impl Cli {
    /// As `parse_from`. A verb that comes first is all the grammar there is: each of
    /// three dozen would get a copy of every option in [`Global`], and a small file is
    /// read out of an image in a few times the time that this takes.
    pub fn read(args: Vec<OsString>) -> Cli {
        let first = args.get(1).and_then(|arg| arg.to_str());
        let Some(command) = first.and_then(Cli::with_one) else {
            let args = options_first(&Cli::command(), args, 1);
            return Cli::try_parse_from(args).unwrap_or_else(|e| leave(&e));
        };
        let args = options_first(&command, args, 1);
        let matches = command.try_get_matches_from(args);
        let cli = matches.and_then(|matches| Cli::from_arg_matches(&matches));
        cli.unwrap_or_else(|error| leave(&error))
    }

    /// The grammar of a command line that begins with this verb.
    fn with_one(verb: &str) -> Option<Command> {
        let command = Command::new("tane")
            .max_term_width(WIDTH)
            .disable_help_subcommand(true);
        Some(Global::augment_args(command).subcommand(Verb::alone(verb)?))
    }
}

/// Says what is wrong with the command line, or what was asked (help).
fn leave(error: &clap::Error) -> ! {
    tell::usage(error);
    std::process::exit(error.exit_code())
}

macro_rules! verbs {
    ($($(#[$attribute:meta])* $variant:ident($verb:ident) $name:literal,)*) => {
        #[derive(Subcommand)]
        pub enum Verb {
            $($(#[$attribute])* #[command(name = $name)] $variant($verb::Args),)*
        }

        impl Verb {
            /// The grammar of one verb.
            pub fn alone(name: &str) -> Option<Command> {
                match name {
                    $($name => Some($verb::Args::augment_args(Command::new($name))),)*
                    _ => None,
                }
            }
        }
    };
}

verbs! {
    Inspect(inspect) "inspect",
    Ls(ls) "ls",
    Cat(cat) "cat",
    Stat(stat) "stat",
    Find(find) "find",
    Df(df) "df",
    Du(du) "du",
    Tree(tree) "tree",
    Diff(diff) "diff",
    Cp(cp) "cp",
    Edit(edit) "edit",
    Mkdir(mkdir) "mkdir",
    Rm(rm) "rm",
    Mv(mv) "mv",
    Ln(ln) "ln",
    Chmod(chmod) "chmod",
    Chown(chown) "chown",
    Touch(touch) "touch",
    Truncate(truncate) "truncate",
    Xattr(xattr) "xattr",
    Trim(trim) "trim",
    Mkfs(mkfs) "mkfs",
    Fsck(fsck) "fsck",
    Resize(resize) "resize",
    Convert(convert) "convert",
    Label(label) "label",
    Uuid(uuid) "uuid",
    MakeImage(make_image) "make-image",
    Tar(tar) "tar",
    Mount(mount) "mount",
    Umount(umount) "umount",
    Sh(sh) "sh",
    Run(run) "run",
    Net(net) "net",
    Lab(lab) "lab",
    Syscall(syscall) "syscall",
    Dmesg(dmesg) "dmesg",
    Trace(trace) "trace",
    Probe(probe) "probe",
    Fuzz(fuzz) "fuzz",
    Kaslr(kaslr) "kaslr",
    Module(module) "module",
    Kernel(kernel) "kernel",
    Build(build) "build",
    Check(check) "check",
    RunModule(run_module) "run-module",
    Bench(bench) "bench",
    #[command(hide = true)]
    Generate(generate) "generate",
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words of a command line, without quotes. Two spaces begin what it does,
    /// and a pipe or `&&` another one.
    fn words(line: &str) -> Vec<String> {
        let (mut words, mut word, mut quote) = (Vec::new(), String::new(), None);
        let mut rest = line.chars();
        while let Some(c) = rest.next() {
            match (quote, c) {
                (Some(q), c) if q == c => quote = None,
                (None, '\'' | '"') => quote = Some(c),
                (None, '|' | '>' | '&' | '#') => break,
                (None, ' ') if rest.as_str().starts_with(' ') => break,
                (None, ' ') => words.push(std::mem::take(&mut word)),
                _ => word.push(c),
            }
        }
        words.push(word);
        words.retain(|word| !word.is_empty());
        words
    }

    /// The command lines in a text.
    fn command_lines(text: &str) -> impl Iterator<Item = Vec<String>> + '_ {
        // Not those that go on, or leave something out.
        let whole = |line: &str| !line.ends_with('\\') && !line.contains("...");
        let starts = move |line: &&str| line.starts_with("tane ") && whole(line);
        let parts = text.lines().map(str::trim);
        let parts = parts.flat_map(|line| line.split(" && "));
        parts.filter(starts).map(words)
    }

    #[test]
    fn command_lines_in_the_help_and_the_documentation_are_understood() {
        use clap::CommandFactory;
        let mut texts = vec![
            include_str!("../../README.md").to_owned(),
            include_str!("../../docs/cli.md").to_owned(),
            include_str!("../../docs/jail.md").to_owned(),
        ];
        let command = Cli::command();
        for command in std::iter::once(&command).chain(command.get_subcommands()) {
            texts.extend(command.get_after_help().map(ToString::to_string));
        }
        let mut count = 0;
        for text in &texts {
            for line in command_lines(text) {
                let words = crate::verbs::find::accept_single_dashes(
                    line.iter().map(std::ffi::OsString::from),
                );
                let parsed = Cli::try_parse_from(words);
                assert!(parsed.is_ok(), "{line:?}: {}", parsed.err().unwrap());
                count += 1;
            }
        }
        assert!(count > 50, "{count}");
    }

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }

    #[test]
    fn a_verb_that_comes_first_is_read_as_among_all_verbs() {
        use clap::CommandFactory;
        let help = |mut command: Command, verb: &str| {
            command.build();
            let found = command.find_subcommand_mut(verb).expect(verb);
            found.render_long_help().to_string()
        };
        for verb in Cli::command().get_subcommands() {
            let verb = verb.get_name();
            let one = Cli::with_one(verb).unwrap_or_else(|| panic!("no verb {verb}"));
            assert_eq!(help(one, verb), help(Cli::command(), verb));
        }
    }
}
