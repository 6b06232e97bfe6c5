//! Files of imported states as objects: compressed, with a checksum that says when one is damaged.

use anyhow::{Context, Result};
use std::io::{Read, Write};

/// States in JSON are text, and imports are rare.
const ZSTD_LEVEL: i32 = 3;

/// Writes the object of a file.
pub fn write(mut file: impl Read, to: impl Write) -> Result<()> {
    let mut encoder = zstd::Encoder::new(to, ZSTD_LEVEL)?;
    encoder.include_checksum(true)?;
    std::io::copy(&mut file, &mut encoder)?;
    encoder.finish()?;
    Ok(())
}

/// Writes the file of an object. Fails when the object is damaged; what was written until then is not to be used.
pub fn read(mut object: impl Read, mut to: impl Write) -> Result<()> {
    let mut start = [0; 4];
    // An empty stream would be taken for an empty file.
    object.read_exact(&mut start).context("the object is damaged")?;
    let mut decoder = zstd::Decoder::new(start.as_slice().chain(object))?;
    std::io::copy(&mut decoder, &mut to).context("the object is damaged")?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_comes_back_as_it_went_in_and_damage_is_found() {
        let file: Vec<u8> = (0..2000_u32).flat_map(|number| format!("{{\"key\":{number}}}\n").into_bytes()).collect();
        let mut object = Vec::new();
        write(file.as_slice(), &mut object).expect("memory can be written");
        let mut found = Vec::new();
        read(object.as_slice(), &mut found).expect("it is whole");
        assert!(found == file);
        for at in 0..object.len() {
            let mut damaged = object.clone();
            damaged[at] ^= 4;
            // A flip in what nobody looks at, such as a reserved bit, may go unseen, and then nothing is lost.
            let mut found = Vec::new();
            let read_damaged = read(damaged.as_slice(), &mut found);
            assert!(read_damaged.is_err() || found == file, "byte {at}");
            assert!(read(&object[..at], Vec::new()).is_err(), "cut at {at}");
        }
    }
}
