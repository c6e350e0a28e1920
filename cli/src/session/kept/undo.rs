//! What a session can undo (`tane sh --undo`): before a command first writes, the kernel is to
//! remember what it is, with all that is mounted and what the overlays in memory hold.

use super::{all, Image, Inner, Kept};
use crate::failure::{Failure, Result, SOME_FAILED};
use std::path::PathBuf;
use tane::{Checkpoint, Kernel};

/// Commands that can be undone; older ones are forgotten. Each takes the memory that the next
/// one has changed.
const MOST: usize = 100;

/// Before a command wrote.
struct Step {
    command: String,
    checkpoint: Checkpoint,
    /// The images that were open, and how many of their file systems.
    open: Vec<(PathBuf, usize)>,
}

#[derive(Default)]
pub struct Undo {
    steps: Vec<Step>,
    /// The command that runs.
    command: String,
    /// It has a step.
    has_step: bool,
}

impl Undo {
    fn begin(&mut self, command: String) {
        (self.command, self.has_step) = (command, false);
    }

    /// The command that runs is about to write.
    fn remember(&mut self, kernel: &Kernel, open: Vec<(PathBuf, usize)>) -> Result<()> {
        if self.has_step {
            return Ok(());
        }
        let checkpoint = kernel.checkpoint().map_err(|error| {
            let text = format!("there would be no way back: {error}");
            let failure = Failure::new(SOME_FAILED, text);
            failure.remedy("without --undo the session goes on without one")
        })?;
        if self.steps.len() == MOST {
            self.steps.remove(0);
        }
        self.steps.push(Step {
            command: std::mem::take(&mut self.command),
            checkpoint,
            open,
        });
        self.has_step = true;
        Ok(())
    }

    /// The kernel is another: what the one before was is lost.
    pub fn forget(&mut self) {
        self.steps.clear();
    }

    /// The command that wrote last.
    fn last(&self) -> Result<&Step> {
        let text = "undo: no command has written, of those that can be undone";
        let last = self.steps.last();
        last.ok_or_else(|| Failure::new(SOME_FAILED, text))
    }

    /// Be what the kernel was before that command, whose text it gives. After an error all is as
    /// it was.
    fn go_back(&mut self, kernel: &Kernel) -> Result<String> {
        let last = self.last()?;
        kernel
            .rollback(&last.checkpoint)
            .map_err(|error| Failure::new(SOME_FAILED, format!("undo: {error}")))?;
        let step = self.steps.pop();
        Ok(step.map(|step| step.command).unwrap_or_default())
    }
}

impl Inner {
    /// A command is about to write to what is open.
    pub fn remember(&mut self) -> Result<()> {
        let of = |image: &Image| (image.file.clone(), image.mounts.len());
        let open = self.images.iter().map(of).collect();
        match (&mut self.undo, &self.kernel) {
            (Some(undo), Some(kernel)) => undo.remember(kernel, open),
            _ => Ok(()),
        }
    }

    fn undo(&mut self) -> Result<String> {
        let (Some(undo), Some(kernel)) = (&mut self.undo, &self.kernel) else {
            return Undo::default().last().map(|step| step.command.clone());
        };
        let open = &undo.last()?.open;
        let known = |image: &Image| open.iter().find(|(file, _)| *file == image.file);
        for image in &self.images {
            if known(image).is_some_and(|(_, mounts)| *mounts != image.mounts.len()) {
                let text = "undo: another file system of it was opened since, for which there \
                            is no way back";
                let failure = Failure::new(SOME_FAILED, text);
                return Err(failure.of(&image.file.display().to_string()));
            }
        }
        // Those that were opened since are opened anew when somebody wants them. They have
        // what their files have: commands that wrote to them are undone.
        let (before, since) = std::mem::take(&mut self.images)
            .into_iter()
            .partition(|image| known(image).is_some());
        self.images = before;
        let since: Vec<Image> = since;
        all(since.into_iter().map(Image::close))?;
        undo.go_back(kernel)
    }
}

impl Kept {
    /// From now on its commands can be undone.
    pub fn undoes(&self) {
        if let Some(mut inner) = self.inner() {
            inner.undo = Some(Undo::default());
        }
    }

    /// A command begins.
    pub fn begin_command(&self, text: impl FnOnce() -> String) {
        if let Some(undo) = self.inner().as_mut().and_then(|i| i.undo.as_mut()) {
            undo.begin(text());
        }
    }

    /// Undo the last command that wrote, whose text it gives.
    pub fn undo(&self) -> Result<String> {
        let text = "undo: the session has no way back: begin it with tane sh --undo";
        match self.inner() {
            Some(mut inner) if inner.undo.is_some() => inner.undo(),
            _ => Err(Failure::usage(text)),
        }
    }
}
