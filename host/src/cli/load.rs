//! What several commands need to load a component: the engine, the cache of compiled code, the compiler.

use anyhow::{Context, Result};
use keyfold::limits::Limits;
use keyfold::wasm::Component;
use keyfold::wasm::cache::Cache;
use keyfold::wasm::compile::Compiler;
use keyfold::wasm::component::Loader;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where compiled code is kept
#[derive(Debug, clap::Args)]
pub struct CacheArgs {
    /// The folder for compiled code [default: keyfold in the user's cache folder]
    #[arg(long, value_name = "DIR", env = "KEYFOLD_CACHE")]
    cache: Option<PathBuf>,
}

/// Makes what loads components.
pub fn loader(cache: &CacheArgs, limits: &Limits) -> Result<Arc<Loader>> {
    let folder = match &cache.cache {
        Some(folder) => folder.clone(),
        None => default_folder().context("there is no cache folder: name one with --cache")?,
    };
    Ok(Arc::new(Loader::new(limits.clone(), Cache::open(&folder)?, Compiler::this_binary()?)?))
}

/// Loads a component from a file.
pub fn load(loader: &Loader, path: &Path) -> Result<Arc<Component>> {
    let bytes = std::fs::read(path)
        .with_context(|| format!("failed to read the component {}: make it with `keyfold build`", path.display()))?;
    let component = loader.load(&bytes).with_context(|| format!("{} cannot be run", path.display()))?;
    Ok(Arc::new(component))
}

fn default_folder() -> Option<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = cache.or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")))?;
    Some(cache.join("keyfold"))
}
