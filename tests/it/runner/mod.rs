//! Rules that live in one process: opened when there is something to do, held apart from each other, judged and asked.

mod activating;
mod apart;
mod deciding;
mod failing;
mod kit;
mod letters;
mod parking;
