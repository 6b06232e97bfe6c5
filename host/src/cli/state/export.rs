//! `keyfold state export`: states as a file that can be imported.

use anyhow::{Context, Result};
use keyfold::event::BatchId;
use keyfold::inspection::{StateDecoder, row_to_import};
use keyfold::state::folder_reader::FolderReader;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// Write the states and timeouts of all keys as lines that `keyfold state import --as-is` takes, also while the rule runs
///
/// What is imported is what was exported, to the byte. A state is written as `value` where that is possible, else as `value_hex`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  keyfold state export state --output states.jsonl
  keyfold state export state --batch 41 | jq -c 'select(.value.flagged)'
  keyfold state export old --output states.jsonl && keyfold state import new states.jsonl --as-is")]
pub struct ExportArgs {
    /// The data folder
    #[arg(value_name = "DATA")]
    data: PathBuf,

    /// The state as it was after this batch [default: the last one]
    #[arg(long, value_name = "N")]
    batch: Option<u64>,

    /// A file, which appears when it is whole [default: standard output]
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Exports the states.
pub fn export(args: &ExportArgs) -> Result<()> {
    let Some(path) = &args.output else {
        let mut stdout = BufWriter::new(std::io::stdout().lock());
        write(args, &mut stdout)?;
        return Ok(stdout.flush()?);
    };
    let attempt = || format!("failed to write {}", path.display());
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut output = BufWriter::new(tempfile::NamedTempFile::new_in(folder).with_context(attempt)?);
    let rows = write(args, &mut output)?;
    let file = output.into_inner().map_err(|error| error.into_error()).with_context(attempt)?;
    file.as_file().sync_all().with_context(attempt)?;
    file.persist(path).with_context(attempt)?;
    anstream::eprintln!("{rows} states are in {}", path.display());
    Ok(())
}

fn write(args: &ExportArgs, output: &mut impl Write) -> Result<u64> {
    let decoder = StateDecoder::of_folder(&args.data)?;
    let reader = FolderReader::open(&args.data, super::partitions(&args.data, None)?)?;
    let mut rows = 0;
    let each = |_, row| {
        rows += 1;
        Ok(writeln!(output, "{}", row_to_import(&row, &decoder)?)?)
    };
    match args.batch {
        Some(batch) => reader.scan_at(BatchId(batch), each)?,
        None => reader.scan(each)?,
    }
    Ok(rows)
}
