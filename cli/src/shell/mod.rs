//! `tane sh`: many commands on images that stay open.
//!
//! A line is parsed by the definitions of the command line and runs the same code;
//! what it opens is kept by [`crate::session::Kept`].

mod builtins;
mod complete;
mod editor;
mod history;
mod input;
mod lexer;
mod line;
mod named;
mod patterns;
mod run;

pub use input::Input;
pub use named::Named;
pub use run::{run, Settings};
