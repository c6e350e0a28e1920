//! Lines typed on a terminal: editing, history, completion.

use super::complete::Completer;
use super::history::{self, History};
use crate::failure::{Failure, Result, SOME_FAILED};
use crate::interrupt;
use reedline::{
    default_emacs_keybindings, ColumnarMenu, Emacs, FileBackedHistory, History as _, HistoryItem,
    KeyCode, KeyModifiers, MenuBuilder, Prompt, PromptEditMode, PromptHistorySearch, Reedline,
    ReedlineEvent, ReedlineMenu, Signal,
};
use std::borrow::Cow;
use std::time::Duration;

const MENU: &str = "completions";

pub struct Editor {
    lines: Reedline,
    history: Option<History>,
}

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
        let kept = history::place().and_then(|path| History::open(&path).ok());
        if let Ok(mut known) = FileBackedHistory::new(history::MOST) {
            let earlier = kept.iter().flat_map(History::earlier);
            for line in earlier {
                let _ = known.save(HistoryItem::from_command_line(line));
            }
            lines = lines.with_history(Box::new(known));
        }
        // It opens what it waits for when it first waits; later it could not.
        let _ = crossterm::event::poll(Duration::ZERO);
        Editor {
            lines,
            history: kept,
        }
    }

    /// As [`super::Input::line`].
    pub fn line(&mut self, prompt: &str) -> Result<Option<Vec<u8>>> {
        let read = interrupt::with_resizes(true, || self.lines.read_line(&Shown(prompt)));
        match read {
            Ok(Signal::Success(line)) => {
                if let Some(history) = self.history.as_mut().filter(|_| !line.starts_with(' ')) {
                    history.add(&line);
                }
                Ok(Some(format!("{line}\n").into_bytes()))
            }
            Ok(Signal::CtrlD) => Ok(Some(Vec::new())),
            Ok(_) => Ok(None),
            Err(e) => Err(Failure::new(SOME_FAILED, format!("the terminal: {e}"))),
        }
    }
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
