//! The `tane` command: disk images, read and written by real Linux in-process.
//!
//! Imports of ours: `tane`, `tane-checked`, `tane-checked-build`, `tane-checked-run`,
//! `tane-checked-tl`, `tane-copy`, `tane-fuse`, `tane-hostile`, `tane-kernel-build`, `tane-lab`,
//! `tane-linux`, `tane-make`, `tane-netlab`, `tane-run`, `tane-worker`.

mod args;
mod command_line;
mod compare;
mod copy;
mod echo;
mod elf;
mod expand;
mod failure;
mod inherited;
mod interrupt;
mod login;
mod means;
mod names;
mod network;
mod options_first;
mod output;
mod passing;
mod programs;
mod session;
mod shell;
mod show;
mod tell;
mod tools;
mod users;
mod verbs;
mod walk;

use command_line::{Cli, Verb};
use session::traced;
use session::Global;
use std::process::ExitCode;
use verbs::trace::wrap;

fn main() -> ExitCode {
    interrupt::set_last(session::release_terminal);
    failure::set_kept_from(session::is_kept_from);
    let args: Vec<_> = std::env::args_os().collect();
    inherited::close_others(&args);
    let done = if verbs::bench::is_asked(&args) {
        verbs::bench::start(&args)
    } else {
        let (args, logins) = login::take_out(args);
        tell::as_json(tell::is_asked_for(&args));
        let wrapped = wrap::take_apart(&args);
        let args = wrapped
            .as_ref()
            .map_or(args, |wrapped| wrapped.inner.clone());
        let mut cli = Cli::read(verbs::find::accept_single_dashes(args.into_iter()));
        tell::as_json(cli.global.json || tell::is_json());
        cli.global.logins = logins;
        let supervises = matches!(&cli.verb, Verb::Mount(args) if args.supervises());
        if supervises {
            // The limit is for who serves the mount; this one cleans up after it.
            cli.global.time_limit = None;
        }
        // Landlock lets nobody mount.
        cli.global.no_jail |= supervises;
        // An editor is the user's, with all that it inherits; who meets the image for it
        // forgets by itself.
        if !cli.global.no_jail && !matches!(cli.verb, Verb::Edit(_)) {
            inherited::forget_the_rest();
        }
        if let Verb::Run(args) = &cli.verb {
            if let Err(failure) = verbs::run::terminal::part(args) {
                tell::failure(&failure);
                return ExitCode::from(failure.code);
            }
        }
        // Both while there is one thread, as above.
        tane::prepare();
        interrupt::install(&cli.global);
        // A file that is too large shall be an error, with its name.
        // SAFETY: no handler, no memory.
        unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
        raise_open_files();
        match wrapped.map_or(Ok(()), |wrapped| wrapped.ask(&mut cli)) {
            Ok(()) => recorded(run(cli.verb, &cli.global)),
            Err(failure) => Err(failure),
        }
    };
    session::end_of_making();
    session::farewell();
    match done {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            tell::failure(&failure);
            ExitCode::from(failure.code)
        }
    }
}

/// What a verb came to, once what was recorded of it has been told.
fn recorded(done: failure::Result<u8>) -> failure::Result<u8> {
    match (done, traced::end()) {
        (Ok(0), Err(failure)) => Err(failure),
        (Ok(code), Err(failure)) => {
            tell::failure(&failure);
            Ok(code)
        }
        (done, _) => done,
    }
}

/// Lets this process keep as many files open as it may: a disk can be in hundreds.
fn raise_open_files() {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the structure is ours. Where it fails, the limit stays.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        }
    }
}

/// Runs a verb; its exit code.
fn run(verb: Verb, global: &Global) -> failure::Result<u8> {
    match verb {
        Verb::Inspect(a) => verbs::inspect::run(a, global),
        Verb::Ls(a) => verbs::ls::run(a, global),
        Verb::Cat(a) => verbs::cat::run(a, global),
        Verb::Stat(a) => verbs::stat::run(a, global),
        Verb::Find(a) => verbs::find::run(a, global),
        Verb::Df(a) => verbs::df::run(a, global),
        Verb::Du(a) => verbs::du::run(a, global),
        Verb::Tree(a) => verbs::tree::run(a, global),
        Verb::Diff(a) => verbs::diff::run(a, global),
        Verb::Cp(a) => verbs::cp::run(a, global),
        Verb::Edit(a) => verbs::edit::run(a, global),
        Verb::Mkdir(a) => verbs::mkdir::run(a, global),
        Verb::Rm(a) => verbs::rm::run(a, global),
        Verb::Mv(a) => verbs::mv::run(a, global),
        Verb::Ln(a) => verbs::ln::run(a, global),
        Verb::Chmod(a) => verbs::chmod::run(a, global),
        Verb::Chown(a) => verbs::chown::run(a, global),
        Verb::Touch(a) => verbs::touch::run(a, global),
        Verb::Truncate(a) => verbs::truncate::run(a, global),
        Verb::Xattr(a) => verbs::xattr::run(a, global),
        Verb::Trim(a) => verbs::trim::run(a, global),
        Verb::Mkfs(a) => verbs::mkfs::run(a, global),
        Verb::Fsck(a) => verbs::fsck::run(a, global),
        Verb::Label(a) => verbs::label::run(a, global),
        Verb::Uuid(a) => verbs::uuid::run(a, global),
        Verb::Convert(a) => verbs::convert::run(a, global),
        Verb::Resize(a) => verbs::resize::run(a, global),
        Verb::MakeImage(a) => verbs::make_image::run(a, global),
        Verb::Tar(a) => verbs::tar::run(a, global),
        Verb::Mount(a) => verbs::mount::run(a, global),
        Verb::Umount(a) => verbs::umount::run(a),
        Verb::Sh(a) => verbs::sh::run(a, global),
        Verb::Run(a) => verbs::run::run(a, global),
        Verb::Net(a) => verbs::net::run(a, global),
        Verb::RunModule(a) => verbs::run_module::run(a, global),
        Verb::Syscall(a) => verbs::syscall::run(a, global),
        Verb::Dmesg(a) => verbs::dmesg::run(a, global),
        Verb::Trace(_) | Verb::Probe(_) => Err(verbs::trace::inside_another()),
        Verb::Fuzz(a) => verbs::fuzz::run(a, global),
        Verb::Kaslr(a) => verbs::kaslr::run(a, global),
        Verb::Lab(a) => verbs::lab::run(a, global),
        Verb::Module(a) => verbs::module::run(a, global),
        Verb::Kernel(a) => verbs::kernel::run(a, global),
        Verb::Build(a) => verbs::build::run(a, global),
        Verb::Check(a) => verbs::check::run(a, global),
        Verb::Bench(_) => verbs::bench::start(&std::env::args_os().collect::<Vec<_>>()),
        Verb::Generate(a) => verbs::generate::run(a),
    }
}
