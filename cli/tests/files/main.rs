//! The verbs that work on files and trees: what other tools say of these is the same.

#[path = "../common/mod.rs"]
mod common;

mod diff;
mod edit;
mod flags;
mod gnu;
mod patterns;
mod room;
mod verbs;
mod xattr;
