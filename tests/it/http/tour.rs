//! The tour in `examples/service-tour`, as a user takes it: it ends with 1 when anything is not as it must be.

use crate::support::command::{KEYFOLD, cache, example, root};
use std::process::Command;

#[test]
fn the_tour_of_the_service_proves_what_it_says() {
    // It needs their components.
    let _ = ["fraud-session", "fraud-session-1-1"].map(example);
    let mut tour = Command::new("sh");
    tour.arg(root().join("examples/service-tour/tour.sh")).env("KEYFOLD", KEYFOLD).env("KEYFOLD_CACHE", cache());
    let ended = tour.env_remove("KEYFOLD_LOG").output().expect("there is a shell");
    let (proved, said) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    println!("{proved}");
    assert!(ended.status.success(), "{said}");
    assert!(proved.contains("All of it holds.") && proved.matches("  ok: ").count() >= 12, "{proved}{said}");
}
