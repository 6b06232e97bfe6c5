//! [`KeptComponents`]: the components that batches were planned with, in the data folder. A batch that a crash interrupted is
//! finished with the one that it was planned with, also when the rule was replaced meanwhile.

use crate::fault;
use crate::synced;
use crate::wasm::Component;
use crate::wasm::component::Loader;
use anyhow::{Context, Result, ensure};
use std::cell::RefCell;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The folder `components` of a data folder.
pub struct KeptComponents {
    folder: PathBuf,
    loader: Arc<Loader>,
    /// Those that batches need besides the current one.
    loaded: RefCell<Vec<Arc<Component>>>,
}

impl KeptComponents {
    /// The components of a data folder.
    pub fn new(data_folder: &Path, loader: Arc<Loader>) -> Self {
        KeptComponents { folder: data_folder.join("components"), loader, loaded: RefCell::default() }
    }

    /// The component with this digest: the current one, or one that was kept.
    pub fn get(&self, digest: &str, current: &Arc<Component>) -> Result<Arc<Component>> {
        if digest == current.digest() {
            return Ok(Arc::clone(current));
        }
        if let Some(loaded) = self.loaded.borrow().iter().find(|loaded| loaded.digest() == digest) {
            return Ok(Arc::clone(loaded));
        }
        let path = self.path(digest);
        let bytes = fs::read(&path).with_context(|| {
            format!("failed to read a component that batches were planned with, {}", path.display())
        })?;
        let component = self.loader.load(&bytes)?;
        ensure!(component.digest() == digest, "{} is not the component {digest}: the file was changed", path.display());
        let component = Arc::new(component);
        self.hold(&component);
        Ok(component)
    }

    /// Holds a component in memory, as batches will need it beside the current one.
    pub fn hold(&self, component: &Arc<Component>) {
        self.loaded.borrow_mut().push(Arc::clone(component));
    }

    /// Lets go of those that no batch needs any more.
    pub fn let_go(&self, is_needed: impl Fn(&str) -> bool) {
        self.loaded.borrow_mut().retain(|component| is_needed(component.digest()));
    }

    /// Keeps a component, before the first plan that names it.
    pub fn keep(&self, component: &Component) -> Result<()> {
        let path = self.path(component.digest());
        if path.exists() {
            return Ok(());
        }
        let write = || -> Result<()> {
            fs::create_dir_all(&self.folder)?;
            let mut file = tempfile::NamedTempFile::new_in(&self.folder)?;
            file.write_all(component.source())?;
            synced::file(file.as_file(), file.path());
            fault::point("component-written");
            file.persist(&path)?;
            fault::point("component-placed");
            Ok(synced::folder(&self.folder)?)
        };
        write().with_context(|| format!("failed to keep the component as {}", path.display()))
    }

    fn path(&self, digest: &str) -> PathBuf {
        self.folder.join(format!("{}.wasm", digest.strip_prefix("sha256:").unwrap_or(digest)))
    }
}
