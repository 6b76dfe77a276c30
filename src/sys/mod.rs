//! The edge to the operating system: the only place for `unsafe`.
