//! A module by itself: loaded, and taken out again. Into another verb's Linux it goes by
//! `trace/wrap.rs`.

use super::digest;
use crate::failure::{Failure, Result};
use crate::names::plain;
use crate::output::Output;
use crate::session::traced::{self, Module};
use crate::session::{is_host_kernel, Global, Machine};
use serde_json::json;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use tane_lab::Trace;

#[derive(clap::Args)]
pub struct Args {
    /// What tane module build has made
    #[arg(value_name = "FILE.ko")]
    file: PathBuf,
    /// Its parameters
    #[arg(value_name = "NAME=VALUE")]
    parameters: Vec<String>,
    /// Another verb and its arguments, behind --
    #[arg(last = true, value_name = "VERB")]
    verb: Vec<OsString>,
}

impl Args {
    /// What is to be loaded.
    pub fn module(&self) -> Result<Module> {
        let parameters = self.parameters.join(" ");
        read(&self.file, parameters)
    }
}

/// A module's file, all of it.
pub fn read(file: &Path, parameters: String) -> Result<Module> {
    let bytes = std::fs::read(file).map_err(|e| Failure::of_host(file, &e))?;
    if !digest::is_whole(&bytes) {
        let text = format!("{}: has changed since it was built", file.display());
        let failure = Failure::usage(text).about(file.as_os_str().as_bytes());
        return Err(failure.remedy("tane module build makes it anew"));
    }
    let name = plain(file.as_os_str().as_bytes()).to_string();
    Ok(Module {
        name,
        bytes,
        parameters,
    })
}

pub fn run(args: &Args, global: &Global) -> Result<u8> {
    if !args.verb.is_empty() {
        return Err(crate::verbs::trace::inside_another());
    }
    if is_host_kernel(global) {
        let text = "module load: the kernel is one of this process, not of --kernel host";
        return Err(Failure::usage(text));
    }
    let wanted = args.module()?;
    let mut global = global.clone();
    traced::prefer_lab(&mut global)?;
    let machine = Machine::alone(&global)?;
    let lab = machine.kernel.trace().map_err(traced::failure)?;
    let loaded = lab.module(&wanted.name, &wanted.bytes, &wanted.parameters);
    machine.check()?;
    let module = loaded.map_err(traced::failure)?;
    let (name, said) = (module.name().to_owned(), module.said().to_vec());
    let mut out = Output::new();
    if !global.json {
        said.iter().try_for_each(|line| out.line(line))?;
        out.flush()?;
    }
    let unloaded = lab.unload(module);
    machine.check()?;
    let last = unloaded.map_err(traced::failure)?;
    match global.json {
        true => out.json(&json!({ "module": name, "loaded": said, "unloaded": last }))?,
        false => last.iter().try_for_each(|line| out.line(line))?,
    }
    out.flush()?;
    Ok(0)
}
