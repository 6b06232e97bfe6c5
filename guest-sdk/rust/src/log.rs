//! The rule's log: lines that the host keeps with the rule's name and the key.

use std::fmt;

/// How much a line matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Level {
    /// Every step.
    Trace = 0,
    /// What helps to find a fault.
    Debug = 1,
    /// What an operator may want to know.
    Info = 2,
    /// What an operator should know.
    Warn = 3,
    /// What went wrong.
    Error = 4,
}

/// Writes a line: to the host's log in a component, to standard error in a native test.
pub fn write(level: Level, text: fmt::Arguments<'_>) {
    let text = text.to_string();
    #[cfg(target_arch = "wasm32")]
    crate::bindings::keyfold::rule::log::write(level as u8, text.as_bytes());
    #[cfg(not(target_arch = "wasm32"))]
    eprintln!("{level:?}: {text}");
}

/// Makes a panic's message reach the host before the trap that it ends in.
pub(crate) fn report_panics() {
    #[cfg(target_arch = "wasm32")]
    std::panic::set_hook(Box::new(|panic| {
        const LEVEL_PANIC: u8 = 5;
        crate::bindings::keyfold::rule::log::write(LEVEL_PANIC, panic.to_string().as_bytes());
    }));
}

/// Writes a line at level trace.
#[macro_export]
macro_rules! trace { ($($text:tt)*) => { $crate::private::write($crate::Level::Trace, ::std::format_args!($($text)*)) }; }

/// Writes a line at level debug.
#[macro_export]
macro_rules! debug { ($($text:tt)*) => { $crate::private::write($crate::Level::Debug, ::std::format_args!($($text)*)) }; }

/// Writes a line at level info.
#[macro_export]
macro_rules! info { ($($text:tt)*) => { $crate::private::write($crate::Level::Info, ::std::format_args!($($text)*)) }; }

/// Writes a line at level warn.
#[macro_export]
macro_rules! warn { ($($text:tt)*) => { $crate::private::write($crate::Level::Warn, ::std::format_args!($($text)*)) }; }

/// Writes a line at level error.
#[macro_export]
macro_rules! error { ($($text:tt)*) => { $crate::private::write($crate::Level::Error, ::std::format_args!($($text)*)) }; }
