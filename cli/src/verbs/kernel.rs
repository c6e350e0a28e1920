//! tane kernel: the kernel images there are, what they are configured with, and what that
//! costs.

mod build;
mod containers;
mod files;
mod fragments;
mod ktap;
mod list;
mod listener;
mod options;
mod origin;
pub(super) mod place;
pub(super) mod recipes;
mod sizes;
mod test;
mod work;

pub(super) use build::{failed, needs_tools};
pub(super) use listener::Told;
pub(super) use work::is_plain;

use crate::failure::Result;
use crate::session::Global;
use clap::Subcommand;

/// Kernel images: how large, how fast, configured with what; one of your own
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tane kernel list                       all images, each booted five times
  tane kernel config lab                 its whole .config
  tane kernel config tiny EXT4_FS SMP    single options
  tane kernel diff tiny default          options that differ
  tane kernel size default               what each part of it takes
  tane kernel containers default         what container engines would miss in it
  tane kernel test kprobes_test          Linux's own tests (KUnit) of that name
  tane kernel build --fragment my.config --base tiny -o mine.elf
                                         tiny with the options that are in my.config
  tane --kernel mine.elf cat disk.img:/etc/fstab

IMAGE is a name, of what lies beside the image that is booted without one, or a file; with a
slash it is a file always.
What an image was configured with is in the .config beside it, and what its parts take in
its .sizes; building one makes both.")]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// All images: options set, size, time to boot, memory then
    List(list::Args),
    /// The options of an image, all or some
    Config(options::ConfigArgs),
    /// Options that two images have set differently
    Diff(options::DiffArgs),
    /// What each part of the source takes of an image
    Size(sizes::Args),
    /// Which options an image has that container engines ask for
    Containers(containers::Args),
    /// Linux's own tests (KUnit), by name
    #[command(after_help = "\
They run while an image boots that has them, which is lab where --kernel names none; debug
has the most. What they say is KTAP, line by line as they end, and with --json one object for
each test. The exit code is 1 where one failed, or where the kernel ended among them.

Examples:
  tane kernel test --list
  tane kernel test 'xarray_example_*'
  tane kernel test kprobes_test.test_kretprobe
  tane --kernel debug kernel test 'ext4*'")]
    Test(test::Args),
    /// An image of your own: one that there is, with other options
    #[command(after_help = "\
It takes what compiling a Linux takes: gcc, make, flex, bison, bc and their like, minutes
of processor time, and 2 GB. What a fragment asks for and Kconfig does not take is named,
with why.")]
    Build(build::Args),
}

pub fn run(args: Args, global: &Global) -> Result<u8> {
    match args.what {
        What::List(args) => list::run(&args, global),
        What::Config(args) => options::config(&args, global),
        What::Diff(args) => options::diff(&args, global),
        What::Size(args) => sizes::run(&args, global),
        What::Containers(args) => containers::run(&args, global),
        What::Test(args) => test::run(&args, global),
        What::Build(args) => build::run(&args, global),
    }
}
