//! The bridge in real Pis, newest and oldest, with a scripted core behind it. What the model was
//! given is read from the model's own log.

mod types;
mod world;

mod boundaries;
mod identity;
mod launch;
mod loss;
mod outbox;
mod parent;
mod program;
mod refusals;
mod screen;
mod sessions;
mod tools;
