//! The bytes of one file, decompressed, from any offset.

use anyhow::{Context, Result, bail, ensure};
use flate2::bufread::MultiGzDecoder;
use std::fs::File;
use std::io::{self, BufReader, ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// How much is read at once. It fits into the second-level cache, so that looking for line ends finds it there.
pub(super) const BLOCK_BYTES: usize = 256 * 1024;

/// How a file is stored, which its name says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Compression {
    None,
    Gzip,
    Zstd,
}

impl Compression {
    pub(super) fn of(name: &str) -> Self {
        match Path::new(name).extension().and_then(|suffix| suffix.to_str()) {
            Some("gz") => Compression::Gzip,
            Some("zst") => Compression::Zstd,
            _ => Compression::None,
        }
    }
}

/// An open file. Offsets count decompressed bytes.
pub(super) struct StoredFile {
    path: PathBuf,
    stream: Stream,
    offset: u64,
}

enum Stream {
    Plain(File),
    // Both read members and frames one after another until the file ends.
    Gzip(Box<MultiGzDecoder<BufReader<File>>>),
    Zstd(Box<zstd::Decoder<'static, BufReader<File>>>),
}

impl Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(file) => file.read(into),
            Stream::Gzip(decoder) => decoder.read(into),
            Stream::Zstd(decoder) => decoder.read(into),
        }
    }

    fn file(&self) -> &File {
        match self {
            Stream::Plain(file) => file,
            Stream::Gzip(decoder) => decoder.get_ref().get_ref(),
            Stream::Zstd(decoder) => decoder.get_ref().get_ref(),
        }
    }
}

impl StoredFile {
    /// Opens a file at an offset: a seek in a plain file, decompressing everything before it in a compressed one.
    pub(super) fn open(path: &Path, offset: u64) -> Result<Self> {
        let file = File::open(path).with_context(|| cannot_open(path, offset))?;
        let stream = match Compression::of(&path.to_string_lossy()) {
            Compression::None => Stream::Plain(file),
            Compression::Gzip => {
                Stream::Gzip(Box::new(MultiGzDecoder::new(BufReader::with_capacity(BLOCK_BYTES, file))))
            }
            Compression::Zstd => Stream::Zstd(Box::new(
                zstd::Decoder::with_buffer(BufReader::with_capacity(BLOCK_BYTES, file))
                    .with_context(|| cannot_open(path, offset))?,
            )),
        };
        let mut opened = StoredFile { path: path.to_owned(), stream, offset: 0 };
        opened.skip_to(offset)?;
        Ok(opened)
    }

    /// Appends the next bytes to `text`, up to [`BLOCK_BYTES`] and not beyond the offset `until`. 0: the end.
    pub(super) fn read_block(&mut self, text: &mut Vec<u8>, until: u64) -> Result<usize> {
        let wanted = until.saturating_sub(self.offset).min(BLOCK_BYTES as u64) as usize;
        let start = text.len();
        // Zeroing a block that is about to be filled happens in the cache and costs a few percent; it saves unsafe code.
        text.resize(start + wanted, 0);
        let mut filled = 0;
        let result = loop {
            match self.stream.read(&mut text[start + filled..]) {
                Ok(0) => break Ok(()),
                Ok(count) => filled += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => break Err(error),
            }
        };
        text.truncate(start + filled);
        self.offset += filled as u64;
        result.or_else(|error| self.fail(error))?;
        if filled == 0 && wanted > 0 {
            self.check_not_shorter(self.offset)?;
        }
        Ok(filled)
    }

    /// How far reading has come in the file as it is stored.
    pub(super) fn stored_offset(&self) -> Result<u64> {
        self.stream.file().stream_position().with_context(|| format!("cannot read {}", self.path.display()))
    }

    fn skip_to(&mut self, offset: u64) -> Result<()> {
        if let Stream::Plain(file) = &mut self.stream {
            file.seek(SeekFrom::Start(offset)).with_context(|| cannot_open(&self.path, offset))?;
            self.offset = offset;
            return self.check_not_shorter(offset);
        }
        let mut skipped = Vec::with_capacity(BLOCK_BYTES);
        while self.offset < offset {
            skipped.clear();
            if self.read_block(&mut skipped, offset)? == 0 {
                bail!(shorter(&self.path, self.offset, offset));
            }
        }
        Ok(())
    }

    fn check_not_shorter(&self, needed: u64) -> Result<()> {
        if let Stream::Plain(file) = &self.stream {
            let size = file.metadata().with_context(|| format!("cannot read {}", self.path.display()))?.len();
            ensure!(size >= needed, shorter(&self.path, size, needed));
        }
        Ok(())
    }

