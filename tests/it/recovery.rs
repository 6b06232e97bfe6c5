//! Whatever stops a run, the next one goes on as if nothing had happened: same outputs, same states, nothing twice.

mod crash_states;
mod folding;
mod kills;
mod refusals;
mod splits;
mod versions;
