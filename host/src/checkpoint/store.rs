//! [`CheckpointStore`]: the object store that a checkpoint lies in: a local folder, or S3. Here alone something awaits; everybody
//! else sees calls that return when they are done.

use super::layout::{Folder, Object};
use crate::event::Millis;
use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use object_store::aws::AmazonS3Builder;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{Error, ObjectStore, ObjectStoreExt, PutMode, PutPayload, WriteMultipart};
use std::future::Future;
use std::io::{Read, Write};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;

/// Puts and gets at once: object stores answer slowly and serve many.
const AT_ONCE: usize = 8;
/// Larger objects go in parts of this size, so that they need not be held in memory.
const PART_BYTES: usize = 16 * 1024 * 1024;

/// A request that is not answered for so long is given up, and may be tried again. The store's own attempts are within this time.
const ANSWER_MAX: Duration = Duration::from_secs(60);

/// The object store that a checkpoint lies in.
pub struct CheckpointStore {
    store: Arc<dyn ObjectStore>,
    root: Path,
    url: String,
    answer_max: Duration,
    runtime: Runtime,
}

/// What became of an object that was to be created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Created {
    /// It was written.
    Written,
    /// There was one already, with these bytes.
    Present(Bytes),
}

/// An object that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Which.
    pub object: Object,
    /// Its size.
    pub bytes: u64,
    /// When it was written, by the store's clock.
    pub modified: Millis,
}

impl CheckpointStore {
    /// Opens a checkpoint by URL: `s3://bucket/path`, `file:///path`, or the path of a folder, which is made when it is not there.
    /// What S3 needs besides is taken from the environment, under the names that Amazon's tools use.
    pub fn open(url: &str) -> Result<Self> {
        let attempt = || format!("failed to open the checkpoint {url}");
        if let Some(place) = url.strip_prefix("s3://").or_else(|| url.strip_prefix("s3a://")) {
            let (bucket, path) = place.split_once('/').unwrap_or((place, ""));
            ensure!(!bucket.is_empty(), "{url} names no bucket: write s3://BUCKET/PATH");
            let store = AmazonS3Builder::from_env().with_bucket_name(bucket).build().with_context(attempt)?;
            return Self::new(Arc::new(store), Path::parse(path).with_context(attempt)?, url);
        }
        let folder = folder_of(url);
        if let Some((scheme, _)) = folder.split_once("://") {
            bail!("{url}: checkpoints are kept in a folder or at s3://BUCKET/PATH, not at {scheme}://");
        }
        std::fs::create_dir_all(folder).with_context(attempt)?;
        // Synced, as an object store does: a machine that loses its power must not lose what was said to be there.
        let store = LocalFileSystem::new_with_prefix(folder).with_context(attempt)?.with_fsync(true);
        Self::new(Arc::new(store), Path::default(), url)
    }

    /// Opens a checkpoint that is only read: a folder that is not there is not made.
    pub fn open_to_read(url: &str) -> Result<Self> {
        let folder = std::path::Path::new(folder_of(url));
        ensure!(
            url.contains("://") && !url.starts_with("file://") || folder.is_dir(),
            "there is no checkpoint at {url}"
        );
        Self::open(url)
    }

