//! The loop of a session.

use super::complete::Completer;
use super::editor::Editor;
use super::input::Input;
use super::lexer::{self, Word, Words};
use super::line::{absolute, Line, What};
use super::{builtins, named, patterns, Named};
use crate::command_line::Verb;
use crate::failure::{Failure, Result, INTERRUPTED, SOME_FAILED, USAGE};
use crate::interrupt;
use crate::login;
use crate::names::shown;
use crate::session::Global;
use crate::session::{self, Access, Here, Kept, OnlyReads, Written};
use crate::tell;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// What `tane sh` is told.
pub struct Settings {
    pub images: Vec<OsString>,
    pub errexit: bool,
    pub read_only: bool,
    /// Commands may write, whatever is known of them.
    pub rw: bool,
    /// Commands that wrote can be undone.
    pub undo: bool,
    /// Directories of the host.
    pub shared: Vec<PathBuf>,
}

pub struct Shell {
    global: Global,
    pub errexit: bool,
    /// Where the session was before the last `cd`.
    pub before: Option<Here>,
    /// Exit code of the last command.
    code: u8,
}

/// What comes after a command.
pub enum Step {
    /// The next; this one's exit code.
    Done(u8),
    /// This line, in its place.
    Again(Words),
    /// The end; the session's exit code.
    Exit(Option<u8>),
    /// Nobody reads what is written any more.
    Unheard,
}

/// Runs a session until its input ends; its exit code.
/// None: what standard input is decides.
pub fn run(settings: Settings, input: Option<Input>, global: &Global) -> Result<u8> {
    let mut global = Global {
        kept: Kept::session(),
        ..global.clone()
    };
    absolute(&mut global, Path::new(""))?;
    if settings.undo {
        global.kept.undoes();
    }
    let mut input = match input {
        Some(input) => input,
        None if Input::is_typed() => {
            let global = global.clone();
            Input::Terminal(Box::new(Editor::new(Completer { global })))
        }
        None => Input::Standard,
    };
    interrupt::begin_session(input.is_interactive());
    let first = settings.images.first();
    let first = first.map(|image| session::begun_with(image, &global));
    let first = first.transpose()?;
    let look = |text: &[u8]| named::look(text, first.as_deref(), &global);
    let later = input.script().map(look);
    let (known, written) = match (&later, input.ahead()) {
        (Some(named), _) => (Some(named.writes), named.written.clone()),
        // Of what comes with commands, nobody names what else is opened.
        (None, Some(text)) => {
            let named = look(&text);
            (Some(named.writes), named.written)
        }
        (None, None) => (None, Vec::new()),
    };
    let mut later = later.unwrap_or(Named {
        lists: true,
        ..Named::default()
    });
    // An overlay is named to be written.
    let writes = settings.rw || known.unwrap_or(global.overlay.is_some());
    let written = match known {
        Some(_) if !settings.rw => Written::These(written),
        _ => Written::All,
    };
    let access = match (settings.read_only, writes) {
        (true, _) => global.kept.only_reads(OnlyReads::AsTold),
        (false, false) => global.kept.only_reads(OnlyReads::Unasked),
        (false, true) => Access::Write,
    };
    if !settings.shared.is_empty() {
        // Who says what is shared means that and no more.
        (later.sources, later.dests) = Default::default();
    }
    let (images, shared) = (&settings.images, &settings.shared);
    session::begin(images, later, shared, (access, written), &global)?;
    let mut shell = Shell {
        global,
        errexit: settings.errexit,
        before: None,
        code: 0,
    };
    let done = shell.session(&settings.images, &mut input);
    // The handle of the completion must not outlive what it looks into.
    drop(input);
    let closed = shell.global.kept.close_all();
    let code = done?;
    closed?;
    Ok(code)
}

