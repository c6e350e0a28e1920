// SPDX-License-Identifier: GPL-2.0-only
//! `xtask kernel`: the images of a checkout, into build/images.

use tane_kernel_build::{
    build, check_experiments, prepared_source, recipe, Order, Recipe, Terminal,
};

use crate::layout::Layout;
use crate::Result;

struct Options {
    configs: Vec<String>,
    jobs: usize,
    force: bool,
}

pub fn main(layout: &Layout, args: &[String]) -> Result<()> {
    if args == ["--list"] {
        for (name, fragments) in recipe::all(&layout.kernel)? {
            println!("{name}: {}", fragments.join(" "));
        }
        return Ok(());
    }
    let options = parse(args)?;
    for name in &options.configs {
        image(layout, name, &options)?;
    }
    Ok(())
}

fn image(layout: &Layout, name: &str, options: &Options) -> Result<()> {
    let listener = Terminal::new();
    let recipe = Recipe::named(&layout.kernel, name)?;
    let mine = match &recipe.experiment {
        Some(experiment) => layout.kernel.with_experiment(experiment),
        None => layout.kernel.clone(),
    };
    let source = prepared_source(&mine, &listener)?;
    let order = Order {
        layout: &mine,
        recipe: &recipe,
        elf: mine.images().join(format!("tane-{name}.elf")),
        jobs: options.jobs,
        force: options.force,
        // Nobody else has anything in build/images.
        replaces: true,
        listener: &listener,
    };
    let built = build(&source, &order)?;
    if built.was_there {
        return Ok(());
    }
    let size = std::fs::metadata(&order.elf).map_or(0, |found| found.len());
    eprintln!(
        "{name}: {} ({:.1} MiB{})",
        order.elf.display(),
        size as f64 / f64::from(1 << 20),
        match built.warnings {
            0 => String::new(),
            n => format!("; {n} warnings, see {}", built.log.display()),
        }
    );
    Ok(())
}

/// Do the patches of every experiment still apply?
pub fn experiments(layout: &Layout) -> Result<()> {
    let count = check_experiments(&layout.kernel, &Terminal::new())?;
    println!("experiments: {count} apply");
    Ok(())
}

fn parse(args: &[String]) -> Result<Options> {
    let mut options = Options {
        configs: Vec::new(),
        jobs: std::thread::available_parallelism().map_or(1, usize::from),
        force: false,
    };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
        match arg.as_str() {
            "--config" => options.configs.push(value()?.clone()),
            "--jobs" | "-j" => {
                options.jobs = value()?
                    .parse()
                    .ok()
                    .filter(|&jobs| jobs > 0)
                    .ok_or("--jobs needs a number above 0")?;
            }
            "--force" => options.force = true,
            _ => return Err(format!("kernel: unknown option {arg}\n{}", crate::USAGE)),
        }
    }
    if options.configs.is_empty() {
        options.configs.push("default".to_string());
    }
    Ok(options)
}
