//! [`Cache`]: compiled code on disk, sealed, so that only what this host wrote is ever run.
//!
//! Loading compiled code means running it, and wasmtime cannot tell a forged file from a good one. So every file carries a
//! keyed hash over its content and what it was compiled from; the key is in the folder, readable by the host's user alone.

use anyhow::{Context, Result, ensure};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::fs;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

const KEY_BYTES: usize = 32;
const SEAL_BYTES: usize = 32;
const KEY_FILE: &str = "seal.key";

/// Compiled code on disk.
#[derive(Debug, Clone)]
pub struct Cache {
    folder: PathBuf,
    key: Vec<u8>,
}

impl Cache {
    /// Opens or makes the cache. The folder is for this user alone.
    pub fn open(folder: &Path) -> Result<Self> {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .with_context(|| format!("failed to make the folder for compiled code {}", folder.display()))?;
        check_private(folder)?;
        let key = read_or_make_key(folder)?;
        Ok(Cache { folder: folder.to_owned(), key })
    }

    /// The code compiled from this component by an engine with this fingerprint; none when there is none, or when the file is
    /// not what this host wrote.
    pub fn get(&self, digest: &str, fingerprint: &str) -> Option<Vec<u8>> {
        let mut file = fs::read(self.path(digest, fingerprint)).ok()?;
        if file.len() < SEAL_BYTES {
            return None;
        }
        let code = file.split_off(SEAL_BYTES);
        match self.mac(digest, fingerprint, &code).verify_slice(&file) {
            Ok(()) => Some(code),
            Err(_) => {
                tracing::warn!(digest, "a file of compiled code was changed by somebody else: compiling again");
                None
            }
        }
    }

    /// Keeps compiled code.
    pub fn put(&self, digest: &str, fingerprint: &str, code: &[u8]) -> Result<()> {
        let seal = self.mac(digest, fingerprint, code).finalize().into_bytes();
        let mut file = tempfile::NamedTempFile::new_in(&self.folder)?;
        file.write_all(&seal)?;
        file.write_all(code)?;
        file.as_file().sync_all()?;
        file.persist(self.path(digest, fingerprint))?;
        Ok(())
    }

    fn path(&self, digest: &str, fingerprint: &str) -> PathBuf {
        let digest = digest.strip_prefix("sha256:").unwrap_or(digest);
        self.folder.join(format!("{digest}-{fingerprint}.code"))
    }

    fn mac(&self, digest: &str, fingerprint: &str, code: &[u8]) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.key).expect("HMAC takes a key of any length");
        for part in [digest.as_bytes(), fingerprint.as_bytes(), code] {
            mac.update(&(part.len() as u64).to_le_bytes());
            mac.update(part);
        }
        mac
    }
}

/// Refuses a folder in which somebody else could put a key and code of their own.
fn check_private(folder: &Path) -> Result<()> {
    const OTHERS: u32 = 0o077;
    let found = fs::metadata(folder)?;
    let own = tempfile::NamedTempFile::new_in(folder)
        .with_context(|| format!("failed to write to the folder for compiled code {}", folder.display()))?;
    ensure!(
        found.mode() & OTHERS == 0 && found.uid() == own.as_file().metadata()?.uid(),
        "the folder for compiled code {} is open to others: make it yours alone (chmod 700), or name another with --cache",
        folder.display()
    );
    Ok(())
}

fn read_or_make_key(folder: &Path) -> Result<Vec<u8>> {
    let path = folder.join(KEY_FILE);
    let read = || {
        let key = fs::read(&path)?;
        ensure!(
            key.len() == KEY_BYTES,
            "{} does not hold a key of {KEY_BYTES} bytes: delete the folder, it is only a cache",
            path.display()
        );
        Ok(key)
    };
    if path.exists() {
        return read();
    }
    // Written elsewhere and linked into place, so that of two hosts that start at once one makes the key and both use it.
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    let mut key = vec![0u8; KEY_BYTES];
    fs::OpenOptions::new()
        .read(true)
        .open("/dev/urandom")
        .and_then(|mut random| std::io::Read::read_exact(&mut random, &mut key))
        .context("failed to read random bytes from /dev/urandom")?;
    file.write_all(&key)?;
    file.as_file().sync_all()?;
    match file.persist_noclobber(&path) {
        Ok(_) => Ok(key),
        Err(error) if error.error.kind() == ErrorKind::AlreadyExists => read(),
        Err(error) => Err(error.error).with_context(|| format!("failed to write {}", path.display())),
    }
}
