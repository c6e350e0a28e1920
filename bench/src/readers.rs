//! What takes files out of an image: the commands of all who can.

use crate::paths::Paths;
use crate::tool;
use crate::workload::TREE;
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

/// A verb of ours, with the kernel image of the command's own choice or with this.
pub fn tane(paths: &Paths, args: &[&str], config: Option<&str>) -> Result<Command, String> {
    let mut command = tool::command(&paths.tane, args);
    if let Some(config) = config {
        command.arg("--kernel").arg(paths.image(config)?);
    }
    Ok(command)
}

/// How our verbs name a file in an image.
pub fn inside(image: &Path, path: &str) -> OsString {
    let mut address = image.as_os_str().to_os_string();
    address.push(format!(":/{path}"));
    address
}

/// Copies the tree to `to`, as a directory in it if it is there.
pub fn tane_out(
    paths: &Paths,
    image: &Path,
    to: &Path,
    config: Option<&str>,
) -> Result<Command, String> {
    let mut command = tane(paths, &["cp", "-r"], config)?;
    command.arg(inside(image, TREE)).arg(to);
    Ok(command)
}

/// Copies the tree into the directory `to`.
pub fn debugfs(image: &Path, to: &Path) -> Result<Command, String> {
    debugfs_does(&format!("rdump /{TREE} {}", to.display()), image)
}

pub fn debugfs_does(request: &str, image: &Path) -> Result<Command, String> {
    let program = tool::need("debugfs", "e2fsprogs")?;
    let mut command = tool::command(&program, ["-R", request]);
    command.arg(image);
    Ok(command)
}

/// Copies the tree into the directory `to`.
pub fn seven_zip(image: &Path, to: &Path) -> Result<Command, String> {
    let mut into = OsString::from("-o");
    into.push(to);
    let mut command = tool::command(&tool::seven_zip()?, ["x", "-y", "-bd"]);
    command.arg(into).arg(image).arg(TREE);
    Ok(command)
}
