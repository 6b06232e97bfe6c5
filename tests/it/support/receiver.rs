//! A web server that outputs are posted to, and that answers as a test wants.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;
use tiny_http::{Header, Response, Server};

/// Requests that are answered at the same time.
const THREADS: usize = 4;

/// A server that keeps what it gets. It ends with the test.
pub struct Receiver {
    server: Arc<Server>,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

/// One request.
#[derive(Debug, Clone)]
pub struct Post {
    /// The `Idempotency-Key`.
    pub key: String,
    pub partition: u32,
    pub batch: u64,
    /// The numbers of the first and the last output.
    pub numbers: (u64, u64),
    /// All headers, with names in lower case.
    pub headers: BTreeMap<String, String>,
    pub body: String,
    pub at: Instant,
    /// What was answered.
    pub status: u16,
}

/// What the server says.
#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    pub retry_after: Option<&'static str>,
}

impl Answer {
    /// Only a status.
    pub fn status(status: u16) -> Self {
        Answer { status, retry_after: None }
    }
}

type Judge = Box<dyn FnMut(&Post) -> Answer + Send>;

struct Shared {
    judge: Mutex<Judge>,
    posts: Mutex<Vec<Post>>,
}

impl Receiver {
    /// A server on a free port.
    pub fn start(judge: impl FnMut(&Post) -> Answer + Send + 'static) -> Self {
        Receiver::start_on(0, judge)
    }

    /// A server on this port.
    pub fn start_on(port: u16, judge: impl FnMut(&Post) -> Answer + Send + 'static) -> Self {
        let server = Arc::new(Server::http(("127.0.0.1", port)).expect("the port is free"));
        let shared = Arc::new(Shared { judge: Mutex::new(Box::new(judge)), posts: Mutex::default() });
        let serve = |_| {
            let (server, shared) = (Arc::clone(&server), Arc::clone(&shared));
            std::thread::spawn(move || {
                while let Ok(request) = server.recv() {
                    shared.serve(request);
                }
            })
        };
        let threads = (0..THREADS).map(serve).collect();
        Receiver { server, shared, threads }
    }

    /// A port on which nobody listens, for now.
    pub fn free_port() -> u16 {
        Receiver::start(|_| Answer::status(200)).port()
    }

    pub fn port(&self) -> u16 {
        self.server.server_addr().to_ip().expect("it listens on a port").port()
    }

    pub fn url(&self) -> String {
        url(self.port())
    }

    /// From now on, answers so.
    pub fn answer(&self, judge: impl FnMut(&Post) -> Answer + Send + 'static) {
        *self.shared.judge.lock().unwrap_or_else(PoisonError::into_inner) = Box::new(judge);
    }

    /// All requests, in the order in which they came.
    pub fn posts(&self) -> Vec<Post> {
        self.shared.posts.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The requests that were taken.
    pub fn taken(&self) -> Vec<Post> {
        self.posts().into_iter().filter(|post| post.status == 200).collect()
    }

    /// How many were taken.
    pub fn taken_count(&self) -> usize {
        self.shared
            .posts
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
            .filter(|post| post.status == 200)
            .count()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.threads.iter().for_each(|_| self.server.unblock());
        for thread in self.threads.drain(..) {
            // A thread that panicked has failed the test already.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn serve(&self, mut request: tiny_http::Request) {
        let mut body = String::new();
        if request.as_reader().read_to_string(&mut body).is_err() {
            // The sender was killed in the middle of it.
            return;
        }
        let header = |header: &Header| (header.field.to_string().to_lowercase(), header.value.to_string());
        let headers = request.headers().iter().map(header).collect();
        let mut post = Post::new(headers, body);
        let answer = {
            // Judged and kept in one step, so that the order of the posts is the order in which they were judged.
            let mut judge = self.judge.lock().unwrap_or_else(PoisonError::into_inner);
            let answer = judge(&post);
            post.status = answer.status;
            self.posts.lock().unwrap_or_else(PoisonError::into_inner).push(post);
            answer
        };
        let mut response = Response::from_string("so it is").with_status_code(answer.status);
        if let Some(retry_after) = answer.retry_after {
            response.add_header(Header::from_bytes("Retry-After", retry_after).expect("it is a header"));
        }
        // The sender may be gone.
        let _ = request.respond(response);
    }
}

impl Post {
    fn new(headers: BTreeMap<String, String>, body: String) -> Self {
        let key = headers.get("idempotency-key").expect("every request has an id").clone();
        let parts: Vec<&str> = key.split('/').collect();
        let number = |part: &str| part.parse::<u64>().unwrap_or_else(|_| panic!("the id is {key}"));
        assert_eq!(parts.len(), 4, "the id is {key}");
        let (first, last) = parts[3].split_once('-').unwrap_or((parts[3], parts[3]));
        Post {
            partition: number(parts[1]) as u32,
            batch: number(parts[2]),
            numbers: (number(first), number(last)),
            key,
            headers,
            body,
            at: Instant::now(),
            status: 0,
        }
    }
}

/// The URL of a server on this port.
pub fn url(port: u16) -> String {
    format!("http://127.0.0.1:{port}/alerts")
}
