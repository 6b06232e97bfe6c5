//! Folders of what was made or deleted.

use super::Service;
use crate::fault;
use crate::synced;
use anyhow::{Context, Result};
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

impl Service {
    /// Makes the folder of something, before the row that names it.
    pub(super) fn make_folder(&self, path: &str) -> Result<()> {
        let folder = self.data.join(path);
        let parent = folder.parent().unwrap_or(&self.data);
        let make = || -> std::io::Result<()> {
            fs::create_dir_all(&folder)?;
            synced::folder(parent)?;
            // The parent may be new as well.
            parent.parent().map_or(Ok(()), synced::folder)
        };
        make().with_context(|| format!("failed to make {}", folder.display()))?;
        fault::point("service-folder-made");
        Ok(())
    }

    /// The row was not made.
    pub(super) fn unmake_folder(&self, path: &str) {
        // If it cannot be taken away, it is empty, and the next start does.
        let _ = fs::remove_dir(self.data.join(path));
    }

    /// Removes what is noted to go. What cannot be removed now is tried again at the next start.
    pub(super) fn remove(&self, path: &str) {
        if let Err(error) = self.try_remove(path) {
            tracing::error!("{path} was not removed, and is at the next start: {error:#}");
        }
    }

    fn try_remove(&self, path: &str) -> Result<()> {
        let place = self.data.join(path);
        let removed = match fs::symlink_metadata(&place) {
            Ok(found) if found.is_dir() => fs::remove_dir_all(&place),
            Ok(_) => fs::remove_file(&place),
            Err(error) => Err(error),
        };
        match removed {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("failed to remove {}", place.display()));
            }
            _ => {}
        }
        if let Some(parent) = place.parent().filter(|parent| parent.exists()) {
            synced::folder(parent)?;
        }
        fault::point("service-removed");
        self.catalogue.change(|change| change.end_removal(path))
    }

    /// Removes what a process that ended has left to go.
    pub(super) fn remove_what_is_left(&self) -> Result<()> {
        for path in self.catalogue.look(|look| look.removals())? {
            self.remove(&path);
        }
        let known = |path: &str| self.is_known(path);
        sweep_empty(&self.data, "tenants", &known)?;
        for tenant in self.registry.all() {
            sweep_empty(&self.data, &format!("{}/streams", tenant.path), &known)?;
            sweep_empty(&self.data, &format!("{}/rules", tenant.path), &known)?;
            self.sweep_components(&tenant)?;
        }
        Ok(())
    }

    fn is_known(&self, path: &str) -> bool {
        self.registry.all().iter().any(|tenant| {
            tenant.path == path
                || tenant.all_streams().iter().any(|stream| stream.path == path)
                || tenant.all_rules().iter().any(|rule| rule.path == path)
        })
    }

    /// Removes files that an upload left before its row was made. They are uploads that nobody was told of.
    fn sweep_components(&self, tenant: &super::registry::TenantEntry) -> Result<()> {
        let components = self.catalogue.look(|look| look.components_of(&tenant.id))?;
        let names: Vec<String> = components
            .iter()
            .map(|(digest, _)| tenant.component_path(digest))
            .filter_map(|path| Some(Path::new(&path).file_name()?.to_string_lossy().into_owned()))
            .collect();
        for entry in entries(&tenant.folder.join("components"))? {
            if !names.contains(&entry) {
                let path = tenant.folder.join("components").join(&entry);
                fs::remove_file(&path).with_context(|| format!("failed to remove {}", path.display()))?;
            }
        }
        Ok(())
    }
}

/// Takes away empty folders that nothing knows: they were made before a row that never came. Others stay, and are named.
fn sweep_empty(data: &Path, folder: &str, is_known: &dyn Fn(&str) -> bool) -> Result<()> {
    for name in entries(&data.join(folder))? {
        let path = format!("{folder}/{name}");
        if !is_known(&path) && fs::remove_dir(data.join(&path)).is_err() {
            tracing::warn!("{path} belongs to nothing that the catalogue knows: look at it and take it away");
        }
    }
    Ok(())
}

fn entries(folder: &Path) -> Result<Vec<String>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error).with_context(|| format!("failed to read {}", folder.display())),
    };
    let name = |entry: std::io::Result<fs::DirEntry>| Ok(entry?.file_name().to_string_lossy().into_owned());
    entries.map(name).collect()
}
