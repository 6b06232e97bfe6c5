//! [`Login`]: the server and the token that a user has logged in with, in a file that only this user can read.

use anyhow::{Context, Result};
use etcetera::BaseStrategy;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// What `keyfold login` remembers.
#[derive(Debug, Serialize, Deserialize)]
pub struct Login {
    /// The server.
    pub url: String,
    /// The secret of the token.
    pub token: String,
    /// The certificate of the authority that signed the server's, when it is one of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
    /// Whether the token may travel unencrypted over a network.
    #[serde(default)]
    pub insecure_http: bool,
}

impl Login {
    /// What is remembered, if anything.
    pub fn read() -> Result<Option<Self>> {
        let path = path()?;
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
        };
        let login = serde_json::from_slice(&bytes);
        Ok(Some(login.with_context(|| format!("{} is damaged: log in again", path.display()))?))
    }

    /// Remembers it. Returns where.
    pub fn write(&self) -> Result<PathBuf> {
        let path = path()?;
        let folder = path.parent().context("the file lies in a folder")?;
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .with_context(|| format!("cannot make {}", folder.display()))?;
        self.write_in(folder, &path).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    }

    fn write_in(&self, folder: &Path, path: &Path) -> Result<()> {
        // The file has its permissions before it has the secret.
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.as_file().set_permissions(fs::Permissions::from_mode(0o600))?;
        file.write_all(&serde_json::to_vec_pretty(self)?)?;
        file.persist(path)?;
        Ok(())
    }

    /// Forgets it. False when there was nothing.
    pub fn forget() -> Result<bool> {
        let path = path()?;
        match fs::remove_file(&path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error).with_context(|| format!("cannot delete {}", path.display())),
        }
    }
}

fn path() -> Result<PathBuf> {
    let folders = etcetera::choose_base_strategy().context("there is no home folder: set HOME")?;
    Ok(folders.config_dir().join("keyfold").join("login.json"))
}
