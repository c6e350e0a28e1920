//! The command line.

use crate::failure::Failure;
use crate::interrupt;
use crate::options_first::options_first;
use crate::session::Kept;
use crate::tell;
use crate::verbs::*;
use clap::{Args, Command, CommandFactory, FromArgMatches, Parser, Subcommand};
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tane::images::Patience;
pub use tane::parse_size;
use tane::Address;

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

Addresses:
  An argument means an image if it contains \":/\" and the text before it names an
  existing file, with or without @SELECTOR. What exists under its full name is
  always that file; a name with a colon but no \":/\", like a:b, is never an image.

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

/// Options of every verb.
#[derive(Args, Clone, Debug, Default)]
pub struct Global {
    /// The Linux image to load (default: the one installed with tane)
    #[arg(
        long,
        global = true,
        value_name = "PATH",
        visible_alias = "image-kernel"
    )]
    #[arg(help_heading = "Kernel and mount")]
    pub kernel: Option<PathBuf>,
    /// Memory for that Linux (default: 256M; of cat, cp and tar 112M, and 1M for every
    /// 16G of the image, up to that)
    #[arg(long, global = true, value_name = "SIZE", value_parser = parse_size)]
    #[arg(help_heading = "Kernel and mount")]
    pub memory: Option<u64>,
    /// Virtual CPUs of that Linux (default: 1; the tiny image has no more)
    #[arg(long, global = true, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    #[arg(help_heading = "Kernel and mount")]
    pub cpus: Option<u32>,
    /// Words for the command line of that Linux, for example nokaslr
    #[arg(long, global = true, value_name = "WORDS")]
    #[arg(help_heading = "Kernel and mount")]
    pub append: Option<String>,
    /// The file system's type, if it should not be detected
    #[arg(
        long,
        global = true,
        value_name = "TYPE",
        help_heading = "Kernel and mount"
    )]
    pub fs: Option<String>,
    /// Mount options of the file system, separated by commas
    #[arg(
        long,
        global = true,
        value_name = "OPTIONS",
        help_heading = "Kernel and mount"
    )]
    pub options: Option<String>,
    /// What the image is, if its content should not tell: raw, qcow2, vmdk, vhd,
    /// vhdx, vdi, qcow, qed, dmg, ewf, android-sparse, split, gzip, xz, zstd or bzip2
    #[arg(long, global = true, value_name = "FORMAT", help_heading = "Image")]
    pub format: Option<tane::images::Format>,
    /// Write to FILE, a qcow2 on top of the image, which stays as it is; ":memory:"
    /// keeps what is written in memory, and forgets it at the end
    #[arg(long, global = true, value_name = "FILE", help_heading = "Image")]
    pub overlay: Option<PathBuf>,
    /// A file or directory that an image may name as its backing file, its extent or the
    /// parent that it is a difference from (those beside the image it always may); can be repeated
    #[arg(long, global = true, value_name = "PATH", help_heading = "Image")]
    pub trust: Vec<PathBuf>,
    /// A further image of the same machine: another disk of its LVM group, RAID set
    /// or btrfs; can be repeated
    #[arg(long, global = true, value_name = "IMAGE", help_heading = "Image")]
    pub with: Vec<PathBuf>,
    /// A layer below the image, IMAGE or IMAGE@SELECTOR: its files are seen where the
    /// image has none of that name, as overlayfs shows them, for reading. Can be
    /// repeated, each below those before
    #[arg(long, global = true, value_name = "IMAGE", help_heading = "Image")]
    pub lower: Vec<PathBuf>,
    /// A file whose first line opens LUKS and BitLocker volumes and encrypted images; - is
    /// standard input
    #[arg(long, global = true, value_name = "FILE", help_heading = "Image")]
    pub passphrase_file: Option<PathBuf>,
    /// A file whose whole content opens LUKS volumes and encrypted images; the startup key
    /// (.BEK) of a BitLocker volume
    #[arg(long, global = true, value_name = "FILE", help_heading = "Image")]
    pub key_file: Option<PathBuf>,
    /// Wait for other programs that use an image until they end, or for so long, rather
    /// than fail
    #[arg(long, global = true, value_name = "TIME", help_heading = "Image")]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "none")]
    #[arg(value_parser = parse_hang)]
    pub wait: Option<Duration>,
    /// The sectors of the disk that the image is of, if they are not 512 bytes: a
    /// partition table counts in them
    #[arg(long, global = true, value_name = "BYTES", help_heading = "Image")]
    #[arg(value_parser = parse_sector_size)]
    pub sector_size: Option<u32>,
    /// Have dm-verity check what this root hash (hexadecimal) is of; the hashes are on
    /// another volume, or on the same one with ,offset=BYTES
    #[arg(long, global = true, value_name = "HASH", help_heading = "Image")]
    #[arg(value_parser = str::parse::<tane::Verity>)]
    pub verity: Option<tane::Verity>,
    /// Names and passwords that were in addresses
    #[arg(skip)]
    pub logins: Vec<tane::images::Login>,
    /// Run the image's Linux with all of your rights: for images that you trust, and
    /// to debug
    #[arg(long, global = true, help_heading = "Jail")]
    pub no_jail: bool,
    /// End after this time: seconds, or a number and s, m or h (default: none)
    #[arg(long, global = true, value_name = "TIME", value_parser = parse_time)]
    #[arg(help_heading = "Jail")]
    pub time_limit: Option<Duration>,
    /// End when that Linux looks for volumes, mounts or unmounts for this time without
    /// asking a disk for anything; or none (default: 3m)
    #[arg(long, global = true, value_name = "TIME", value_parser = parse_hang)]
    #[arg(help_heading = "Jail")]
    pub hang_limit: Option<Duration>,
    /// Memory for everything but that Linux's own (--memory), or none (default: 4G)
    #[arg(long, global = true, value_name = "SIZE", value_parser = parse_limit)]
    #[arg(help_heading = "Jail")]
    pub memory_limit: Option<u64>,
    /// Print JSON: one object per line
    #[arg(long, global = true, help_heading = "Output")]
    pub json: bool,
    /// No warnings
    #[arg(short, long, global = true, help_heading = "Output")]
    pub quiet: bool,
    /// Tell what is being done
    #[arg(short, long, global = true, help_heading = "Output")]
    pub verbose: bool,
    /// What is open already.
    #[arg(skip)]
    pub kept: Kept,
    /// What is read and written is needed once.
    #[arg(skip)]
    pub copies: bool,
    /// A program is run by the Linux of an image.
    #[arg(skip)]
    pub runs: bool,
    /// The layers of --lower are below another image than the one to be opened.
    #[arg(skip)]
    pub alone: bool,
}

