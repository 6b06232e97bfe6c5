//! `keyfold login`, `logout` and `whoami`.

use super::connection::ConnectArgs;
use super::login_file::Login;
use super::shown;
use anyhow::{Context, Result, ensure};
use keyfold::service::model::WhoAmI;
use std::io::{BufRead, IsTerminal};

/// Remember a server and a token, for the commands that ask a server
///
/// The token is asked for, or read from standard input or from KEYFOLD_TOKEN: on a command line others could see it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  keyfold login https://rules.example:8420
  keyfold login http://127.0.0.1:8420 < token
  keyfold login --forget")]
pub struct LoginArgs {
    /// The server
    #[arg(value_name = "URL", required_unless_present = "forget")]
    server: Option<String>,

    /// Forget what is remembered
    #[arg(long, conflicts_with = "server")]
    forget: bool,

    #[command(flatten)]
    connect: ConnectArgs,
}

/// Tell which token is used, and what it allows
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  keyfold whoami
  keyfold whoami --json | jq -r .role")]
pub struct WhoAmIArgs {
    #[command(flatten)]
    connect: ConnectArgs,
}

/// Remembers a login, once the server has accepted it.
pub fn login(args: &LoginArgs) -> Result<()> {
    let Some(server) = args.server.as_ref().filter(|_| !args.forget) else {
        let said = if Login::forget()? { "the login is forgotten" } else { "there was no login" };
        shown::say(args.connect.json, said);
        return Ok(());
    };
    let token = token()?;
    let (connection, login) = args.connect.connect_with(server, &token)?;
    let me: WhoAmI = connection.get(["whoami"])?;
    let path = login.write()?;
    shown::say(args.connect.json, &format!("{}; remembered in {}", sentence(&me), path.display()));
    if args.connect.json { shown::line(&me) } else { Ok(()) }
}

/// Tells who the user is for the server.
pub fn who_am_i(args: &WhoAmIArgs) -> Result<()> {
    let me: WhoAmI = args.connect.connect()?.get(["whoami"])?;
    if args.connect.json { shown::line(&me) } else { shown::print(&sentence(&me)) }
}

fn sentence(me: &WhoAmI) -> String {
    let role = super::tokens::role_word(me.role);
    match &me.tenant {
        Some(tenant) => format!("token {} of tenant {tenant}, role {role}", me.token),
        None => format!("token {}, role {role}", me.token),
    }
}

fn token() -> Result<String> {
    if let Some(token) = std::env::var("KEYFOLD_TOKEN").ok().filter(|token| !token.trim().is_empty()) {
        return Ok(token.trim().to_owned());
    }
    let stdin = std::io::stdin();
    let token = if stdin.is_terminal() {
        rpassword::prompt_password("token: ").context("no token was entered")?
    } else {
        let mut line = String::new();
        stdin.lock().read_line(&mut line).context("no token could be read from standard input")?;
        line
    };
    let token = token.trim().to_owned();
    ensure!(!token.is_empty(), "there is no token: write it to standard input, or set KEYFOLD_TOKEN");
    Ok(token)
}
