//! The screen: a viewer over `client::FleetClient`.
