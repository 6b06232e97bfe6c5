//! The `keyfold` command.

mod cli;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main(cli::Cli::parse())
}
