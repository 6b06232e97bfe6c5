//! Numbers and texts in the files of a stream: LEB128 for what is mostly small, everything else in little-endian order.

/// What is left of some bytes. Reading gives nothing when they end too early or are too large for what they should be.
pub(super) struct Bytes<'b>(pub &'b [u8]);

impl<'b> Bytes<'b> {
    pub fn take(&mut self, count: usize) -> Option<&'b [u8]> {
        let (taken, left) = self.0.split_at_checked(count)?;
        self.0 = left;
        Some(taken)
    }

    pub fn array<const COUNT: usize>(&mut self) -> Option<[u8; COUNT]> {
        self.take(COUNT)?.try_into().ok()
    }

    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let [byte] = self.array()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    pub fn small_number(&mut self) -> Option<u32> {
        self.number()?.try_into().ok()
    }

    pub fn text(&mut self) -> Option<String> {
        let count = self.number()?.try_into().ok()?;
        String::from_utf8(self.take(count)?.to_vec()).ok()
    }

    /// Reads so many of something; each takes at least a byte, so that a wrong count asks for no memory.
    pub fn many<T>(&mut self, mut read: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let count = usize::try_from(self.number()?).ok().filter(|count| *count <= self.0.len())?;
        (0..count).map(|_| read(self)).collect()
    }
}

pub(super) fn put_number(into: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        into.push(number as u8 | 0x80);
        number >>= 7;
    }
    into.push(number as u8);
}

pub(super) fn put_text(into: &mut Vec<u8>, text: &str) {
    put_number(into, text.len() as u64);
    into.extend_from_slice(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_texts_come_back_and_half_of_them_are_nothing() {
        let mut bytes = Vec::new();
        for number in [0, 127, 128, 300, u64::MAX] {
            put_number(&mut bytes, number);
        }
        put_text(&mut bytes, "wörter");
        let mut read = Bytes(&bytes);
        assert_eq!([(); 5].map(|()| read.number()), [0, 127, 128, 300, u64::MAX].map(Some));
        assert_eq!(read.text().as_deref(), Some("wörter"));
        assert_eq!(read.number(), None);
        assert_eq!(Bytes(&bytes[bytes.len() - 7..bytes.len() - 1]).text(), None);
        assert_eq!(Bytes(&[0xff; 11]).number(), None);
        assert_eq!(Bytes(&[200, 1, 1]).many(Bytes::number), None, "200 of something in two bytes");
    }
}
