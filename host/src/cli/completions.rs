//! `keyfold completions`: what a shell needs to complete commands and flags.

use super::Cli;
use anyhow::{Context, Result};
use clap::CommandFactory;
use clap_complete::Shell;
use std::io::Write;

/// Print what a shell needs to complete commands and flags
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  keyfold completions bash > ~/.local/share/bash-completion/completions/keyfold
  keyfold completions zsh > ~/.zfunc/_keyfold
  keyfold completions fish > ~/.config/fish/completions/keyfold.fish")]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

/// Prints it.
pub fn completions(args: &CompletionsArgs) -> Result<()> {
    // Written at once: what writes into the pipe itself would panic when nobody reads any more.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "keyfold", &mut script);
    std::io::stdout().write_all(&script).context("nobody reads the completions")
}
