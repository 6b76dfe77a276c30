//! The guard: a tiny single-threaded process that outlives the core just long enough to leave nothing behind.
