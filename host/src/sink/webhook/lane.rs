//! [`Lane`]: how far the outputs of one partition are sent, and what goes into the next request.

use super::Form;
use crate::state::OutputBlock;

/// Outputs of one request of lines. These limits decide which outputs share a request and so its id: they are not settings,
/// because a batch that is sent again must be cut as it was before.
const CHUNK_OUTPUTS_MAX: u64 = 1000;
/// Bytes of one request of lines, unless one output alone has more.
const CHUNK_BYTES_MAX: usize = 256 * 1024;

/// How far one partition's outputs of a batch are sent.
#[derive(Debug, Default)]
pub(super) struct Lane {
    /// The number of the next output, and where its line begins.
    next: u64,
    offset: usize,
    /// Outputs before this one are sent one by one: together they were refused.
    alone_before: u64,
}

/// What one request holds.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Chunk<'b> {
    /// The number of the first output.
    pub first: u64,
    /// How many.
    pub count: u64,
    /// The outputs: of [`Form::One`] without the line feed.
    pub bytes: &'b [u8],
    /// The length with all line feeds.
    length: usize,
}

impl Lane {
    /// Whether all outputs are sent.
    pub fn is_done(&self, block: &OutputBlock) -> bool {
        self.offset >= block.lines.len()
    }

    /// What is sent next. There must be something left.
    pub fn next<'b>(&self, form: Form, block: &'b OutputBlock) -> Chunk<'b> {
        let rest = &block.lines[self.offset..];
        let is_alone = form == Form::One || self.next < self.alone_before;
        let (mut count, mut length) = (0, 0);
        for line in rest.split_inclusive(|&byte| byte == b'\n') {
            let is_full = is_alone || count == CHUNK_OUTPUTS_MAX || length + line.len() > CHUNK_BYTES_MAX;
            if count > 0 && is_full {
                break;
            }
            (count, length) = (count + 1, length + line.len());
        }
        let bytes = &rest[..length];
        let bytes = if form == Form::One { bytes.strip_suffix(b"\n").unwrap_or(bytes) } else { bytes };
        Chunk { first: self.next, count, bytes, length }
    }

    /// A chunk was taken, or is passed over.
    pub fn sent(&mut self, chunk: &Chunk<'_>) {
        self.next += chunk.count;
        self.offset += chunk.length;
    }

    /// From now on the outputs of this chunk are sent one by one.
    pub fn split(&mut self, chunk: &Chunk<'_>) {
        self.alone_before = chunk.first + chunk.count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(lines: &[String]) -> OutputBlock {
        let text = lines.iter().map(|line| format!("{line}\n")).collect::<String>();
        OutputBlock { outputs: lines.len() as u64, lines: text.into_bytes() }
    }

    /// Numbers and bytes of all requests.
    fn all(form: Form, block: &OutputBlock, lane: &mut Lane) -> Vec<(u64, u64, Vec<u8>)> {
        let mut chunks = Vec::new();
        while !lane.is_done(block) {
            let chunk = lane.next(form, block);
            chunks.push((chunk.first, chunk.count, chunk.bytes.to_vec()));
            lane.sent(&chunk);
        }
        chunks
    }

    #[test]
    fn one_output_a_request_has_no_line_feed() {
        let block = block(&["1".to_owned(), "{\"a\":2}".to_owned()]);
        let chunks = all(Form::One, &block, &mut Lane::default());
        assert_eq!(chunks, [(0, 1, b"1".to_vec()), (1, 1, b"{\"a\":2}".to_vec())]);
        assert!(all(Form::One, &OutputBlock::default(), &mut Lane::default()).is_empty());
    }

    #[test]
    fn lines_are_cut_by_number_and_by_size_and_together_are_the_block() {
        let many = block(&vec!["1".to_owned(); 2500]);
        let counts = |chunks: &[(u64, u64, Vec<u8>)]| {
            chunks.iter().map(|(first, count, _)| (*first, *count)).collect::<Vec<_>>()
        };
        let chunks = all(Form::Lines, &many, &mut Lane::default());
        assert_eq!(counts(&chunks), [(0, 1000), (1000, 1000), (2000, 500)]);
        assert_eq!(chunks.into_iter().flat_map(|(_, _, bytes)| bytes).collect::<Vec<_>>(), many.lines);
        let large =
            block(&["x".repeat(CHUNK_BYTES_MAX), "1".to_owned(), "y".repeat(CHUNK_BYTES_MAX - 3), "2".to_owned()]);
        assert_eq!(counts(&all(Form::Lines, &large, &mut Lane::default())), [(0, 1), (1, 2), (3, 1)]);
    }

    #[test]
    fn a_chunk_that_was_refused_is_sent_one_by_one_and_the_next_one_as_a_whole() {
        let block = block(&vec!["1".to_owned(); 2000]);
        let mut lane = Lane::default();
        let chunk = lane.next(Form::Lines, &block);
        lane.split(&chunk);
        let chunks = all(Form::Lines, &block, &mut lane);
        assert_eq!(chunks.len(), 1001);
        assert!(chunks[..1000].iter().all(|(_, count, bytes)| *count == 1 && bytes == b"1\n"));
        assert_eq!((chunks[1000].0, chunks[1000].1), (1000, 1000));
    }
}
