//! Small things that paint themselves into an area.

pub mod scrollbar;
