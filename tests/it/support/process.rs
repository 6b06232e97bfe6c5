//! A `keyfold run` that is still running: killed, asked to end, or waited for with a deadline.

use super::command::Finished;
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::unix::fs::FileExt;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// How long anything may take before a test gives it up: far longer than it ever takes, on a loaded machine too.
const DEADLINE: Duration = Duration::from_secs(60);
/// How often a condition is looked at.
const POLL: Duration = Duration::from_millis(1);

/// Looks at a condition until it holds.
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < DEADLINE, "waited {} s in vain until {what}", DEADLINE.as_secs());
        std::thread::sleep(POLL);
    }
}

/// A process that ends with the test at the latest.
pub struct Process {
    child: Child,
    /// Files rather than pipes: nobody reads while the process runs, and a full pipe would stop it.
    stdout: File,
    stderr: File,
}

impl Process {
    /// Starts it.
    pub fn start(command: &mut Command) -> Self {
        let file = || tempfile::tempfile().expect("the folder for temporary files can be written");
        let (stdout, stderr) = (file(), file());
        let clone = |file: &File| file.try_clone().expect("a file can be opened twice");
        command.stdout(clone(&stdout)).stderr(clone(&stderr));
        let child = command.spawn().unwrap_or_else(|error| panic!("{command:?} does not start: {error}"));
        Process { child, stdout, stderr }
    }

    /// Writes to its standard input and leaves that open.
    pub fn write(&mut self, bytes: &[u8]) {
        let stdin = self.child.stdin.as_mut().expect("standard input is a pipe");
        stdin.write_all(bytes).and_then(|()| stdin.flush()).expect("the process reads its standard input");
    }

    /// Ends its standard input.
    pub fn close_stdin(&mut self) {
        self.child.stdin = None;
    }

    /// Whether it has said this on standard error so far.
    pub fn has_said(&self, part: &str) -> bool {
        self.said().contains(part)
    }

    /// What it has said on standard error so far.
    pub fn said(&self) -> String {
        // The process writes where this file stands, so reading must not move that place.
        let length = self.stderr.metadata().expect("an open file can be asked").len();
        let mut text = vec![0; length as usize];
        self.stderr.read_exact_at(&mut text, 0).expect("the file only grows");
        String::from_utf8_lossy(&text).into_owned()
    }

    /// Whether it is still running.
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("a child can be asked").is_none()
    }

    /// Lets it run this long and kills it. False when it had ended well before.
    pub fn kill_after(mut self, time: Duration) -> bool {
        let started = Instant::now();
        while started.elapsed() < time && self.is_running() {
            std::thread::sleep(POLL);
        }
        let was_running = self.is_running();
        if !was_running {
            self.finish().ok();
        }
        was_running
    }

    /// Kills it: no program can catch that signal.
    pub fn kill(self) {
        drop(self);
    }

    /// Asks it to end, as a service manager does, and waits until it has.
    pub fn terminate(self) -> Finished {
        self.signal("-TERM");
        self.finish()
    }

    /// Its number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a signal, such as `-STOP`.
    pub fn signal(&self, signal: &str) {
        let id = self.child.id().to_string();
        let status = Command::new("kill").args([signal, &id]).status().expect("there is a program `kill`");
        assert!(status.success(), "process {id} is gone");
    }

    /// Waits for its end.
    pub fn finish(mut self) -> Finished {
        wait_until("the process ended", || !self.is_running());
        let code = self.child.wait().expect("a child can be waited for").code();
        Finished { code, stdout: text(&mut self.stdout), stderr: text(&mut self.stderr) }
    }
}

impl Drop for Process {
    /// Kills what is still running. Both calls fail when it has ended, and then there is nothing to do.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn text(file: &mut File) -> String {
    let mut text = String::new();
    file.rewind().and_then(|()| file.read_to_string(&mut text)).expect("the binary prints UTF-8");
    text
}
