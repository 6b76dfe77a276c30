//! Short human names for agents (R-ID-01): unique per host for the host's life, names of a rebuilt
//! roster included; when the pool is used up a number is added.

use std::collections::HashSet;

/// Short, easy to type, easy to tell apart. The order is the order of use.
const POOL: [&str; 64] = [
    "max", "zoe", "kai", "leo", "ivy", "sam", "ana", "bob", "eva", "tom", "mia", "ben", "ida",
    "jon", "lea", "rex", "una", "gus", "noa", "pia", "hal", "liv", "dan", "joy", "ned", "fay",
    "art", "bea", "cal", "dot", "eli", "flo", "guy", "hope", "ike", "jan", "ken", "lou", "mel",
    "nan", "otto", "pam", "quin", "ray", "sue", "ted", "uma", "val", "wes", "xia", "yan", "zed",
    "abe", "bix", "cleo", "dex", "ella", "finn", "gil", "hugo", "iris", "jade", "kurt", "lars",
];

/// Gives out names and remembers which are taken.
#[derive(Clone, Debug, Default)]
pub struct NamePool {
    taken: HashSet<String>,
}

impl NamePool {
    /// Marks a name as taken (an agent of an earlier core).
    pub fn take(&mut self, name: &str) {
        self.taken.insert(name.to_owned());
    }

    /// A name whose agent never came to be is free again.
    pub fn give_back(&mut self, name: &str) {
        self.taken.remove(name);
    }

    /// The name the next agent would get.
    #[must_use]
    pub fn peek(&self) -> String {
        for round in 1_u64.. {
            for name in POOL {
                let name = if round == 1 {
                    name.to_owned()
                } else {
                    format!("{name}{round}")
                };
                if !self.taken.contains(&name) {
                    return name;
                }
            }
        }
        String::new()
    }

    /// Gives out a free name.
    pub fn give(&mut self) -> String {
        let name = self.peek();
        self.taken.insert(name.clone());
        name
    }
}
