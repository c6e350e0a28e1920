//! A verb around another one: `tane trace … -- VERB …`, `tane probe … -- VERB …`,
//! `tane module load … -- VERB …`.

use super::report::Output;
use crate::command_line::{Cli, Verb};
use crate::failure::{Failure, Result, NO_IMAGE};
use crate::options_first::{split_own, verb_at};
use crate::session::is_host_kernel;
use crate::session::traced::{self, From, Plan, Request};
use crate::verbs::module::What;
use clap::CommandFactory;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

/// The command line of a verb around another one, and of that.
pub struct Wrapped {
    outer: Cli,
    pub inner: Vec<OsString>,
}

/// None: it is no such command line, or one that says what is wrong with itself.
pub fn take_apart(words: &[OsString]) -> Option<Wrapped> {
    let named = |word: &OsString| word == "trace" || word == "probe" || word == "module";
    let end = words.iter().position(|word| word == "--")?;
    if !words[..end].iter().any(named) {
        return None;
    }
    let grammar = Cli::command();
    let at = verb_at(&grammar, &words[..end], 1);
    let verb = words[..end].get(at).filter(|word| named(word))?;
    let own = Verb::alone(verb.to_str()?)?;
    let others = [&words[1..at], &words[at + 1..end]].concat();
    let (json, others): (Vec<_>, _) = others.into_iter().partition(|word| word == "--json");
    let [own, all] = split_own(&own, &grammar, &others);
    let before = [words[0].clone(), verb.clone()];
    let outer = [&before[..], &json, &own, &words[end..]].concat();
    // Options of all verbs go behind the other verb, or before it if options are there.
    let inner = &words[end + 1..];
    let first = usize::from(
        inner
            .first()
            .is_some_and(|word| !word.as_bytes().starts_with(b"-")),
    );
    let inner = [&words[..1], &inner[..first], &all, &inner[first..]].concat();
    Some(Wrapped {
        outer: Cli::read(outer),
        inner,
    })
}

impl Wrapped {
    /// Has the Linux of the other verb recorded. Before anything else is done for it.
    pub fn ask(self, cli: &mut Cli) -> Result<()> {
        let json = self.outer.global.json;
        let request = |cli: &Cli| -> Result<(Request, u64)> {
            Ok(match &self.outer.verb {
                Verb::Trace(args) => {
                    let report = args.report(json);
                    let output = Output::open(args.output.as_deref(), &cli.global)?;
                    let request = Request {
                        plan: args.plan()?,
                        from: args.from,
                        report: Box::new(move |record| report.write(&record, output)),
                    };
                    (request, args.buffer)
                }
                Verb::Probe(args) => {
                    let (plan, report) = args.plan(json)?;
                    let output = Output::open(args.output.as_deref(), &cli.global)?;
                    let request = Request {
                        plan,
                        from: args.from(),
                        report: Box::new(move |record| report.write(&record, output)),
                    };
                    (request, args.buffer)
                }
                Verb::Module(args) => {
                    let What::Load(args) = &args.what else {
                        return Err(super::inside_another());
                    };
                    let plan = Plan {
                        modules: vec![args.module()?],
                        ..Plan::default()
                    };
                    let request = Request {
                        plan,
                        from: From::Mount,
                        report: Box::new(|_| Ok(())),
                    };
                    (request, 0)
                }
                _ => return Err(super::inside_another()),
            })
        };
        refuse(&cli.verb)?;
        if is_host_kernel(&cli.global) {
            return Err(Failure::usage(
                "--kernel host is not recorded: it is not Linux in here",
            ));
        }
        traced::prefer_lab(&mut cli.global)?;
        let (request, buffer) = request(cli)?;
        // Each CPU has one for calls and one for events.
        let cpus = u64::from(cli.global.cpus.unwrap_or(1));
        let more = buffer.saturating_mul(2).saturating_mul(cpus);
        let memory = cli.global.memory.unwrap_or(tane::MEMORY);
        cli.global.memory = Some(memory.saturating_add(more));
        traced::ask(request);
        Ok(())
    }
}

/// Verbs that have no Linux that could be recorded.
fn refuse(verb: &Verb) -> Result<()> {
    let why = match verb {
        Verb::Run(_) => {
            let text = "run: programs are run by the kernel image run, which has no tracers, \
                        and the image lab runs none";
            return Err(Failure::new(NO_IMAGE, text));
        }
        Verb::Trace(_) | Verb::Probe(_) | Verb::Module(_) => return Err(super::inside_another()),
        Verb::Edit(_) => "edit: two kernels meet the image, one after the other: record cat or cp",
        Verb::Net(_) => "net: the image lab has no network",
        Verb::Lab(_) => "lab: the image lab has no network",
        Verb::Resize(_) => {
            "resize: several kernels meet the image, one after the other: record cat or cp"
        }
        Verb::Fuzz(_) => "what is fuzzed is met by kernels of other processes",
        Verb::Mount(_) | Verb::Umount(_) => "what serves a mount is not recorded",
        Verb::Bench(_)
        | Verb::Build(_)
        | Verb::Check(_)
        | Verb::Generate(_)
        | Verb::Kaslr(_)
        | Verb::Kernel(_) => "this verb boots no Linux that could be recorded",
        _ => return Ok(()),
    };
    Err(Failure::usage(why))
}
