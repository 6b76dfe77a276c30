//! Pi's wire format, pure: framing, events, commands, messages, dialogs, versions. No I/O.
