//! [`Outputs`]: the rows that a call writes.

use crate::{Error, Result};
use serde::Serialize;
use std::marker::PhantomData;

/// The outputs of one call, in order. Each becomes one line of JSON.
pub struct Outputs<O> {
    pub(crate) bytes: Vec<u8>,
    pub(crate) ends: Vec<u32>,
    output: PhantomData<fn(O)>,
}

impl<O> Outputs<O> {
    pub(crate) fn new() -> Self {
        Outputs { bytes: Vec::new(), ends: Vec::new(), output: PhantomData }
    }
}

impl<O: Serialize> Outputs<O> {
    /// Adds an output.
    pub fn emit(&mut self, output: &O) -> Result<()> {
        let start = self.bytes.len();
        let written = serde_json::to_writer(&mut self.bytes, output);
        if let Err(error) = written {
            self.bytes.truncate(start);
            return Err(Error::new(format_args!("an output does not encode: {error}")));
        }
        let end = u32::try_from(self.bytes.len()).map_err(|_| Error::new("the outputs of one call are over 4 GiB"))?;
        self.ends.push(end);
        Ok(())
    }
}