impl Global {
    /// For verbs that copy, be it to standard output.
    pub fn copying(&self) -> Global {
        Global {
            copies: true,
            ..self.clone()
        }
    }

    /// For the destination of a copy: the layers are below the source.
    pub fn above(&self, source: &Address, dest: &Address) -> Result<Global, Failure> {
        let text = match (source, dest) {
            _ if self.lower.is_empty() => None,
            (Address::Host(_), _) => Some("is for images that are read, and the source is none"),
            (Address::Image(a), Address::Image(b)) if a.same_file(b) => {
                Some("shows several images as one for reading, and this one is written")
            }
            _ => None,
        };
        if let Some(text) = text {
            return Err(Failure::usage(format!("--lower {text}")));
        }
        Ok(Global {
            alone: true,
            ..self.clone()
        })
    }

    /// How to wait for other programs, if that is wanted.
    pub fn patience(&self) -> Option<Patience> {
        let quiet = self.quiet;
        Some(Patience {
            limit: self.wait?,
            interrupted: Arc::new(interrupt::requested),
            say: Arc::new(move |text| {
                if !quiet {
                    crate::tell::note(text);
                }
            }),
        })
    }

    /// Whether what is written is to be forgotten.
    pub fn forgets(&self) -> bool {
        self.overlay
            .as_deref()
            .is_some_and(|p| p.as_os_str() == ":memory:")
    }
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
    Syscall(syscall) "syscall",
    Dmesg(dmesg) "dmesg",
    Trace(trace) "trace",
    Probe(probe) "probe",
    Kaslr(kaslr) "kaslr",
    Build(build) "build",
    Check(check) "check",
    RunModule(run_module) "run-module",
    Bench(bench) "bench",
    #[command(hide = true)]
    Generate(generate) "generate",
}

fn parse_sector_size(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(size @ (512 | 1024 | 2048 | 4096)) => Ok(size),
        _ => Err("disks have sectors of 512, 1024, 2048 or 4096 bytes".into()),
    }
}

fn parse_limit(text: &str) -> Result<u64, String> {
    match text {
        "none" => Ok(u64::MAX),
        _ => parse_size(text),
    }
}

/// What was never is none.
fn parse_hang(text: &str) -> Result<Duration, String> {
    match text {
        "none" => Ok(Duration::MAX),
        _ => parse_time(text),
    }
}

/// A number of seconds, or of what the letter behind it says.
pub fn parse_time(text: &str) -> Result<Duration, String> {
    let (digits, unit) = match text.char_indices().last() {
        Some((i, 's')) => (&text[..i], 1.0),
        Some((i, 'm')) => (&text[..i], 60.0),
        Some((i, 'h')) => (&text[..i], 3600.0),
        _ => (text, 1.0),
    };
    let number: Option<f64> = digits.parse().ok();
    let time = number.and_then(|n| Duration::try_from_secs_f64(n * unit).ok());
    time.filter(|t| !t.is_zero())
        .ok_or_else(|| "not a time: write a number of seconds, or 5m, or 1h".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        assert_eq!(parse_time("1.5"), Ok(Duration::from_millis(1500)));
        assert_eq!(parse_time("2m"), Ok(Duration::from_secs(120)));
        for wrong in ["", "0", "-1", "soon", "1d", "nan", "inf"] {
            assert!(parse_time(wrong).is_err(), "{wrong}");
        }
    }

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
