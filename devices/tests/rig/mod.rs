//! What the tests of this crate share.
#![allow(dead_code)]

pub mod kernel;
pub mod machine;
pub mod ram;
pub mod ring;
