//! The one door to the project: `cargo xtask build`, `test`, `mutants`, `soak`, `fuzz`, `demo`, `bench`, `facts`,
//! `upgrade-folder`.

mod bench;
mod build;
mod crash;
mod demo;
mod facts;
mod found;
mod fuzz;
mod mutants;
mod python_package;
mod soak;
mod step;
mod test;
mod upgrade;
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
    /// Set up, then break one rule of the semantics or one promise at a time, and see that a fact or a test notices
    Mutants,
    Soak(soak::SoakArgs),
    Fuzz(fuzz::FuzzArgs),
    /// Set up, then make the data folder of this version's format, for the test that later versions go on with it
    UpgradeFolder,
    /// Write the table of Spark's facts into docs/spark.md
    Facts,
    /// Set up, then find fraud among made-up payments, crash, and go on
    Demo(demo::DemoArgs),
    Bench(bench::BenchArgs),
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
    if let Task::Facts = task {
        return facts::write(&workspace).map(|()| ExitCode::SUCCESS);
    }
    if let Task::Fuzz(args) = task {
        return fuzz::fuzz(&workspace, args).map(|()| ExitCode::SUCCESS);
    }
    if let Task::Bench(args) = task {
        return bench::bench(&workspace, args);
    }
    build::build(&workspace)?;
    match task {
        Task::Build | Task::Facts | Task::Fuzz(_) | Task::Bench(_) => Ok(ExitCode::SUCCESS),
        Task::Test => test::test(&workspace),
        Task::Mutants => mutants::mutants(&workspace).map(|()| ExitCode::SUCCESS),
        Task::Soak(args) => soak::soak(&workspace, args).map(|()| ExitCode::SUCCESS),
        Task::UpgradeFolder => upgrade::make(&workspace).map(|()| ExitCode::SUCCESS),
        Task::Demo(args) => demo::demo(&workspace, args).map(|()| ExitCode::SUCCESS),
    }
}
