//! Settings of a server: its file, its first token, its log, and what is read again.

use super::served::Served;
use crate::support::command;
use crate::support::process::wait_until;
use std::fs;
use std::os::unix::fs::PermissionsExt;

#[test]
fn the_first_token_is_given_once_and_only_to_whoever_started_the_server() {
    let served = Served::start();
    let file = served.folder().join("admin.token");
    let mode = fs::metadata(&file).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    fs::remove_file(&file).expect("it can be deleted");
    let (finished, stopped) = served.stop();
    assert!(!finished.ok().stdout.contains("kf_"));
    fs::write(&file, "kept").expect("the disk has room");
    let served = stopped.start();
    assert_eq!(fs::read_to_string(&file).expect("it is there"), "kept", "there is no second first token");
    drop(served);
}

#[test]
fn a_wrong_configuration_is_refused_with_all_that_is_wrong() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let file = folder.path().join("keyfold.toml");
    fs::write(&file, "dta = 'x'\nlissten = 'y'\n").expect("the disk has room");
    command::run(["serve", "--config", &file.display().to_string()]).fails_with(&["dta", "lissten"]);
    command::run(["serve"]).fails_with(&["--data"]);
}

#[test]
fn a_port_that_is_taken_is_refused_before_anything_is_made() {
    let served = Served::start();
    let folder = tempfile::tempdir().expect("a folder can be made");
    let data = folder.path().join("server").display().to_string();
    let address = served.url.trim_start_matches("http://");
    command::run(["serve", "--data", &data, "--listen", address]).fails_with(&["cannot listen on", address]);
    assert!(!folder.path().join("server").exists());
}

#[test]
fn the_log_filter_and_default_quotas_are_read_again_after_a_hang_up_signal() {
    let served = Served::configured("log = 'warn'\n[quotas]\nstreams = 1\n");
    let [admin, ..] = served.tenant("acme");
    admin.put("/v1/streams/a", serde_json::json!({})).ok();
    let refused = admin.put("/v1/streams/b", serde_json::json!({}));
    assert_eq!((refused.status, refused.json()["quota"].as_str()), (403, Some("streams")), "{}", refused.text);
    let file = served.folder().join("keyfold.toml");
    fs::write(&file, "log = 'keyfold=debug'\n[quotas]\nstreams = 2\n").expect("the disk has room");
    served.process().signal("-HUP");
    wait_until("the settings are read again", || served.process().has_said("read again"));
    admin.put("/v1/streams/b", serde_json::json!({})).ok();
    wait_until("requests are logged now", || {
        admin.get("/v1/streams").ok();
        served.process().has_said("answered")
    });
}

#[test]
fn log_lines_are_json_when_somebody_says_so_and_name_the_request() {
    let served = Served::with(&["--log-json", "--log", "keyfold=debug"]);
    let request = served.nobody().request(reqwest::Method::GET, "/healthz").header("x-request-id", "from-the-client");
    let answer = request.send().expect("the server answers");
    assert_eq!(answer.headers()["x-request-id"], "from-the-client");
    wait_until("the request is logged", || served.process().has_said("from-the-client"));
    let said = served.process().said();
    let line = said.lines().find(|line| line.contains("from-the-client")).expect("it is there");
    let line: serde_json::Value = serde_json::from_str(line).expect("it is JSON");
    assert_eq!(line["span"]["id"], "from-the-client", "{line}");
}

#[test]
fn requests_are_traced_to_a_collector_when_one_is_named() {
    let collector = tiny_http::Server::http("127.0.0.1:0").expect("there are free ports");
    let address = collector.server_addr().to_ip().expect("it is an address of the network");
    let served = Served::with(&["--otlp", &format!("http://{address}/v1/traces")]);
    served.nobody().get("/healthz").ok();
    let stopping = std::thread::spawn(move || served.stop().0);
    let mut request =
        collector.recv_timeout(std::time::Duration::from_secs(60)).expect("it listens").expect("traces come");
    assert_eq!(request.url(), "/v1/traces");
    let mut body = Vec::new();
    std::io::Read::read_to_end(request.as_reader(), &mut body).expect("it can be read");
    let text = String::from_utf8_lossy(&body);
    assert!(text.contains("GET /healthz") && text.contains("keyfold"), "{text}");
    request.respond(tiny_http::Response::empty(200)).expect("it waits for the answer");
    stopping.join().expect("it stops").ok();
}
