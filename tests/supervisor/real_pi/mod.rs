//! With the real Pi as the child and a scripted model.

mod cases;
mod explain;
mod old_pi;
mod provider;
mod runs;
mod sessions;
mod stop;
mod tools;
