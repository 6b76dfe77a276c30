//! The verbs that run Pi, with real Pis, newest and oldest, and a scripted model.

mod world;

mod depth;
mod modes;
mod names;
mod options;
