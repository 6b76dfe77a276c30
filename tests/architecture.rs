//! Checks of the source tree itself.