impl Shell {
    fn session(&mut self, images: &[OsString], input: &mut Input) -> Result<u8> {
        let mut first = None;
        for image in images {
            // Each for itself: a name is an image's.
            self.global.kept.go(None);
            let here = builtins::go(image, &self.global)?;
            first.get_or_insert(here);
        }
        self.global.kept.go(first);
        let interactive = input.is_interactive();
        let mut number = 0;
        loop {
            let mut text = Vec::new();
            let commands = loop {
                let prompt = match text.is_empty() {
                    true => self.prompt(),
                    false => "> ".into(),
                };
                let line = input.line(&prompt)?;
                if interrupt::session_is_over() {
                    return Ok(INTERRUPTED);
                }
                let Some(line) = line else {
                    break Ok(Vec::new());
                };
                interrupt::begin_line();
                number += 1;
                if line.is_empty() {
                    if text.is_empty() {
                        return Ok(self.code);
                    }
                    // As far as it goes: a script may lack its last newline.
                    let open = || "a quote without its end".to_owned();
                    break lexer::commands(&text).and_then(|c| c.ok_or_else(open));
                }
                text.extend_from_slice(&line);
                match lexer::commands(&text) {
                    Ok(None) => {}
                    Ok(Some(commands)) => break Ok(commands),
                    Err(e) => break Err(e),
                }
            };
            let commands = commands.unwrap_or_else(|e| {
                tell::failure(&Failure::usage(e));
                self.code = USAGE;
                Vec::new()
            });
            let failed_to_parse = commands.is_empty() && self.code == USAGE;
            if failed_to_parse && self.errexit {
                self.tell_the_end(number, interactive);
                return Ok(self.code);
            }
            for words in commands {
                // Also one between two commands of a line ends the line.
                let step = match interrupt::check() {
                    Ok(()) => self.command(words),
                    Err(failure) => {
                        tell::failure(&failure);
                        Step::Done(failure.code)
                    }
                };
                match step {
                    Step::Exit(code) => return Ok(code.unwrap_or(self.code)),
                    Step::Unheard => return Ok(0),
                    Step::Done(code) => self.code = code,
                    Step::Again(_) => {}
                }
                if interrupt::session_is_over() {
                    return Ok(INTERRUPTED);
                }
                if self.code != 0 && self.errexit {
                    self.tell_the_end(number, interactive);
                    return Ok(self.code);
                }
                if self.code == INTERRUPTED {
                    // The rest of the line was meant too.
                    break;
                }
            }
        }
    }

    fn tell_the_end(&self, line: u64, interactive: bool) {
        if !self.global.quiet && !interactive {
            let code = self.code;
            tell::note(&format!("stopped at line {line}: exit code {code}"));
        }
    }

    fn prompt(&self) -> String {
        let Some(here) = self.global.kept.here() else {
            return "tane> ".into();
        };
        let name = here.image.file_name().unwrap_or(here.image.as_os_str());
        let text = [name.as_bytes(), &here.selector_text(), b":", &here.dir].concat();
        format!("{}> ", shown(&text))
    }

    /// Runs one command.
    fn command(&mut self, words: Vec<Word>) -> Step {
        self.global.kept.begin_command(|| {
            let words = words.iter().map(|word| shown(word.text.as_bytes()));
            words.collect::<Vec<_>>().join(" ")
        });
        if words.iter().any(|word| word.pattern.is_some()) && !session::confines_session() {
            // What they stand for is looked for in the session's jail, which lets in the
            // images of its first command.
            let inside = self.global.kept.here().is_some();
            let named = named::images(words.clone(), inside, &self.global);
            session::declare_images(named);
        }
        let mut next = patterns::expanded(words, &self.global);
        loop {
            match next.and_then(|words| self.step(words)) {
                Ok(Step::Again(instead)) => next = Ok(instead),
                Ok(step) => return step,
                Err(Failure { code: 0, .. }) => return Step::Unheard,
                Err(failure) => {
                    tell::failure(&failure);
                    return Step::Done(failure.code);
                }
            }
        }
    }

    fn step(&mut self, words: Words) -> Result<Step> {
        let (words, logins) = login::take_out(words);
        self.global.logins.extend(logins);
        let inside = self.global.kept.here().is_some();
        let line = match Line::parse_words(words, inside) {
            Ok(line) => line,
            Err(e) => {
                // Help is "wrong" too, and goes to standard output.
                tell::usage(&e);
                return Ok(Step::Done(if e.use_stderr() { USAGE } else { 0 }));
            }
        };
        let global = line.options(&self.global, Path::new(""))?;
        let verb = match line.what {
            What::Own(own) => return builtins::run(self, own, &global),
            What::Verb(verb) => *verb,
        };
        match verb {
            Verb::Bench(_)
            | Verb::Fuzz(_)
            | Verb::Generate(_)
            | Verb::Kaslr(_)
            | Verb::Kernel(_)
            | Verb::Lab(_)
            | Verb::Check(_)
            | Verb::Module(_)
            | Verb::Mount(_)
            | Verb::Net(_)
            | Verb::Trace(_)
            | Verb::Probe(_)
            | Verb::Run(_)
            | Verb::Sh(_)
            | Verb::Umount(_) => {
                let text = "this verb is not for a session: run it from a shell";
                Err(Failure::usage(text))
            }
            Verb::MakeImage(_) if !session::is_without_jail(&global) => Err(takes_programs()),
            Verb::Mkfs(mkfs) if mkfs.size.is_some() && session::confines_session() => {
                Err(takes_programs())
            }
            verb => crate::run(verb, &global).map(Step::Done),
        }
    }
}

fn takes_programs() -> Failure {
    let text = "a new image takes programs of the host, which a session in a jail cannot start";
    let failure = Failure::new(SOME_FAILED, text);
    failure.remedy("end the session and give tane that command alone")
}
