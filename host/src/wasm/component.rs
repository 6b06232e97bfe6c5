//! [`Component`]: a rule's code, checked against the contract and ready to run. [`Loader`] makes them.

use super::bindings::RuleIndices;
use super::bindings::migration::exports::keyfold::rule::migration::GuestIndices as MigrationIndices;
use super::cache::Cache;
use super::compile::Compiler;
use super::deaf_wasi;
use super::engine::Engine;
use super::store::{StoreData, add_imports};
use super::{Sandbox, call};
use crate::description::Description;
use crate::event::{BatchId, Millis, PartitionId};
use crate::group::BatchContext;
use crate::limits::Limits;
use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};
use wasmtime::component::{InstancePre, Linker};

/// A rule's code, ready to run.
pub struct Component {
    /// `sha256:` and the hash of the bytes as they were given.
    digest: String,
    description: Description,
    imports: Vec<String>,
    exports: Vec<String>,
    pre: InstancePre<StoreData>,
    indices: RuleIndices,
    /// None when it exports no migration.
    migration: Option<MigrationIndices>,
    /// The bytes as they were given.
    source: Vec<u8>,
}

/// Makes components from bytes: compiles them in a child, or takes compiled code from the cache.
pub struct Loader {
    engine: Engine,
    cache: Cache,
    compiler: Compiler,
    limits: Limits,
}

/// What a component may import besides WASI, each within version 0.1.
const ALLOWED_IMPORTS: &[&str] = &["keyfold:rule/log@0.1.", "keyfold:rule/progress@0.1.", "keyfold:rule/types@0.1."];

/// What a component may export besides, within version 0.1.
const MIGRATION: &str = "keyfold:rule/migration@0.1.";

/// The digest by which a component is known.
pub fn digest_of(bytes: &[u8]) -> String {
    let hash = Sha256::digest(bytes);
    hash.iter().fold(String::from("sha256:"), |text, byte| text + &format!("{byte:02x}"))
}

impl Loader {
    /// Everything needed to load components.
    pub fn new(limits: Limits, cache: Cache, compiler: Compiler) -> Result<Self> {
        Ok(Self::with_engine(Engine::new(&limits)?, limits, cache, compiler))
    }

    /// The same on an engine that others load components for as well: instances of all of them share its pool.
    pub fn with_engine(engine: Engine, limits: Limits, cache: Cache, compiler: Compiler) -> Self {
        Loader { engine, cache, compiler, limits }
    }

    /// Loads a component or a core module, checks it against the contract, and asks it to describe itself.
    pub fn load(&self, bytes: &[u8]) -> Result<Component> {
        let digest = digest_of(bytes);
        let code = self.code(bytes, &digest)?;
        // SAFETY: the code comes from the compiling child just now, or from the cache, which returned it only because the
        // host's own seal over it is intact.
        let component = unsafe { wasmtime::component::Component::deserialize(&self.engine.engine, &code) };
        let component = component.map_err(anyhow::Error::from).context("failed to load the compiled code")?;
        let imports: Vec<String> = names(component.component_type().imports(&self.engine.engine));
        let exports: Vec<String> = names(component.component_type().exports(&self.engine.engine));
        check_imports(&imports)?;
        let mut linker = Linker::new(&self.engine.engine);
        add_imports(&mut linker).map_err(anyhow::Error::from)?;
        deaf_wasi::add_imports(&mut linker, &component).map_err(anyhow::Error::from)?;
        let (pre, indices) = linker
            .instantiate_pre(&component)
            .and_then(|pre| RuleIndices::new(&pre).map(|indices| (pre, indices)))
            .map_err(anyhow::Error::from)
            .context("this component does not fit the world keyfold:rule/rule@0.1.0: build it with an SDK")?;
        let migration = if exports.iter().any(|name| name.starts_with(MIGRATION)) {
            let found = MigrationIndices::new(&pre).map_err(anyhow::Error::from);
            Some(found.context("its migration is not the one of keyfold:rule/rule-with-migration@0.1.0")?)
        } else {
            None
        };
        let description = placeholder();
        let mut component =
            Component { digest, description, imports, exports, pre, indices, migration, source: bytes.to_vec() };
        let document = call::describe(&component, &self.limits, &trial_context())
            .map_err(|error| anyhow::anyhow!("the rule does not describe itself: {error}"))?;
        component.description = Description::parse(&document)?;
        Ok(component)
    }

