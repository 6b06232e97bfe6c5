//! [`Error`]: why a group failed. [`StateError`]: a `GroupState` used against its rules.

use std::fmt;

/// Why a call failed: a text that names what was wrong. Every error type becomes one with `?`.
pub struct Error(String);

/// The result of a call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error with this text.
    pub fn new(text: impl fmt::Display) -> Self {
        Error(text.to_string())
    }
}

impl<E: std::error::Error> From<E> for Error {
    fn from(error: E) -> Self {
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            text = format!("{text}: {cause}");
            source = cause.source();
        }
        Error(text)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A `GroupState` used against its rules. The variants are Spark's exceptions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StateError {
    /// `NoSuchElementException`: the state was read and there is none.
    NoSuchElement(String),
    /// `UnsupportedOperationException`: the rule's timeout kind or the input does not allow this.
    UnsupportedOperation(String),
    /// `IllegalArgumentException`: an argument that is never acceptable, or not now.
    IllegalArgument(String),
    /// The state could not be encoded or decoded. Spark has no such error: it refuses the type before the query runs.
    Codec(String),
}

impl fmt::Display for StateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (StateError::NoSuchElement(text)
        | StateError::UnsupportedOperation(text)
        | StateError::IllegalArgument(text)
        | StateError::Codec(text)) = self;
        f.write_str(text)
    }
}

impl std::error::Error for StateError {}

/// Returns an [`Error`] with this text from the function.
#[macro_export]
macro_rules! bail {
    ($($text:tt)*) => { return ::std::result::Result::Err($crate::Error::new(::std::format!($($text)*))) };
}
