//! What `--sparse` says.

use tane_copy::SparseMode;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, clap::ValueEnum)]
pub enum Sparse {
    /// Keep the holes a file has
    #[default]
    Auto,
    /// Also make a hole of every block of zeroes
    Always,
    /// Write holes out as zeroes
    Never,
}

impl From<Sparse> for SparseMode {
    fn from(said: Sparse) -> Self {
        match said {
            Sparse::Auto => SparseMode::Auto,
            Sparse::Always => SparseMode::Always,
            Sparse::Never => SparseMode::Never,
        }
    }
}
