//! `keyfold audit verify`: whether the audit of a server's data folder was changed by anybody.

use super::style;
use anyhow::{Result, bail};
use indicatif::HumanCount;
use keyfold::state::catalogue::verify_audit;
use std::path::PathBuf;

/// Check the audit of a server's data folder: each line is hashed together with the one before
///
/// Finds a line that was changed, taken out, put in or moved, and lines cut off at the end. Whoever may write the whole folder can
/// hash everything anew: keep the hash that this prints, or an export, elsewhere. The server may be running.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  keyfold audit verify server\n\nExit code 1 when anything is wrong with it.")]
pub struct VerifyAuditArgs {
    /// The data folder of the server
    #[arg(value_name = "DATA")]
    data: PathBuf,

    /// Print what was found as JSON
    #[arg(long)]
    json: bool,
}

/// Checks the audit.
pub fn verify(args: &VerifyAuditArgs) -> Result<()> {
    let found = verify_audit(&args.data)?;
    if args.json {
        anstream::println!("{}", serde_json::to_string(&found)?);
    } else {
        let verdict = if found.fault.is_none() { style::good("whole:") } else { style::error("wrong:") };
        anstream::eprintln!("{verdict} {} lines are right, the last hash is {}", HumanCount(found.lines), found.hash);
        if let Some(remark) = &found.remark {
            anstream::eprintln!("{remark}");
        }
    }
    match found.fault {
        Some(fault) => bail!("{fault}"),
        None => Ok(()),
    }
}
