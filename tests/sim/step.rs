//! One step of a world, as data: everything that happens is written down here, so that a list of steps is the whole world.
//! A step that does not fit the state of the world it meets does nothing: any part of a list of steps is a world too,
//! which is what makes a failing one small.
//!
//! Numbers name things for good: agent 3, its first process and its task are made by `spawn 3`, message 7 (and the
//! process that has to be started for it) by `send 7`.

use std::fmt;
use std::str::FromStr;

macro_rules! kinds {
    ($($kind:ident $word:literal $says:literal;)*) => {
        /// What happens.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Kind { $($kind),* }

        impl Kind {
            pub const ALL: &[Self] = &[$(Self::$kind),*];

            pub fn word(self) -> &'static str {
                match self { $(Self::$kind => $word),* }
            }

            /// In words; `{a}`, `{b}` and `{c}` stand for the numbers.
            fn says(self) -> &'static str {
                match self { $(Self::$kind => $says),* }
            }
        }
    };
}

kinds! {
    Spawn "spawn" "host {c} wants agent {a} (sort {b})";
    Send "send" "somebody sends message {a} to agent {b} (sort {c})";
    Stop "stop" "somebody stops agent {b} (call {a}, {c} = by its host)";
    Cancel "cancel" "call {a} is taken back";
    Join "join" "host {b} joins (call {a}, {c}: odd = its journal cannot be read, half of it = the agent whose session it is)";
    Leave "leave" "host {b} leaves";
    State "state" "host {b} is now {c} (0 busy, 1 idle, 2 silent)";
    Take "take" "host {b} answers the offer it holds (sort {c})";
    Check "check" "host {b} looks for what it took";
    Look "look" "host {b} looks for what it took in an earlier connection, and for what was not safe";
    Written "written" "the session of host {b} is on the disk";
    Synced "synced" "the journal of host {b} has one more record on the disk";
    JournalFails "journal-fails" "the journal of host {b} cannot be written";
    JournalWorks "journal-works" "the journal of host {b} can be written again";
    JournalReads "journal-reads" "the journal of host {b}, which could not be read, was; it still cannot be written";
    Abort "abort" "somebody aborts the run of agent {b} (call {a})";
    Shutdown "shutdown" "somebody shuts the core down (call {a}, 0 = nobody waits)";
    CoreDies "core-dies" "the core is killed; {b}: 0 = all it had with it, and a new one takes in the records at once (keeps {a} records)";
    CoreStarts "core-starts" "a new core starts; {a}: odd = it cannot end what the old one left";
    GuardDies "guard-dies" "the guard is killed ({a}: 0 = of the core as it is, 1 = those of cores that are dead)";
    GuardKills "guard-kills" "the guard of a dead core kills process {a}, or (0) what the tools left";
    Escape "escape" "process {a} starts something that outlives it ({b}: odd = it clears its environment)";
    LaunchOk "launched" "the system reports that process {a} was started";
    LaunchFail "launch-fails" "the system cannot start process {a}";
    Deliver "hear" "the core hears the next thing process {a} said";
    Exit "exit" "the system reports that process {a} is dead; {b} things it said are lost";
    OutputEnd "output-ends" "the core sees that the output of process {a} ended";
    WriteFail "write-fails" "the core learns that process {a} takes no input";
    Swept "swept" "what process {a} left is gone: {b} killed, {c} not";
    Fire "timer" "the next timer is over";
    Wait "wait" "{a} ms pass";
    StaleTimer "stale-timer" "a timer comes although it was disarmed or its process is gone (number {a})";
    StaleFact "stale-fact" "something of process {a}, long gone, comes late (sort {b})";
    Read "read" "process {a} reads its next command (sort {b})";
    Answer "answer" "process {a} answers the prompt it holds (sort {b})";
    Go "go" "process {a} goes on with its run (sort {b})";
    Settle "settle" "process {a} says that it is settled (sort {b})";
    SelfStart "self-start" "process {a} starts a run by itself";
    Stray "stray" "process {a} says that it is settled, out of nowhere";
    Compact "compact" "process {a} begins to compact";
    Compacted "compacted" "process {a} ends compacting";
    Die "die" "process {a} dies (sort {b})";
    Mute "mute" "process {a} closes its output and lives on";
    Deaf "deaf" "process {a} closes its input and lives on";
    Repeat "repeat" "process {a} says its last answer again";
    Question "question" "process {a} asks its parent something";
    Babble "babble" "process {a} says something nobody asked for (sort {b})";
}

impl Kind {
    /// It needs no core: the system, a guard, what is left of a process.
    pub fn happens_without_a_core(self) -> bool {
        matches!(
            self,
            Self::CoreStarts
                | Self::GuardDies
                | Self::GuardKills
                | Self::Written
                | Self::Wait
                | Self::Read
                | Self::Answer
                | Self::Go
                | Self::Die
        )
    }
}

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    pub kind: Kind,
    pub a: u32,
    pub b: u32,
    pub c: u32,
}

impl Step {
    pub fn new(kind: Kind, a: u32, b: u32, c: u32) -> Self {
        Self { kind, a, b, c }
    }

    /// The step in words.
    pub fn says(&self) -> String {
        self.kind
            .says()
            .replace("{a}", &self.a.to_string())
            .replace("{b}", &self.b.to_string())
            .replace("{c}", &self.c.to_string())
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {} {}", self.kind.word(), self.a, self.b, self.c)
    }
}

impl FromStr for Step {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let mut words = line.split_whitespace();
        let word = words.next().unwrap_or_default();
        let kind = Kind::ALL
            .iter()
            .find(|k| k.word() == word)
            .ok_or_else(|| format!("no such step: {line}"))?;
        let mut number = || {
            words
                .next()
                .unwrap_or("0")
                .parse::<u32>()
                .map_err(|e| format!("{e}: {line}"))
        };
        Ok(Self::new(*kind, number()?, number()?, number()?))
    }
}
