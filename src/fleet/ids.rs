//! Identities. Every id is a UUIDv7 beside the human name, made outside the machine
//! (`fleet::machine` has no randomness of its own).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub Uuid);

        impl $name {
            /// Makes a fresh, time-ordered id.
            #[must_use]
            pub fn fresh() -> Self {
                Self(Uuid::now_v7())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0)
            }
        }

        impl FromStr for $name {
            type Err = uuid::Error;
            fn from_str(s: &str) -> Result<Self, Self::Err> {
                Uuid::parse_str(s).map(Self)
            }
        }
    };
}

id! {
    /// A host: whoever parents agents (the person of a folder, a Pi session).
    HostId
}
id! {
    /// One agent, for its whole life (several processes may serve it one after another).
    AgentId
}
id! {
    /// One operating-system process of an agent. Every input that can be stale carries it.
    InstanceId
}
id! {
    /// One run of an agent: from its start to its settlement.
    RunId
}
id! {
    /// One request of a viewer, shell or bridge that waits for an answer.
    CallId
}
id! {
    /// One message on its way to an agent.
    MessageId
}
impl MessageId {
    /// The id of the nth message that came from a process, always the same one: the machine has no
    /// randomness of its own.
    #[must_use]
    pub fn derived(instance: InstanceId, n: u64) -> Self {
        let mut bytes = instance.0.into_bytes();
        for (byte, n) in bytes.iter_mut().skip(8).zip(n.to_be_bytes()) {
            *byte ^= n;
        }
        // Version 8: made by a rule of our own, never equal to a random or time-ordered one.
        Self(uuid::Builder::from_custom_bytes(bytes).into_uuid())
    }
}
id! {
    /// One core process; written into the environment marker of everything it starts.
    CoreId
}
