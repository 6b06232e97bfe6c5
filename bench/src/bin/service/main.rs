//! The service as its users meet it: a server of its own, spoken to over HTTP.
//!
//! `cargo xtask build`, then `target/debug/service [decide|neighbour|many|swap]...`; without a word all of them, one after another.

mod decide;
mod load;
mod many;
mod neighbour;
mod server;
mod swap;

use anyhow::{Result, bail};

fn main() -> Result<()> {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    if words.is_empty() {
        words = ["decide", "neighbour", "many", "swap"].map(str::to_owned).to_vec();
    }
    for word in words {
        match word.as_str() {
            "decide" => decide::measure()?,
            "neighbour" => neighbour::measure()?,
            "many" => many::measure()?,
            "swap" => swap::measure()?,
            _ => bail!("there is no measurement '{word}': decide, neighbour, many and swap are possible"),
        }
        println!();
    }
    Ok(())
}
