//! What tests stand on: real Pi, a scripted model, a fake Pi, a real terminal.
