//! A random course of what tenants and machines do, held against a model: versions are brought, activated and rolled back, events
//! and questions come in, tokens are revoked, and the server is stopped, or killed while it takes events.

use super::ask::{Ask, Reply};
use super::served::{ROLES, Served, events, manifest, upload};
use crate::support::process::wait_until;
use crate::support::{command, rules};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use reqwest::Method;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Versions that say the same of these keys, and read each other's states.
const VERSIONS: [&str; 3] = ["slow", "fail", "panic"];
const KEYS: u64 = 6;
/// What one course does.
const ACTIONS: usize = 45;
const SEEDS: [u64; 2] = [1, 2];

/// What must be true.
#[derive(Default)]
struct Model {
    /// How often each key has come.
    counts: BTreeMap<String, u64>,
    /// The digests that were uploaded.
    uploaded: Vec<String>,
    /// The digests that ran, one after another.
    ran: Vec<String>,
}

struct Course {
    served: Option<Served>,
    /// The secrets of the tenant, in the order of [`ROLES`].
    secrets: [String; 4],
    revoked: Vec<String>,
    model: Model,
    random: ChaCha8Rng,
    number: u64,
}

#[test]
fn whatever_comes_after_what_nothing_is_lost_or_counted_twice() {
    for seed in SEEDS {
        println!("seed {seed}");
        let served = Served::start();
        served.tenant("acme");
        let secrets = ROLES.map(|role| served.token("acme", &format!("course-{role}"), role));
        let random = ChaCha8Rng::seed_from_u64(seed);
        let (revoked, model) = (Vec::new(), Model::default());
        let mut course = Course { served: Some(served), secrets, revoked, model, random, number: 0 };
        let admin = course.admin();
        admin.put("/v1/streams/s", json!({})).ok();
        let mut patient = manifest("s");
        patient["decide"] = json!({ "deadline": "30s" });
        admin.put("/v1/rules/r", patient).ok();
        course.upload(0);
        course.activate(0);
        (0..ACTIONS).for_each(|_| course.act());
        course.check();
        let (_, stopped) = course.served.take().expect("it runs").stop();
        command::run(["audit", "verify", &stopped.data().display().to_string()]).ok();
    }
}

impl Course {
    fn served(&self) -> &Served {
        self.served.as_ref().expect("it runs")
    }

    fn admin(&self) -> Ask {
        self.served().nobody().with(&self.secrets[0])
    }

    fn act(&mut self) {
        match self.random.random_range(0..100) {
            0..35 => {
                let body = self.body();
                self.send(&body).ok();
            }
            35..55 => self.decide(),
            55..62 => {
                let version = self.random.random_range(0..VERSIONS.len());
                self.upload(version);
            }
            62..72 => {
                let version = self.random.random_range(0..self.model.uploaded.len());
                self.activate(version);
            }
            72..78 => self.roll_back(),
            78..84 => self.revoke(),
            84..90 => {
                self.check();
                let (_, stopped) = self.served.take().expect("it runs").stop();
                self.served = Some(stopped.start());
            }
            _ => self.kill(),
        }
    }

    /// Events of random keys, and their number for the model.
    fn body(&mut self) -> String {
        self.number += 1;
        let mut lines = String::new();
        for _ in 0..self.random.random_range(1..30) {
            let key = format!("key-{}", self.random.random_range(0..KEYS));
            lines += &(rules::event(&key, self.number as i64 * 1000) + "\n");
            *self.model.counts.entry(key).or_default() += 1;
        }
        lines
    }

    fn send(&self, body: &str) -> Reply {
        Reply::of(self.request(body).send().expect("the server answers"))
    }

    fn request(&self, body: &str) -> reqwest::blocking::RequestBuilder {
        self.admin()
            .request(Method::POST, "/v1/streams/s/events")
            .header("content-type", "application/x-ndjson")
            .header("idempotency-key", format!("body-{}", self.number))
            .body(body.to_owned())
    }

