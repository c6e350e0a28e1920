//! What a worker has open. Callers name it by numbers, which are not used twice.

use crate::failure::{Failure, Result};
use crate::list::Lister;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, RwLock};

#[derive(Clone)]
pub(crate) enum Object {
    Mount(Arc<tane::Mount>),
    File(Arc<tane::File>),
    List(Arc<Mutex<Lister>>),
}

#[derive(Default)]
pub(crate) struct Objects {
    image: OnceLock<tane::Image>,
    open: RwLock<Open>,
}

#[derive(Default)]
struct Open {
    last: u32,
    all: HashMap<u32, Object>,
}

/// The files of a mount, which stays as long.
pub(crate) struct Mounted(Arc<tane::Mount>);

impl std::ops::Deref for Mounted {
    type Target = tane::Tree;

    fn deref(&self) -> &tane::Tree {
        &self.0
    }
}

impl Mounted {
    pub fn mount(&self) -> &tane::Mount {
        &self.0
    }
}

fn unknown() -> Failure {
    Failure::new(libc::EBADF, "the worker has no such handle")
}

impl Objects {
    pub fn set_image(&self, image: tane::Image) {
        let _ = self.image.set(image);
    }

    pub fn image(&self, _: u32) -> Result<&tane::Image> {
        self.image.get().ok_or_else(unknown)
    }

    pub fn kernel(&self, handle: u32) -> Result<&tane::Kernel> {
        self.image(handle).map(tane::Image::kernel)
    }

    pub fn add(&self, object: Object) -> u32 {
        let mut open = self.open.write().unwrap_or_else(|e| e.into_inner());
        open.last += 1;
        let handle = open.last;
        open.all.insert(handle, object);
        handle
    }

    pub fn take(&self, handle: u32) -> Option<Object> {
        let mut open = self.open.write().unwrap_or_else(|e| e.into_inner());
        open.all.remove(&handle)
    }

    /// Drops it, files before what they are in.
    pub fn take_all(&self) {
        let mut open = self.open.write().unwrap_or_else(|e| e.into_inner());
        let (mounts, others): (Vec<_>, Vec<_>) = open
            .all
            .drain()
            .map(|(_, object)| object)
            .partition(|object| matches!(object, Object::Mount(_)));
        drop(open);
        drop(others);
        drop(mounts);
    }

    /// Whether a file or a listing is open.
    pub fn has_open(&self) -> bool {
        let open = self.open.read().unwrap_or_else(|e| e.into_inner());
        let mut all = open.all.values();
        all.any(|object| !matches!(object, Object::Mount(_)))
    }

    fn get(&self, handle: u32) -> Result<Object> {
        let open = self.open.read().unwrap_or_else(|e| e.into_inner());
        open.all.get(&handle).cloned().ok_or_else(unknown)
    }

    pub fn mount(&self, handle: u32) -> Result<Mounted> {
        match self.get(handle)? {
            Object::Mount(mount) => Ok(Mounted(mount)),
            _ => Err(unknown()),
        }
    }

    pub fn file(&self, handle: u32) -> Result<Arc<tane::File>> {
        match self.get(handle)? {
            Object::File(file) => Ok(file),
            _ => Err(unknown()),
        }
    }

    pub fn list(&self, handle: u32) -> Result<Arc<Mutex<Lister>>> {
        match self.get(handle)? {
            Object::List(list) => Ok(list),
            _ => Err(unknown()),
        }
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}