    /// Starts the rule once with these parameters, so that wrong ones are refused before any event is read.
    pub fn check_parameters(&self, component: &Component, parameters: &[u8]) -> Result<()> {
        match Sandbox::start(component, &self.limits, parameters, &trial_context()) {
            Ok(_) => Ok(()),
            Err(error) => bail!("{}", error.message),
        }
    }

    fn code(&self, bytes: &[u8], digest: &str) -> Result<Vec<u8>> {
        let fingerprint = self.engine.fingerprint();
        if let Some(code) = self.cache.get(digest, &fingerprint) {
            return Ok(code);
        }
        let code = self.compiler.compile(bytes, &self.limits)?;
        // A full disk must not keep a rule from running.
        if let Err(error) = self.cache.put(digest, &fingerprint, &code) {
            tracing::warn!("the compiled code was not kept: {error:#}");
        }
        Ok(code)
    }
}

impl Component {
    /// `sha256:` and the hash of the bytes as they were given.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// What the rule says of itself.
    pub fn description(&self) -> &Description {
        &self.description
    }

    /// The names of what it imports.
    pub fn imports(&self) -> &[String] {
        &self.imports
    }

    /// The names of what it exports.
    pub fn exports(&self) -> &[String] {
        &self.exports
    }

    /// Whether it can rewrite states of older schemas.
    pub fn has_migration(&self) -> bool {
        self.migration.is_some()
    }

    /// The bytes as they were given.
    pub fn source(&self) -> &[u8] {
        &self.source
    }

    pub(super) fn pre(&self) -> &InstancePre<StoreData> {
        &self.pre
    }

    pub(super) fn indices(&self) -> &RuleIndices {
        &self.indices
    }

    pub(super) fn migration(&self) -> Option<&MigrationIndices> {
        self.migration.as_ref()
    }

    pub(super) fn engine(&self) -> &wasmtime::Engine {
        self.pre.engine()
    }
}

fn names<'a, T>(items: impl Iterator<Item = (&'a str, T)>) -> Vec<String> {
    items.map(|(name, _)| name.to_owned()).collect()
}

fn check_imports(imports: &[String]) -> Result<()> {
    let refused: Vec<&str> = imports
        .iter()
        .map(String::as_str)
        .filter(|name| !ALLOWED_IMPORTS.iter().any(|allowed| name.starts_with(allowed)) && !deaf_wasi::answers(name))
        .collect();
    if refused.is_empty() {
        return Ok(());
    }
    bail!(
        "the component imports {}: a rule may import keyfold:rule/log and keyfold:rule/progress and nothing else; build it \
         for wasm32-unknown-unknown",
        refused.join(", ")
    )
}

/// What a component is described and tried under, before it belongs to any stream.
fn trial_context() -> BatchContext {
    BatchContext {
        partition: PartitionId(0),
        batch: BatchId(0),
        time: Millis(0),
        watermark: Some(Millis(0)),
        seed: [0; 16],
        batch_query: false,
    }
}

/// Stands in until the rule has described itself; describing needs a component.
fn placeholder() -> Description {
    Description {
        name: String::new(),
        version: String::new(),
        form: Default::default(),
        timeout: crate::description::TimeoutKind::None,
        output_mode: Default::default(),
        state_schema: 1,
        readable_schemas: vec![1],
        state_format: crate::description::StateFormat::Opaque,
        event_members: None,
        parameters: serde_json::Value::Null,
        sdk: None,
    }
}
