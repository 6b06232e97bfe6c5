//! An object store that behaves as a test wants: down, silent, slow, or with answers that get lost.

use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How the store behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weather {
    /// All is well.
    Fine,
    /// Every request fails at once.
    Down,
    /// No request is ever answered.
    Silent,
    /// Two requests fail, and some are answered.
    Bursts,
    /// Every second object is written, and its answer is lost.
    LostAnswers,
    /// Every answer takes some milliseconds.
    Slow,
}

/// A local store with weather.
#[derive(Debug, Clone)]
pub struct FaultyStore {
    inner: Arc<LocalFileSystem>,
    weather: Arc<Mutex<Weather>>,
    requests: Arc<AtomicU64>,
}

type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

impl FaultyStore {
    pub fn new(folder: &std::path::Path, weather: Weather) -> Self {
        std::fs::create_dir_all(folder).expect("the folder is ours");
        FaultyStore {
            inner: Arc::new(LocalFileSystem::new_with_prefix(folder).expect("it is there")),
            weather: Arc::new(Mutex::new(weather)),
            requests: Arc::default(),
        }
    }

    pub fn set(&self, weather: Weather) {
        *self.weather.lock().expect("nobody panics with it") = weather;
    }

    /// How many requests there were.
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Fails when the request is to fail. True when its answer is to be lost.
    async fn is_lost(&self) -> Result<bool> {
        let number = self.requests.fetch_add(1, Ordering::Relaxed);
        let weather = *self.weather.lock().expect("nobody panics with it");
        match weather {
            Weather::Fine => {}
            Weather::Slow => tokio::time::sleep(Duration::from_millis(3)).await,
            Weather::Silent => std::future::pending().await,
            Weather::Down => return Err(failure("503 slow down")),
            Weather::Bursts if number % 12 < 2 => return Err(failure("500 internal error")),
            Weather::LostAnswers => return Ok(number.is_multiple_of(2)),
            Weather::Bursts => {}
        }
        Ok(false)
    }
}

fn failure(why: &str) -> Error {
    Error::Generic { store: "faulty", source: why.to_owned().into() }
}

impl fmt::Display for FaultyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a faulty store")
    }
}

impl ObjectStore for FaultyStore {
    fn put_opts<'s, 'l, 'a>(
        &'s self,
        location: &'l Path,
        payload: PutPayload,
        opts: PutOptions,
    ) -> Answer<'a, PutResult>
    where
        's: 'a,
        'l: 'a,
        Self: 'a,
    {
        Box::pin(async move {
            let is_lost = self.is_lost().await?;
            let written = self.inner.put_opts(location, payload, opts).await;
            if is_lost && written.is_ok() {
                return Err(failure("the answer was lost"));
            }
            written
        })
    }

    fn put_multipart_opts<'s, 'l, 'a>(
        &'s self,
        location: &'l Path,
        opts: PutMultipartOptions,
    ) -> Answer<'a, Box<dyn MultipartUpload>>
    where
        's: 'a,
        'l: 'a,
        Self: 'a,
    {
        Box::pin(async move {
            self.is_lost().await?;
            self.inner.put_multipart_opts(location, opts).await
        })
    }

    fn get_opts<'s, 'l, 'a>(&'s self, location: &'l Path, options: GetOptions) -> Answer<'a, GetResult>
    where
        's: 'a,
        'l: 'a,
        Self: 'a,
    {
        Box::pin(async move {
            self.is_lost().await?;
            self.inner.get_opts(location, options).await
        })
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let store = self.clone();
        stream::once(async move { store.is_lost().await.map(|_| store.inner.delete_stream(locations)) })
            .flat_map(|deleted| deleted.unwrap_or_else(|error| stream::once(async move { Err(error) }).boxed()))
            .boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let (store, prefix) = (self.clone(), prefix.cloned());
        stream::once(async move { store.is_lost().await.map(|_| store.inner.list(prefix.as_ref())) })
            .flat_map(|listed| listed.unwrap_or_else(|error| stream::once(async move { Err(error) }).boxed()))
            .boxed()
    }

    fn list_with_delimiter<'s, 'p, 'a>(&'s self, prefix: Option<&'p Path>) -> Answer<'a, ListResult>
    where
        's: 'a,
        'p: 'a,
        Self: 'a,
    {
        Box::pin(async move {
            self.is_lost().await?;
            self.inner.list_with_delimiter(prefix).await
        })
    }

    fn copy_opts<'s, 'f, 't, 'a>(&'s self, from: &'f Path, to: &'t Path, options: CopyOptions) -> Answer<'a, ()>
    where
        's: 'a,
        'f: 'a,
        't: 'a,
        Self: 'a,
    {
        Box::pin(async move {
            self.is_lost().await?;
            self.inner.copy_opts(from, to, options).await
        })
    }
}
