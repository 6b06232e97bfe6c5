//! `keyfold tokens`: who may do what in a tenant.

use super::connection::ConnectArgs;
use super::shown;
use crate::cli::table::or_none;
use anyhow::Result;
use keyfold::service::model::{NewToken, Role, Rotate, Token, TokenSecret};
use reqwest::Method;

pub const EXAMPLES: &str = "Examples:
  keyfold tokens create alice --role author
  keyfold tokens create ci --role operator --expires-in 30d --json | jq -r .secret
  keyfold tokens ls
  keyfold tokens rotate ci --grace 5m
  keyfold tokens revoke alice";

/// What to do with tokens.
#[derive(Debug, clap::Subcommand)]
pub enum TokensCommand {
    /// List the tenant's tokens, without their secrets
    #[command(after_help = "Examples:\n  keyfold tokens ls")]
    Ls(LsArgs),
    /// Make a token and print its secret, this once
    #[command(after_help = "Examples:\n  keyfold tokens create ci --role operator --expires-in 30d > ci.token")]
    Create(CreateArgs),
    /// Give a token a new secret
    #[command(after_help = "Examples:\n  keyfold tokens rotate ci --grace 5m > ci.token")]
    Rotate(RotateArgs),
    /// End a token: what it has open ends, too
    #[command(after_help = "Examples:\n  keyfold tokens revoke ci")]
    Revoke(RevokeArgs),
}

#[derive(Debug, clap::Args)]
pub struct LsArgs {
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Debug, clap::Args)]
pub struct CreateArgs {
    /// Its name, which the audit shows
    #[arg(value_name = "NAME")]
    name: String,

    #[command(flatten)]
    token: TokenArgs,

    #[command(flatten)]
    connect: ConnectArgs,
}

/// What a new token allows.
#[derive(Debug, clap::Args)]
pub struct TokenArgs {
    /// What it allows
    #[arg(long, value_name = "ROLE", value_parser = parse_role)]
    role: Role,

    /// For how long, such as 30d [default: until it is revoked]
    #[arg(long, value_name = "TIME")]
    expires_in: Option<String>,
}

impl TokenArgs {
    /// As the server wants it.
    pub fn named(&self, name: &str) -> NewToken {
        NewToken { name: name.to_owned(), role: self.role, expires_in: self.expires_in.clone() }
    }
}

#[derive(Debug, clap::Args)]
pub struct RotateArgs {
    /// The token
    #[arg(value_name = "NAME")]
    name: String,

    /// How long the old secret still holds, such as 5m [default: not at all]
    #[arg(long, value_name = "TIME")]
    grace: Option<String>,

    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Debug, clap::Args)]
pub struct RevokeArgs {
    /// The token
    #[arg(value_name = "NAME")]
    name: String,

    #[command(flatten)]
    connect: ConnectArgs,
}

/// Does it.
pub fn tokens(command: &TokensCommand) -> Result<()> {
    match command {
        TokensCommand::Ls(LsArgs { connect }) => {
            let tokens: Vec<Token> = connect.connect()?.get(["tokens"])?;
            shown::list(connect.json, &tokens, ["name", "role", "created", "expires"], |token| {
                [token.name.clone(), role_word(token.role), token.created.clone(), or_none(token.expires.as_ref())]
            })
        }
        TokensCommand::Create(CreateArgs { name, token, connect }) => {
            let request = connect.connect()?.request(Method::POST, ["tokens"]).json(&token.named(name))?.answer()?;
            secret(connect.json, &request)
        }
        TokensCommand::Rotate(RotateArgs { name, grace, connect }) => {
            let body = Rotate { grace: grace.clone() };
            let made = connect.connect()?.request(Method::POST, ["tokens", name, "rotate"]).json(&body)?.answer()?;
            secret(connect.json, &made)
        }
        TokensCommand::Revoke(RevokeArgs { name, connect }) => {
            connect.connect()?.request(Method::DELETE, ["tokens", name]).done()?;
            shown::say(connect.json, &format!("{name} is revoked"));
            Ok(())
        }
    }
}

/// Prints a secret alone, so that a script can take it.
pub fn secret(json: bool, made: &TokenSecret) -> Result<()> {
    if json {
        return shown::line(made);
    }
    shown::say(json, &format!("{} ({}); this is shown once:", made.token.name, role_word(made.token.role)));
    shown::print(&made.secret)
}

/// A role as it is written.
pub fn role_word(role: Role) -> String {
    let word = serde_json::to_value(role).unwrap_or_default();
    word.as_str().unwrap_or_default().to_owned()
}

fn parse_role(word: &str) -> Result<Role, String> {
    serde_json::from_value(word.into()).map_err(|_| "a role is admin, author, operator or reader".to_owned())
}
