//! The one door to the project: `cargo xtask build`, `cargo xtask test`, `cargo xtask demo`.

mod build;
mod crash;
mod demo;
mod found;
mod step;
mod test;
mod workspace;

use anyhow::Result;
use clap::Parser;
use std::process::ExitCode;
use workspace::Workspace;

/// Build, test and show Keyfold
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
enum Task {
    /// Set up: the WebAssembly target, target/debug/keyfold, the guests of the tests, the components of the examples
    Build,
    /// Set up, then run all tests, and sum them up in the last line
    Test,
    /// Set up, then find fraud among made-up payments, crash, and go on
    Demo(demo::DemoArgs),
}

fn main() -> ExitCode {
    match run(&Task::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: &Task) -> Result<ExitCode> {
    let workspace = Workspace::read()?;
    build::build(&workspace)?;
    match task {
        Task::Build => Ok(ExitCode::SUCCESS),
        Task::Test => test::test(&workspace),
        Task::Demo(args) => demo::demo(&workspace, args).map(|()| ExitCode::SUCCESS),
    }
}
