//! tane module: code of the kernel's own, built out of its tree, and loaded.

mod build;
mod digest;
pub mod load;

use crate::failure::Result;
use crate::session::Global;
use clap::Subcommand;

/// Modules of the kernel: build some for an image, and load them
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tane module build hello                what hello/Kbuild names, for the image lab
  tane module load hello/hello.ko        load it, say what it says, take it out
  tane module load hello/hello.ko who=you -- cat disk.img:/etc/fstab
                                         with the Linux of another verb
  tane trace --module hello/hello.ko --function 'hello_*' -- ls disk.img:/
                                         and with that, what it does (docs/lab.md)")]
pub struct Args {
    #[command(subcommand)]
    pub what: What,
}

#[derive(Subcommand)]
pub enum What {
    /// Build the modules of a directory, by Linux's own Kbuild, into that directory
    #[command(after_help = "\
DIR has a Kbuild or a Makefile, as Linux's Documentation/kbuild/modules.rst says: one line,
obj-m := hello.o, makes hello.ko of hello.c. What it takes of Linux is in the directory where
images are built, as for tane kernel build: the first time the image lab is built there, which
takes minutes. A command of a checkout builds in that checkout's own build.")]
    Build(build::Args),
    /// Load a module, by itself or into the Linux of another verb
    #[command(after_help = "\
The module's code runs in this process, outside of any jail when it is loaded, and is trusted
as the kernel's own. Only the kernel image lab loads modules, and only those that were built
for it. By itself, a module is taken out again, and what the kernel said is printed. With
another verb behind -- it stays as long as that verb's Linux; what the kernel said goes to
standard error. Which verbs can have one is as for tane trace.")]
    Load(load::Args),
}

pub fn run(args: Args, global: &Global) -> Result<u8> {
    match args.what {
        What::Build(args) => build::run(&args, global),
        What::Load(args) => load::run(&args, global),
    }
}