    /// The answer has all that came before it.
    fn decide(&mut self) {
        self.number += 1;
        let key = format!("key-{}", self.random.random_range(0..KEYS));
        let count = self.model.counts.entry(key.clone()).or_default();
        *count += 1;
        let expected = *count;
        let event: Value = serde_json::from_str(&rules::event(&key, self.number as i64 * 1000)).expect("it is JSON");
        let decision = self.admin().post("/v1/rules/r/decide", event).ok();
        assert_eq!(decision["decided"], true, "{decision}");
        let outputs = decision["outputs"].as_array().expect("it is a list");
        assert_eq!(outputs.last().map(|output| &output["count"]), Some(&json!(expected)), "{decision}");
        assert_eq!(decision["version"]["digest"].as_str(), self.model.ran.last().map(String::as_str), "{decision}");
    }

    fn upload(&mut self, version: usize) {
        let found = upload(&self.admin(), "r", rules::guest(VERSIONS[version]));
        assert_eq!(found["status"], "ready", "{found}");
        let digest = found["digest"].as_str().expect("it has one").to_owned();
        if !self.model.uploaded.contains(&digest) {
            self.model.uploaded.push(digest);
        }
    }

    fn activate(&mut self, version: usize) {
        let digest = self.model.uploaded[version].clone();
        self.admin().post("/v1/rules/r/activate", json!({ "version": digest, "state": "keep" })).ok();
        self.model.ran.push(digest);
    }

    fn roll_back(&mut self) {
        let reply = self.admin().post("/v1/rules/r/rollback", json!({ "state": "keep" }));
        if self.model.ran.len() < 2 {
            assert!((400..500).contains(&reply.status), "there is nothing to go back to: {}", reply.text);
            return;
        }
        let to = reply.ok()["to"]["digest"].as_str().expect("it names one").to_owned();
        assert!(self.model.ran.contains(&to), "{to} has never run");
        self.model.ran.push(to);
    }

    /// A token is gone at once, and stays so.
    fn revoke(&mut self) {
        let name = format!("short-{}-{}", self.number, self.revoked.len());
        let secret = self.served().token("acme", &name, "reader");
        let reader = self.served().nobody().with(&secret);
        reader.get("/v1/rules/r").ok();
        self.admin().delete(&format!("/v1/tokens/{name}")).ok();
        reader.get("/v1/rules/r").with_status(401);
        self.revoked.push(secret);
    }

    /// The server is killed while it takes events. Whether it took them, whoever sent them does not know, and sends them again.
    fn kill(&mut self) {
        let body = self.body();
        let request = self.request(&body);
        let sending = std::thread::spawn(move || drop(request.send()));
        for _ in 0..self.random.random_range(0..4000) {
            std::thread::yield_now();
        }
        let stopped = self.served.take().expect("it runs").kill();
        sending.join().expect("a request that fails is no panic");
        self.served = Some(stopped.start());
        self.send(&body).ok();
        for secret in &self.revoked {
            self.served().nobody().with(secret).get("/v1/rules/r").with_status(401);
        }
    }

    /// Everything has run, and the outputs, the state and the version are those of the model.
    fn check(&self) {
        let admin = self.admin();
        let mut rule = Value::Null;
        let outputs = || events(&admin, "r.outputs");
        let last = |outputs: &[Value]| -> BTreeMap<String, u64> {
            let of = |output: &Value| Some((output["key"].as_str()?.to_owned(), output["output"]["count"].as_u64()?));
            outputs.iter().filter_map(of).collect()
        };
        wait_until("all events have run", || {
            rule = admin.get("/v1/rules/r").ok();
            rule["status"]["lag"] == 0 && last(&outputs()) == self.model.counts
        });
        assert_eq!(rule["active"]["digest"].as_str(), self.model.ran.last().map(String::as_str), "{rule}");
        let (mut ids, mut before) = (BTreeSet::new(), BTreeMap::new());
        for output in outputs() {
            assert!(ids.insert(output["id"].as_str().expect("it has one").to_owned()), "{output} is there twice");
            let digest = output["digest"].as_str().expect("it has one");
            assert!(self.model.ran.iter().any(|ran| ran == digest), "{output}: that version never ran");
            let (key, count) = (output["key"].to_string(), output["output"]["count"].as_u64());
            assert!(before.insert(key, count).is_none_or(|before| before < count), "{output} comes out of order");
        }
        for (key, count) in &self.model.counts {
            let state = admin.get(&format!("/v1/rules/r/state?key={key}")).ok();
            assert_eq!(state["value"]["count"].as_u64(), Some(*count), "{state}");
        }
    }
}
