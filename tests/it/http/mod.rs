//! The service as its users meet it: the real binary on a port of its own, asked over HTTP and with the client's commands.

mod abuse;
mod ask;
mod commands;
mod documents;
mod life;
mod made_up;
mod matrix;
mod schemathesis;
mod served;
mod settings;
mod stopping;
mod tails;
mod tls;
mod tour;
mod zippy;
