//! The machine: `step(now, Input) -> Vec<Effect>`; every decision about agents is made here.
