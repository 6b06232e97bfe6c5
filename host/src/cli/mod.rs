//! The command line: one file for each subcommand. Results go to standard output, everything else to standard error.

mod audit;
mod backup;
mod build;
mod bytes_bar;
mod checkpoint;
mod client;
mod completions;
mod dead_letters;
mod r#gen;
mod inspect;
mod interrupt;
mod load;
mod new;
mod progress;
mod restore;
mod run;
mod serve;
mod state;
mod style;
mod table;
mod test;
mod verify;

use clap::{Parser, Subcommand};
use std::process::ExitCode;
use tracing_subscriber::EnvFilter;

/// Host stateful streaming functions: WebAssembly rules over keyed streams, durable and exactly once
#[derive(Debug, Parser)]
#[command(name = "keyfold", version, propagate_version = true, after_help = EXAMPLES)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,

    /// What to log to standard error, such as `debug` or `rule=debug` for what rules log [default: warn,rule=info]
    #[arg(long, global = true, value_name = "FILTER", env = "KEYFOLD_LOG")]
    log: Option<String>,
}

/// What is logged when nobody says: what went wrong, and what rules say.
const LOG_DEFAULT: &str = "warn,rule=info";

const EXAMPLES: &str = "\
Examples:
  keyfold new sessions && keyfold build sessions && keyfold test sessions
  keyfold gen fraud --events 1000000 --output data
  keyfold run sessions --input data --data state --output alerts
  keyfold state ls state
  keyfold progress state
  keyfold restore s3://backups/sessions --data state

  keyfold serve --data server
  keyfold login http://127.0.0.1:8420 < token
  keyfold push sessions --stream payments --activate

Exit codes: 0 all went well, 1 something failed, 2 the command line is wrong.";

#[derive(Debug, Subcommand)]
enum Command {
    Run(Box<run::RunArgs>),
    New(new::NewArgs),
    Build(build::BuildArgs),
    Inspect(inspect::InspectArgs),
    Test(test::TestArgs),
    Gen(r#gen::GenArgs),
    /// Look into the state of a rule, stopped or running, and change it
    #[command(subcommand, after_help = state::EXAMPLES)]
    State(state::StateCommand),
    DeadLetters(dead_letters::DeadLettersArgs),
    Progress(progress::ProgressArgs),
    Restore(restore::RestoreArgs),
    Verify(verify::VerifyArgs),
    /// Look into a checkpoint
    #[command(subcommand, after_help = checkpoint::EXAMPLES)]
    Checkpoint(checkpoint::CheckpointCommand),
    Backup(backup::BackupArgs),
    Serve(Box<serve::ServeArgs>),
    Login(client::login::LoginArgs),
    Whoami(client::login::WhoAmIArgs),
    Push(client::push::PushArgs),
    /// Look at the rules on a server, pause and delete them
    #[command(subcommand, after_help = client::rules::EXAMPLES)]
    Rules(client::rules::RulesCommand),
    Activate(client::activate::ActivateArgs),
    Rollback(client::activate::RollbackArgs),
    Decide(client::decide::DecideArgs),
    Tail(client::tail::TailArgs),
    /// Make streams on a server, send events to them, and read them back
    #[command(subcommand, after_help = client::streams::EXAMPLES)]
    Streams(client::streams::StreamsCommand),
    /// Make, rotate and revoke the tokens of a tenant
    #[command(subcommand, after_help = client::tokens::EXAMPLES)]
    Tokens(client::tokens::TokensCommand),
    /// Make tenants on a server and say how much they may use
    #[command(subcommand, after_help = client::tenants::EXAMPLES)]
    Tenants(client::tenants::TenantsCommand),
    /// Read who did what on a server
    #[command(subcommand, after_help = client::audit::EXAMPLES)]
    Audit(client::audit::AuditCommand),
    Completions(completions::CompletionsArgs),
    /// Compile the component on standard input: the child that other commands start
    #[command(name = keyfold::wasm::compile::SUBCOMMAND, hide = true)]
    CompileComponent {
        memory_bytes_max: u64,
        cpu_seconds_max: u64,
    },
}

/// Runs the command and tells how it went.
pub fn main(cli: Cli) -> ExitCode {
    let filter = cli.log.as_deref().unwrap_or(LOG_DEFAULT);
    // A server has a log of its own, which its configuration may set.
    if !matches!(cli.command, Command::Serve(_))
        && let Err(error) = start_log(filter)
    {
        return fail(&error);
    }
    let done = match &cli.command {
        Command::Run(args) => run::run(args),
        Command::New(args) => new::new(args),
        Command::Build(args) => build::build(args),
        Command::Inspect(args) => inspect::inspect(args),
        Command::Test(args) => test::test(args),
        Command::Gen(args) => r#gen::r#gen(args),
        Command::State(command) => state::state(command),
        Command::DeadLetters(args) => dead_letters::dead_letters(args),
        Command::Progress(args) => progress::progress(args),
        Command::Restore(args) => restore::restore(args),
        Command::Verify(args) => verify::verify(args),
        Command::Checkpoint(command) => checkpoint::checkpoint(command),
        Command::Backup(args) => backup::backup(args),
        Command::Serve(args) => serve::serve(args, filter, cli.log.is_none()),
        Command::Login(args) => client::login::login(args),
        Command::Whoami(args) => client::login::who_am_i(args),
        Command::Push(args) => client::push::push(args),
        Command::Rules(command) => client::rules::rules(command),
        Command::Activate(args) => client::activate::activate(args),
        Command::Rollback(args) => client::activate::rollback(args),
        Command::Decide(args) => client::decide::decide(args),
        Command::Tail(args) => client::tail::tail(args),
        Command::Streams(command) => client::streams::streams(command),
        Command::Tokens(command) => client::tokens::tokens(command),
        Command::Tenants(command) => client::tenants::tenants(command),
        Command::Audit(command) => client::audit::audit(command),
        Command::Completions(args) => completions::completions(args),
        Command::CompileComponent { memory_bytes_max, cpu_seconds_max } => {
            keyfold::wasm::compile::child_main(*memory_bytes_max, *cpu_seconds_max)
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error),
    }
}

fn fail(error: &anyhow::Error) -> ExitCode {
    // A reader that had enough, such as `head`, is no failure of ours.
    let broken_pipe = error.chain().any(|cause| {
        cause.downcast_ref::<std::io::Error>().is_some_and(|io| io.kind() == std::io::ErrorKind::BrokenPipe)
    });
    if broken_pipe {
        return ExitCode::SUCCESS;
    }
    anstream::eprintln!("{} {error:#}", style::error("error:"));
    ExitCode::FAILURE
}

fn start_log(filter: &str) -> anyhow::Result<()> {
    use anyhow::Context;
    use std::io::IsTerminal;
    let filter = EnvFilter::try_new(filter).with_context(|| format!("--log {filter} is not a filter"))?;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .compact()
        .init();
    Ok(())
}
