//! An S3 server of the tests' own: SeaweedFS, from its Python package, on free ports of this machine.

use super::command;
use super::process::wait_until;
use keyfold::checkpoint::CheckpointStore;
use object_store::aws::AmazonS3Builder;
use object_store::path::Path as ObjectPath;
use std::fs::{self, File};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, OnceLock};
use tempfile::TempDir;

/// The package with its checksum, which `cargo xtask test` installs, too.
const REQUIREMENTS: &str = "tests/it/support/seaweedfs.txt";
const BUCKET: &str = "keyfold";
const KEY: &str = "test";
const SECRET: &str = "testtest";
/// The server and the services that it is made of, each with a second port for its own use.
const PORTS: [&str; 5] = ["s3", "master", "filer", "volume", "admin"];
/// Kills the server when this process ends, however it ends: then the pipe is closed.
const RUN: &str = "\"$@\" & server=$!; read -r line; kill -9 $server";

/// A server that lives as long as the test process.
pub struct Server {
    port: u16,
    _child: Child,
    _folder: TempDir,
}

/// The server, started by the first test that needs it.
pub fn server() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(Server::start)
}

impl Server {
    fn start() -> Self {
        let weed = install();
        let folder = tempfile::tempdir().expect("a folder can be made");
        let ports = free_ports(2 * PORTS.len());
        let mut server = Command::new("sh");
        server.args(["-c", RUN, "sh"]).arg(&weed).arg("mini");
        server.arg(format!("-dir={}", folder.path().display())).arg(format!("-bucket={BUCKET}"));
        server.args(["-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-webdav=false", "-admin.ui=false"]);
        server.args(["-s3.port.iceberg=0", "-s3.port.lance=0"]);
        for (name, ports) in PORTS.iter().zip(ports.chunks(2)) {
            server.arg(format!("-{name}.port={}", ports[0])).arg(format!("-{name}.port.grpc={}", ports[1]));
        }
        server.env("AWS_ACCESS_KEY_ID", KEY).env("AWS_SECRET_ACCESS_KEY", SECRET);
        let log = File::create(folder.path().join("log")).expect("the folder is ours");
        server.stdin(Stdio::piped()).stdout(log.try_clone().expect("a file can be opened twice")).stderr(log);
        let child = server.spawn().expect("there is a shell");
        let server = Server { port: ports[0], _child: child, _folder: folder };
        wait_until("SeaweedFS listens", || TcpStream::connect(("127.0.0.1", server.port)).is_ok());
        let store = server.store("is-it-there");
        // The bucket is made a moment after the port is opened.
        wait_until("SeaweedFS answers", || {
            let ready = keyfold::checkpoint::Object::Epoch(1);
            store.overwrite(&ready, "yes".into()).is_ok()
        });
        server
    }

    /// A place for checkpoints.
    pub fn store(&self, path: &str) -> CheckpointStore {
        let store = AmazonS3Builder::new()
            .with_bucket_name(BUCKET)
            .with_endpoint(format!("http://127.0.0.1:{}", self.port))
            .with_allow_http(true)
            .with_region("us-east-1")
            .with_access_key_id(KEY)
            .with_secret_access_key(SECRET)
            .build()
            .expect("the settings are right");
        let path = ObjectPath::parse(path).expect("it is a path");
        CheckpointStore::new(Arc::new(store), path, "the tests' S3").expect("a runtime starts")
    }

    /// The URL of a place, and what a program needs in its environment to get there.
    pub fn url(&self, path: &str, call: &mut Command) -> String {
        call.env("AWS_ENDPOINT", format!("http://127.0.0.1:{}", self.port)).env("AWS_ALLOW_HTTP", "true");
        call.env("AWS_REGION", "us-east-1").env("AWS_ACCESS_KEY_ID", KEY).env("AWS_SECRET_ACCESS_KEY", SECRET);
        format!("s3://{BUCKET}/{path}")
    }
}

/// Installs the package below the target folder, unless it is there. Returns the program.
fn install() -> PathBuf {
    let folder = command::target().join("seaweedfs");
    fs::create_dir_all(&folder).expect("the target folder can be written");
    let lock = File::create(folder.join("lock")).expect("the target folder can be written");
    lock.lock().expect("a file can be locked");
    let (venv, weed) = (folder.join("venv"), folder.join("venv/bin/weed"));
    if !weed.is_file() {
        run(Command::new("python3").args(["-m", "venv"]).arg(&venv));
        let requirements = command::root().join(REQUIREMENTS);
        run(Command::new(venv.join("bin/pip"))
            .args(["install", "--quiet", "--disable-pip-version-check", "--no-deps", "--require-hashes", "-r"])
            .arg(requirements));
    }
    assert!(weed.is_file(), "{} is not there after it was installed", weed.display());
    weed
}

fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| missing(&format!("{command:?} does not start: {error}")));
    if !output.status.success() {
        missing(&format!("{command:?} failed:\n{}", String::from_utf8_lossy(&output.stderr)));
    }
}

fn missing(why: &str) -> ! {
    panic!(
        "the tests of S3 need SeaweedFS, the Python package in {REQUIREMENTS}, which is installed with Python 3 and its venv module, \
         and a network the first time: {why}"
    )
}

/// Ports that nobody has at this moment. All are held until the last is found, so that no two are the same.
fn free_ports(count: usize) -> Vec<u16> {
    let listen = |_| TcpListener::bind(("127.0.0.1", 0)).expect("there are free ports");
    let listeners: Vec<TcpListener> = (0..count).map(listen).collect();
    listeners.iter().map(|listener| listener.local_addr().expect("it is bound").port()).collect()
}
