//! [`Output`]: where generated lines go, standard output or a folder of files.

use anyhow::{Context, Result, ensure};
use flate2::write::GzEncoder;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// Takes lines.
pub struct Output {
    files: u32,
    folder: Option<Folder>,
    encoder: Encoder,
    bytes: u64,
}

/// How files are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// gzip, in files that end in `.gz`.
    Gzip,
    /// zstd, in files that end in `.zst`.
    Zstd,
}

struct Folder {
    path: PathBuf,
    compression: Option<Compression>,
    /// The number of the file that is being written.
    file: u32,
}

enum Encoder {
    Plain(Box<dyn Write>),
    Gzip(GzEncoder<File>),
    Zstd(zstd::Encoder<'static, File>),
}

impl Output {
    /// To a stream, such as standard output.
    pub fn stream(stream: impl Write + 'static) -> Self {
        Output { files: 1, folder: None, encoder: Encoder::Plain(Box::new(stream)), bytes: 0 }
    }

    /// To `events-000.jsonl` and so on in a folder, which is made when it does not exist. A file has its name only when it
    /// is complete, so that a host that follows the folder never reads half of one. Refuses a folder that holds such files
    /// already: a mixture of two streams would be hard to notice.
    pub fn folder(path: &Path, files: u32, compression: Option<Compression>) -> Result<Self> {
        const FILES_MAX: u32 = 1000;
        ensure!((1..=FILES_MAX).contains(&files), "{files} files: from 1 to {FILES_MAX} are possible");
        fs::create_dir_all(path).with_context(|| format!("cannot make the folder {}", path.display()))?;
        let entries = fs::read_dir(path).with_context(|| format!("cannot list {}", path.display()))?;
        for entry in entries {
            let name = entry?.file_name();
            ensure!(
                !name.to_string_lossy().starts_with("events-"),
                "{} already holds {}: choose another folder, or delete its events",
                path.display(),
                name.display()
            );
        }
        let folder = Folder { path: path.to_owned(), compression, file: 0 };
        let encoder = folder.create()?;
        Ok(Output { files, folder: Some(folder), encoder, bytes: 0 })
    }

    /// How many files there will be.
    pub fn files(&self) -> u32 {
        self.files
    }

    /// Writes whole lines.
    pub fn write(&mut self, lines: &[u8]) -> Result<()> {
        self.bytes += lines.len() as u64;
        match &mut self.encoder {
            Encoder::Plain(writer) => writer.write_all(lines),
            Encoder::Gzip(encoder) => encoder.write_all(lines),
            Encoder::Zstd(encoder) => encoder.write_all(lines),
        }
        .context("cannot write events")
    }

    /// Completes a file and begins the next.
    pub fn begin_next_file(&mut self) -> Result<()> {
        let Some(folder) = &mut self.folder else { return Ok(()) };
        let next = Folder { file: folder.file + 1, path: folder.path.clone(), compression: folder.compression };
        let encoder = std::mem::replace(&mut self.encoder, next.create()?);
        folder.complete(encoder)?;
        *folder = next;
        Ok(())
    }

    /// Completes the last file. Returns how many bytes the lines have, before compression.
    pub fn finish(self) -> Result<u64> {
        match self.folder {
            Some(folder) => folder.complete(self.encoder)?,
            None => self.encoder.finish().context("cannot write events")?,
        }
        Ok(self.bytes)
    }
}

impl Folder {
    fn name(&self) -> String {
        let ending = match self.compression {
            None => "",
            Some(Compression::Gzip) => ".gz",
            Some(Compression::Zstd) => ".zst",
        };
        format!("events-{:03}.jsonl{ending}", self.file)
    }

    /// Sources skip names that begin with a dot.
    fn unfinished(&self) -> PathBuf {
        self.path.join(format!(".{}.unfinished", self.name()))
    }

    fn create(&self) -> Result<Encoder> {
        let path = self.unfinished();
        let context = || format!("cannot create {}", path.display());
        let file = File::create(&path).with_context(context)?;
        Ok(match self.compression {
            None => Encoder::Plain(Box::new(file)),
            Some(Compression::Gzip) => Encoder::Gzip(GzEncoder::new(file, flate2::Compression::default())),
            Some(Compression::Zstd) => {
                Encoder::Zstd(zstd::Encoder::new(file, zstd::DEFAULT_COMPRESSION_LEVEL).with_context(context)?)
            }
        })
    }

    fn complete(&self, encoder: Encoder) -> Result<()> {
        let path = self.path.join(self.name());
        encoder
            .finish()
            .and_then(|()| fs::rename(self.unfinished(), &path))
            .with_context(|| format!("cannot complete {}", path.display()))
    }
}

impl Encoder {
    fn finish(self) -> io::Result<()> {
        match self {
            Encoder::Plain(mut writer) => writer.flush(),
            Encoder::Gzip(encoder) => encoder.finish().map(drop),
            Encoder::Zstd(encoder) => encoder.finish().map(drop),
        }
    }
}