    /// A checkpoint in a store that was opened elsewhere, below a path in it.
    pub fn new(store: Arc<dyn ObjectStore>, root: Path, url: &str) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(CheckpointStore { store, root, url: url.to_owned(), answer_max: ANSWER_MAX, runtime })
    }

    /// The same store, with requests given up that are not answered for so long.
    pub fn with_answer_max(self, answer_max: Duration) -> Self {
        CheckpointStore { answer_max, ..self }
    }

    /// Where it is, for people.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Writes an object unless there is one.
    pub fn create(&self, object: &Object, bytes: Bytes) -> Result<Created> {
        self.runtime.block_on(self.create_one(object, bytes))
    }

    /// Writes several objects, each unless there is one. The results are in the order of the objects: when some fail, others are
    /// written.
    pub fn create_all(&self, objects: &[(Object, Bytes)]) -> Vec<Result<Created>> {
        let puts = objects.iter().map(|(object, bytes)| self.create_one(object, bytes.clone()));
        self.runtime.block_on(stream::iter(puts).buffered(AT_ONCE).collect())
    }

    /// Writes an object in place of one that is damaged.
    pub fn overwrite(&self, object: &Object, bytes: Bytes) -> Result<()> {
        let path = object.path(&self.root);
        let put = self.store.put(&path, bytes.into());
        self.runtime.block_on(self.answer(put)).with_context(|| self.attempt("write", object))?;
        Ok(())
    }

    /// Writes an object of any size, in place of one that is there: only for objects that are the same whoever writes them.
    pub fn upload(&self, object: &Object, mut content: impl Read) -> Result<()> {
        let path = object.path(&self.root);
        let upload = async {
            let mut part = Vec::new();
            (&mut content).take(PART_BYTES as u64).read_to_end(&mut part)?;
            if part.len() < PART_BYTES {
                self.answer(self.store.put(&path, part.into())).await?;
                return Ok(());
            }
            let mut writer =
                WriteMultipart::new_with_chunk_size(self.answer(self.store.put_multipart(&path)).await?, PART_BYTES);
            while !part.is_empty() {
                self.answer(writer.wait_for_capacity(2)).await?;
                writer.put(std::mem::take(&mut part).into());
                (&mut content).take(PART_BYTES as u64).read_to_end(&mut part)?;
            }
            self.answer(writer.finish()).await?;
            anyhow::Ok(())
        };
        self.runtime.block_on(upload).with_context(|| self.attempt("write", object))
    }

    /// The bytes of an object; none when it is not there.
    pub fn read(&self, object: &Object) -> Result<Option<Bytes>> {
        self.runtime.block_on(self.read_one(object))
    }

    /// The bytes of several objects, in their order.
    pub fn read_all(&self, objects: &[Object]) -> Result<Vec<Option<Bytes>>> {
        let gets = objects.iter().map(|object| self.read_one(object));
        self.runtime.block_on(stream::iter(gets).buffered(AT_ONCE).try_collect())
    }

    /// Copies an object of any size; none when it is not there, else how many bytes it has.
    pub fn download(&self, object: &Object, mut to: impl Write) -> Result<Option<u64>> {
        let path = object.path(&self.root);
        let download = async {
            let mut parts = match self.answer(self.store.get(&path)).await {
                Ok(found) => found.into_stream(),
                Err(Error::NotFound { .. }) => return Ok(None),
                Err(error) => return Err(error.into()),
            };
            let mut bytes = 0;
            while let Some(part) = self.answer(parts.try_next()).await? {
                to.write_all(&part)?;
                bytes += part.len() as u64;
            }
            anyhow::Ok(Some(bytes))
        };
        self.runtime.block_on(download).with_context(|| self.attempt("read", object))
    }

    /// The objects of a folder, in the order of batches. What is not ours is left out.
    pub fn list(&self, folder: Folder) -> Result<Vec<Listed>> {
        let prefix = folder.name().into_iter().flat_map(|name| name.split('/').map(str::to_owned).collect::<Vec<_>>());
        let prefix = prefix.fold(self.root.clone(), Path::join);
        let found = self.runtime.block_on(self.answer(self.store.list(Some(&prefix)).try_collect::<Vec<_>>()));
        let found = found.with_context(|| format!("failed to list {}/{prefix}", self.url))?;
        let listed = |meta: object_store::ObjectMeta| {
            let name: Vec<String> =
                meta.location.prefix_match(&self.root)?.map(|part| part.as_ref().to_owned()).collect();
            let object = Object::of_name(&name.join("/"))?;
            Some(Listed { object, bytes: meta.size, modified: Millis(meta.last_modified.timestamp_millis()) })
        };
        let mut listed: Vec<Listed> = found.into_iter().filter_map(listed).collect();
        listed.sort_by(|a, b| a.object.cmp(&b.object));
        Ok(listed)
    }

    /// Deletes objects, one after another in their order. One that is gone already is no error.
    pub fn delete(&self, objects: &[Object]) -> Result<()> {
        for object in objects {
            match self.runtime.block_on(self.answer(self.store.delete(&object.path(&self.root)))) {
                Ok(()) | Err(Error::NotFound { .. }) => {}
                Err(error) => return Err(error).with_context(|| self.attempt("delete", object)),
            }
        }
        Ok(())
    }

    async fn create_one(&self, object: &Object, bytes: Bytes) -> Result<Created> {
        let path = object.path(&self.root);
        match self.answer(self.store.put_opts(&path, PutPayload::from(bytes), PutMode::Create.into())).await {
            Ok(_) => Ok(Created::Written),
            Err(Error::AlreadyExists { .. }) => {
                let found = self.read_one(object).await?;
                Ok(Created::Present(found.with_context(|| self.attempt("find again", object))?))
            }
            Err(error) => Err(error).with_context(|| self.attempt("write", object)),
        }
    }

    async fn read_one(&self, object: &Object) -> Result<Option<Bytes>> {
        let read = async { self.store.get(&object.path(&self.root)).await?.bytes().await };
        match self.answer(read).await {
            Ok(bytes) => Ok(Some(bytes)),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(error).with_context(|| self.attempt("read", object)),
        }
    }

    /// The answer of the store; an error when there is none for too long.
    async fn answer<T>(&self, request: impl Future<Output = object_store::Result<T>>) -> object_store::Result<T> {
        let answered = tokio::time::timeout(self.answer_max, request).await;
        answered.unwrap_or_else(|_| {
            let source = format!("no answer within {} s", self.answer_max.as_secs_f32()).into();
            Err(Error::Generic { store: "checkpoint", source })
        })
    }

    fn attempt(&self, what: &str, object: &Object) -> String {
        format!("failed to {what} {}/{}", self.url.trim_end_matches('/'), object.name())
    }
}

