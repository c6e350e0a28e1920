//! Lines typed on a terminal: editing, history, completion.

use super::complete::Completer;
use crate::failure::{Failure, Result, SOME_FAILED};
use crate::interrupt;
use reedline::{
    default_emacs_keybindings, ColumnarMenu, Emacs, FileBackedHistory, KeyCode, KeyModifiers,
    MenuBuilder, Prompt, PromptEditMode, PromptHistorySearch, Reedline, ReedlineEvent,
    ReedlineMenu, Signal,
};
use std::borrow::Cow;
use std::path::PathBuf;
use std::time::Duration;

/// Lines that are remembered.
const HISTORY: usize = 1000;
const MENU: &str = "completions";

pub struct Editor(Reedline);

impl Editor {
    /// Words are completed by `completer`.
    pub fn new(completer: Completer) -> Editor {
        let menu = Box::new(ColumnarMenu::default().with_name(MENU));
        let mut keys = default_emacs_keybindings();
        let open = ReedlineEvent::Menu(MENU.into());
        let tab = ReedlineEvent::UntilFound(vec![open, ReedlineEvent::MenuNext]);
        keys.add_binding(KeyModifiers::NONE, KeyCode::Tab, tab);
        let mut lines = Reedline::create()
            .with_ansi_colors(false)
            .with_edit_mode(Box::new(Emacs::new(keys)))
            .with_completer(Box::new(completer))
            .with_menu(ReedlineMenu::EngineCompleter(menu))
            .with_quick_completions(true)
            .with_partial_completions(true)
            .with_history_exclusion_prefix(Some(" ".into()));
        // Where none can be kept, the session has one of its own.
        let kept = history().and_then(|path| FileBackedHistory::with_file(HISTORY, path).ok());
        if let Some(history) = kept {
            lines = lines.with_history(Box::new(history));
        }
        // It opens what it waits for when it first waits; later it could not.
        let _ = crossterm::event::poll(Duration::ZERO);
        Editor(lines)
    }

    /// As [`super::Input::line`].
    pub fn line(&mut self, prompt: &str) -> Result<Option<Vec<u8>>> {
        let read = interrupt::with_resizes(true, || self.0.read_line(&Shown(prompt)));
        match read {
            Ok(Signal::Success(line)) => Ok(Some(format!("{line}\n").into_bytes())),
            Ok(Signal::CtrlD) => Ok(Some(Vec::new())),
            Ok(_) => Ok(None),
            Err(e) => Err(Failure::new(SOME_FAILED, format!("the terminal: {e}"))),
        }
    }
}

/// As the XDG base directories have it.
pub fn history() -> Option<PathBuf> {
    let absolute = |name| {
        let path = PathBuf::from(std::env::var_os(name)?);
        path.is_absolute().then_some(path)
    };
    let state = absolute("XDG_STATE_HOME");
    let state = state.or_else(|| absolute("HOME").map(|home| home.join(".local/state")))?;
    Some(state.join("tane").join("history"))
}

/// A prompt, and nothing else.
struct Shown<'p>(&'p str);

impl Prompt for Shown<'_> {
    fn render_prompt_left(&self) -> Cow<'_, str> {
        self.0.into()
    }

    fn render_prompt_right(&self) -> Cow<'_, str> {
        "".into()
    }

    fn render_prompt_indicator(&self, _: PromptEditMode) -> Cow<'_, str> {
        "".into()
    }

    fn render_prompt_multiline_indicator(&self) -> Cow<'_, str> {
        "> ".into()
    }

    fn render_prompt_history_search_indicator(&self, search: PromptHistorySearch) -> Cow<'_, str> {
        format!("(search: {}) ", search.term).into()
    }
}