    fn fail(&self, error: io::Error) -> Result<()> {
        let name = self.path.display();
        let offset = self.offset;
        if error.kind() == ErrorKind::UnexpectedEof {
            let stored = self.stream.file().metadata().map_or(0, |metadata| metadata.len());
            bail!(
                "{name} is cut short: its {stored} bytes end in the middle of compressed data, after {offset} \
                 decompressed bytes; copy it again, or follow the input so that the rest is waited for"
            );
        }
        Err(error).with_context(|| format!("cannot read {name} after {offset} decompressed bytes"))
    }
}

/// Whether a compressed file has its end. It is decompressed to find out; what is corrupt counts as complete, so that
/// reading it says what is wrong.
pub(super) fn is_complete(path: &Path) -> Result<bool> {
    let mut file = StoredFile::open(path, 0)?;
    let mut block = vec![0; BLOCK_BYTES];
    loop {
        match file.stream.read(&mut block) {
            // A writer that has created its file but not yet written to it leaves nothing at all.
            Ok(0) => return Ok(file.stored_offset()? > 0),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Ok(error.kind() != ErrorKind::UnexpectedEof),
        }
    }
}

/// What is said when a file has fewer bytes than were read of it before.
pub(super) fn shorter(path: &Path, size: u64, needed: u64) -> String {
    format!(
        "{} has {size} bytes, but {needed} were already read: a file may grow, but must not be cut or replaced; restore \
         it, or give new content a new name",
        path.display()
    )
}

fn cannot_open(path: &Path, offset: u64) -> String {
    match offset {
        0 => format!("cannot read {}", path.display()),
        _ => format!(
            "cannot read {} again, of which {offset} bytes were read before; put it back where it was",
            path.display()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::Write;

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn zstd_frame(text: &[u8]) -> Vec<u8> {
        zstd::encode_all(text, 1).unwrap()
    }

    fn read_all(path: &Path, from: u64) -> Result<Vec<u8>> {
        let mut file = StoredFile::open(path, from)?;
        let mut text = Vec::new();
        while file.read_block(&mut text, u64::MAX)? > 0 {}
        Ok(text)
    }

    /// Enough text for several blocks, without long repetitions.
    fn long_text() -> Vec<u8> {
        (0..200_000u64).flat_map(|i| (i.wrapping_mul(0x9E37_79B9_7F4A_7C15)).to_string().into_bytes()).collect()
    }

    #[test]
    fn members_and_frames_are_read_one_after_another_from_any_offset() {
        let folder = tempfile::tempdir().unwrap();
        let text = long_text();
        let (first, second) = text.split_at(1_000_000);
        let files = [
            ("a", text.clone()),
            ("a.gz", [gzip(first), gzip(second)].concat()),
            ("a.zst", [zstd_frame(first), zstd_frame(second)].concat()),
        ];
        for (name, stored) in files {
            let path = folder.path().join(name);
            fs::write(&path, stored).unwrap();
            for from in [0, 1, 999_999, 1_000_000, 1_234_567, text.len()] {
                assert!(read_all(&path, from as u64).unwrap() == text[from..], "{name} from {from}");
            }
            let error = read_all(&path, text.len() as u64 + 1).unwrap_err().to_string();
            assert!(error.contains(&format!("has {} bytes, but {}", text.len(), text.len() + 1)), "{error}");
        }
    }

    #[test]
    fn what_is_cut_short_names_the_file_and_the_offset() {
        let folder = tempfile::tempdir().unwrap();
        let text = long_text();
        for (name, stored) in [("a.gz", gzip(&text)), ("a.zst", zstd_frame(&text))] {
            let path = folder.path().join(name);
            for kept in [3, stored.len() / 2, stored.len() - 1] {
                fs::write(&path, &stored[..kept]).unwrap();
                assert!(!is_complete(&path).unwrap(), "{name} {kept}");
                let error = format!("{:#}", read_all(&path, 0).unwrap_err());
                assert!(
                    error.contains(name) && error.contains(&format!("its {kept} bytes end in the middle")),
                    "{error}"
                );
            }
            fs::write(&path, &stored).unwrap();
            assert!(is_complete(&path).unwrap(), "{name}");
        }
    }

    #[test]
    fn an_empty_compressed_file_is_not_complete() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a.gz", "a.zst"] {
            fs::write(folder.path().join(name), "").unwrap();
            assert!(!is_complete(&folder.path().join(name)).unwrap(), "{name}");
        }
    }

    #[test]
    fn a_block_ends_at_the_given_offset() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        fs::write(&path, "0123456789").unwrap();
        let mut file = StoredFile::open(&path, 2).unwrap();
        let mut text = b"x".to_vec();
        assert_eq!(file.read_block(&mut text, 5).unwrap(), 3);
        assert_eq!(file.read_block(&mut text, 5).unwrap(), 0);
        assert_eq!(text, b"x234");
    }

    #[test]
    fn a_file_that_is_gone_is_named() {
        let error = format!("{:#}", StoredFile::open(Path::new("nowhere/a.jsonl"), 7).err().unwrap());
        assert!(error.contains("nowhere/a.jsonl again, of which 7 bytes were read before"), "{error}");
    }
}
