//! `keyfold tenants`: for whoever runs the server.

use super::connection::ConnectArgs;
use super::shown;
use super::tokens::{TokenArgs, secret};
use crate::cli::table::or_none;
use anyhow::{Context, Result, ensure};
use keyfold::service::model::{NewTenant, Quotas, Tenant};
use reqwest::Method;
use serde_json::{Map, Value};

pub const EXAMPLES: &str = "Examples:
  keyfold tenants create acme --quota rules=20 --quota events_per_second=5000
  keyfold tenants token acme boss --role admin
  keyfold tenants set acme --quota cpu=0.5
  keyfold tenants ls
  keyfold tenants show acme
  keyfold tenants rm acme --yes";

/// What to do with tenants.
#[derive(Debug, clap::Subcommand)]
pub enum TenantsCommand {
    /// List all tenants
    #[command(after_help = "Examples:\n  keyfold tenants ls")]
    Ls(LsArgs),
    /// Show a tenant with its quotas and what it uses
    #[command(after_help = "Examples:\n  keyfold tenants show acme")]
    Show(NameArgs),
    /// Make a tenant
    #[command(after_help = "Examples:\n  keyfold tenants create acme --quota rules=20")]
    Create(QuotaArgs),
    /// Change a tenant's quotas; what is not named stays
    #[command(after_help = "Examples:\n  keyfold tenants set acme --quota cpu=0.5")]
    Set(QuotaArgs),
    /// Make a token for a tenant and print its secret, this once
    #[command(after_help = "Examples:\n  keyfold tenants token acme boss --role admin > boss.token")]
    Token(TokenForArgs),
    /// Delete a tenant with all its rules, streams and states
    #[command(after_help = "Examples:\n  keyfold tenants rm acme --yes")]
    Rm(RmArgs),
}

#[derive(Debug, clap::Args)]
pub struct LsArgs {
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Debug, clap::Args)]
pub struct NameArgs {
    /// The tenant
    #[arg(value_name = "TENANT")]
    name: String,

    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Debug, clap::Args)]
pub struct QuotaArgs {
    /// The tenant
    #[arg(value_name = "TENANT")]
    name: String,

    /// A quota, such as rules=20; may be repeated
    #[arg(long = "quota", value_name = "NAME=NUMBER")]
    quotas: Vec<String>,

    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Debug, clap::Args)]
pub struct TokenForArgs {
    /// The tenant
    #[arg(value_name = "TENANT")]
    tenant: String,

    /// The token's name
    #[arg(value_name = "NAME")]
    name: String,

    #[command(flatten)]
    token: TokenArgs,

    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Debug, clap::Args)]
pub struct RmArgs {
    /// The tenant
    #[arg(value_name = "TENANT")]
    name: String,

    /// That all of it may go
    #[arg(long)]
    yes: bool,

    #[command(flatten)]
    connect: ConnectArgs,
}

/// Does it.
pub fn tenants(command: &TenantsCommand) -> Result<()> {
    match command {
        TenantsCommand::Ls(LsArgs { connect }) => {
            let tenants: Vec<Tenant> = connect.connect()?.get(["tenants"])?;
            let heads = ["name", "rules", "streams", "keys", "state bytes", "stream bytes", "cpu"];
            shown::list(connect.json, &tenants, heads, |tenant| {
                let Tenant { name, usage, quotas, .. } = tenant;
                let numbers = [usage.rules, usage.streams, usage.state_keys, usage.state_bytes, usage.stream_bytes];
                let [rules, streams, keys, state, stream] = numbers.map(|number| number.to_string());
                [name.clone(), rules, streams, keys, state, stream, or_none(quotas.cpu)]
            })
        }
        TenantsCommand::Show(NameArgs { name, connect }) => {
            shown::one(connect.json, &connect.connect()?.get::<Tenant>(["tenants", name])?)
        }
        TenantsCommand::Create(QuotaArgs { name, quotas, connect }) => {
            let body = NewTenant { name: name.clone(), quotas: parse(quotas)? };
            let made: Tenant = connect.connect()?.request(Method::POST, ["tenants"]).json(&body)?.answer()?;
            shown::one(connect.json, &made)
        }
        TenantsCommand::Set(QuotaArgs { name, quotas, connect }) => {
            let body = parse(quotas)?;
            let changed: Tenant = connect.connect()?.request(Method::PATCH, ["tenants", name]).json(&body)?.answer()?;
            shown::one(connect.json, &changed)
        }
        TenantsCommand::Token(TokenForArgs { tenant, name, token, connect }) => {
            let path = ["tenants", tenant, "tokens"];
            secret(connect.json, &connect.connect()?.request(Method::POST, path).json(&token.named(name))?.answer()?)
        }
        TenantsCommand::Rm(RmArgs { name, yes, connect }) => {
            ensure!(*yes, "{name} would go with all its rules, streams and states: say --yes");
            connect.connect()?.request(Method::DELETE, ["tenants", name]).done()?;
            shown::say(connect.json, &format!("{name} is deleted"));
            Ok(())
        }
    }
}

fn parse(quotas: &[String]) -> Result<Quotas> {
    let mut given = Map::new();
    for quota in quotas {
        let (name, number) =
            quota.split_once('=').with_context(|| format!("'{quota}' is no quota: write NAME=NUMBER"))?;
        let number: Value = serde_json::from_str(number).with_context(|| format!("{name}={number} is no number"))?;
        given.insert(name.trim().replace('-', "_"), number);
    }
    serde_json::from_value(given.into()).context("there is no such quota")
}
