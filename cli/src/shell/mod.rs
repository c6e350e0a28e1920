//! `tane sh`: many commands on images that stay open.
//!
//! A line is parsed by the definitions of the command line and runs the same code;
//! what it opens is kept by [`crate::session::Kept`].

mod ahead;
mod builtins;
mod complete;
mod editor;
mod history;
mod input;
mod lexer;
mod line;
mod patterns;
mod run;

pub use ahead::Named;
pub use input::Input;
pub use run::{run, Settings};
