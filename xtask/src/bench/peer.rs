//! [`Peer`]: an engine of others, set up below the target folder by a script of its own in `bench/peers`.

use super::engine::Family;
use crate::step::{self, step};
use crate::workspace::Workspace;
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// An engine of others.
pub struct Peer {
    family: Family,
    /// Its scripts and its program.
    source: PathBuf,
    /// What was set up.
    folder: PathBuf,
}

/// Whether a peer can run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetUp {
    /// Yes.
    Done,
    /// Its scripts or its program have changed since.
    Outdated,
    /// Not yet.
    Missing,
}

const PEERS: [Family; 3] = [Family::Spark, Family::Flink, Family::Bytewax];

impl Peer {
    /// The peer of this family; none for what the project builds itself.
    pub fn new(workspace: &Workspace, family: Family) -> Option<Self> {
        PEERS.contains(&family).then(|| Peer {
            family,
            source: workspace.root.join("bench/peers").join(family.name()),
            folder: workspace.target.join("peers").join(family.name()),
        })
    }

    /// Whether it was set up with what its folder holds now.
    pub fn set_up_state(&self) -> Result<SetUp> {
        Ok(match fs::read_to_string(self.note()) {
            Ok(note) if note == texts(&self.source)? => SetUp::Done,
            Ok(_) => SetUp::Outdated,
            Err(_) => SetUp::Missing,
        })
    }

    /// Downloads it, unless that was done, and compiles its program.
    pub fn set_up(&self) -> Result<()> {
        let (name, folder) = (self.family.name(), &self.folder);
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let mut script = Command::new(self.source.join("set-up.sh"));
        step(&format!("Setting up {name} in {}", folder.display()), || step::run(script.arg(folder)))?;
        // Written last, so that a set-up that was interrupted is none.
        let note = self.note();
        fs::write(&note, texts(&self.source)?).with_context(|| format!("cannot write {}", note.display()))
    }

    /// The command that runs it, without the arguments of the engine.
    pub fn command(&self, input: &Path, output: &Path) -> Command {
        let mut command = Command::new(self.source.join("run.sh"));
        command.args([&self.folder, input, output]);
        command
    }

    /// The texts that it was set up with.
    fn note(&self) -> PathBuf {
        self.folder.join("set-up-with")
    }
}

/// The peers with these names; `all` stands for every one.
pub fn named(workspace: &Workspace, names: &[String]) -> Result<Vec<Peer>> {
    let mut families = Vec::new();
    for name in names {
        match PEERS.iter().find(|family| family.name() == name) {
            Some(family) => families.push(*family),
            None if name == "all" => families.extend(PEERS),
            None => {
                bail!("there is no peer {name} to set up; there are spark, flink, bytewax, or all of them with `all`")
            }
        }
    }
    Ok(families.into_iter().filter_map(|family| Peer::new(workspace, family)).collect())
}

/// Names and texts of all files of a folder.
fn texts(folder: &Path) -> Result<String> {
    let context = || format!("cannot read {}", folder.display());
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).with_context(context)? {
        let path = entry.with_context(context)?.path();
        // Not the folder that Python makes for what it has compiled.
        if path.is_file() {
            paths.push(path);
        }
    }
    paths.sort();
    let mut texts = String::new();
    for path in paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        texts += &format!("==> {name}\n{}", fs::read_to_string(&path).with_context(context)?);
    }
    Ok(texts)
}