/// The path in the URL of a folder.
fn folder_of(url: &str) -> &str {
    url.strip_prefix("file://").unwrap_or(url)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{BatchId, PartitionId};

    fn store() -> (tempfile::TempDir, CheckpointStore) {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let url = folder.path().join("a/b").display().to_string();
        let store = CheckpointStore::open(&url).expect("the folder is ours");
        (folder, store)
    }

    #[test]
    fn what_is_there_is_not_written_again() {
        let (_folder, store) = store();
        let plan = Object::Offsets(BatchId(3));
        assert_eq!(store.create(&plan, "first".into()).expect("it is new"), Created::Written);
        assert_eq!(store.create(&plan, "second".into()).expect("it is found"), Created::Present("first".into()));
        assert_eq!(store.read(&plan).expect("it can be read"), Some("first".into()));
        assert_eq!(store.read(&Object::Metadata).expect("that can be asked"), None);
    }

    #[test]
    fn objects_are_listed_in_the_order_of_batches() {
        let (_folder, store) = store();
        let batches = [10, 9, 100].map(|batch| (Object::Delta(PartitionId(1), BatchId(batch)), Bytes::from("x")));
        assert!(
            store
                .create_all(&batches)
                .into_iter()
                .all(|created| created.is_ok_and(|created| created == Created::Written))
        );
        store.create(&Object::Delta(PartitionId(11), BatchId(1)), "x".into()).expect("it is new");
        let found = store.list(Folder::Partition(PartitionId(1))).expect("they can be listed");
        let batches: Vec<_> = found.into_iter().map(|listed| listed.object).collect();
        assert_eq!(batches, [9, 10, 100].map(|batch| Object::Delta(PartitionId(1), BatchId(batch))));
        store.delete(&batches).expect("they are there");
        assert!(store.list(Folder::Partition(PartitionId(1))).expect("they can be listed").is_empty());
    }

    #[test]
    fn an_object_in_parts_comes_back_as_it_went_in() {
        let (_folder, store) = store();
        let content: Vec<u8> = (0..PART_BYTES * 2 + 5).map(|number| (number % 251) as u8).collect();
        let snapshot = Object::Snapshot(PartitionId(0), BatchId(1));
        for length in [0, 10, PART_BYTES, content.len()] {
            store.upload(&snapshot, &content[..length]).expect("it can be written");
            let mut found = Vec::new();
            assert_eq!(store.download(&snapshot, &mut found).expect("it can be read"), Some(length as u64));
            assert!(found == content[..length], "{length} bytes");
        }
    }

    #[test]
    fn places_that_are_not_known_are_refused() {
        for (url, part) in [("gs://bucket/path", "gs://"), ("s3:///path", "no bucket")] {
            let error = CheckpointStore::open(url).err().expect(url);
            assert!(format!("{error:#}").contains(part), "{error:#}");
        }
    }
}
