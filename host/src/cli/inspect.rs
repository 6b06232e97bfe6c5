//! `keyfold inspect`: what a component is.

use super::load::{self, CacheArgs};
use super::style;
use anyhow::Result;
use keyfold::limits::Limits;
use keyfold::wasm::Component;
use std::path::PathBuf;

/// Show what a component imports and exports, and what it says of itself
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  keyfold inspect rule.wasm\n  keyfold inspect rule.wasm --json | jq .imports")]
pub struct InspectArgs {
    /// The component or core module
    #[arg(value_name = "RULE.WASM")]
    component: PathBuf,

    /// Print one line of JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    cache: CacheArgs,
}

/// Shows the component.
pub fn inspect(args: &InspectArgs) -> Result<()> {
    let loader = load::loader(&args.cache, &Limits::default())?;
    let component = load::load(&loader, &args.component)?;
    if args.json {
        let document = serde_json::json!({
            "component": args.component,
            "digest": component.digest(),
            "bytes": component.source().len(),
            "imports": component.imports(),
            "exports": component.exports(),
            "description": component.description(),
        });
        anstream::println!("{document}");
        return Ok(());
    }
    print(&component)
}

fn print(component: &Component) -> Result<()> {
    let description = component.description();
    anstream::println!("{} {}", style::strong(&description.name), description.version);
    anstream::println!("  digest        {}", component.digest());
    anstream::println!("  size          {} bytes", component.source().len());
    anstream::println!("  form          {}", word(&description.form)?);
    anstream::println!("  timeouts      {}", word(&description.timeout)?);
    anstream::println!("  output mode   {}", word(&description.output_mode)?);
    anstream::println!(
        "  state         {}, schema {}, reads {:?}",
        word(&description.state_format)?,
        description.state_schema,
        description.readable_schemas
    );
    anstream::println!("  imports       {}", component.imports().join(", "));
    anstream::println!("  exports       {}", component.exports().join(", "));
    anstream::println!("  parameters    {}", description.parameters);
    Ok(())
}

fn word(value: &impl serde::Serialize) -> Result<String> {
    Ok(serde_json::to_value(value)?.as_str().unwrap_or_default().to_owned())
}
