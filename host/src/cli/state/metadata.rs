//! `keyfold state metadata`: what there is to read, Spark's `state-metadata`.

use anyhow::Result;
use keyfold::progress::OPERATOR_NAME;
use keyfold::state::PlanLog;
use keyfold::state::folder_reader::FolderReader;
use serde_json::{Value, json};
use std::path::PathBuf;

/// Print which batches can be read, and what the rule says of its state, as JSON
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  keyfold state metadata state | jq '.minBatchId, .maxBatchId'
  keyfold state metadata state | jq .operatorProperties.stateSchema")]
pub struct MetadataArgs {
    /// The data folder
    #[arg(value_name = "DATA")]
    data: PathBuf,
}

/// Prints the metadata: Spark's columns. A rule is the one operator of its query, with one store.
pub fn metadata(args: &MetadataArgs) -> Result<()> {
    let partitions = super::partitions(&args.data, None)?;
    let readable = FolderReader::open(&args.data, partitions.clone())?.readable();
    let line = json!({
        "operatorId": 0,
        "operatorName": OPERATOR_NAME,
        "stateStoreName": "default",
        "numPartitions": partitions.end,
        "minBatchId": readable.as_ref().map(|batches| batches.start().0),
        "maxBatchId": readable.as_ref().map(|batches| batches.end().0),
        "operatorProperties": properties(args)?,
    });
    anstream::println!("{line}");
    Ok(())
}

fn properties(args: &MetadataArgs) -> Result<Value> {
    let Some(rule) = PlanLog::description(&args.data)? else { return Ok(json!({})) };
    Ok(json!({
        "rule": rule.name,
        "version": rule.version,
        "timeout": rule.timeout,
        "outputMode": rule.output_mode,
        "stateSchema": rule.state_schema,
        "readableSchemas": rule.readable_schemas,
        "stateFormat": rule.state_format,
    }))
}
