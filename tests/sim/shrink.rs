//! A failing world: as a list of steps that can be played again, made as short as it goes, told in words.

use std::fmt::Write as _;

use super::play::{self, Player};
use super::step::Step;
use super::world::{World, plain};

/// A world as data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// Which limits its core has.
    config: u64,
    steps: Vec<Step>,
    /// What was wrong when it was made.
    found: Option<String>,
}

impl Trace {
    /// Plays the world of a seed.
    pub fn of(seed: u64, steps: usize) -> Self {
        let mut world = World::new(seed);
        let mut player = Player::new(seed);
        let mut done = Vec::with_capacity(steps);
        while done.len() < steps && world.fault.is_none() {
            let step = player.pick(&world);
            done.push(step);
            world.step(step);
        }
        play::finish(&mut world);
        Self {
            config: seed % 3,
            steps: done,
            found: world.fault,
        }
    }

    pub fn fault(&self) -> Option<String> {
        self.found.clone()
    }

    /// Plays the steps again: what is wrong, if anything, and the story.
    pub fn play(&self, in_words: bool) -> (Option<String>, String) {
        let mut world = World::new(self.config);
        world.story = in_words.then(String::new);
        for step in &self.steps {
            if world.fault.is_some() {
                break;
            }
            if let Some(story) = &mut world.story {
                let _ = writeln!(story, "{step}  # {}", step.says());
            }
            world.step(*step);
        }
        play::finish(&mut world);
        (world.fault, world.story.unwrap_or_default())
    }

    /// Reads what `report` prints: a line with the limits, then a step a line; what comes after `#` or `|` is for people.
    pub fn read(text: &str) -> Result<Self, String> {
        let mut trace = Self {
            config: 0,
            steps: Vec::new(),
            found: None,
        };
        for line in text.lines() {
            let line = line.split(['#', '|']).next().unwrap_or_default().trim();
            if let Some(config) = line.strip_prefix("world ") {
                trace.config = config.parse().map_err(|_| line.to_owned())?;
            } else if !line.is_empty() {
                trace.steps.push(line.parse()?);
            }
        }
        Ok(trace)
    }

    /// Leaves out whatever can be left out (delta debugging): some promise is still broken, in the same words but for
    /// the numbers.
    pub fn smaller(&self) -> Self {
        let Some(kind) = self.found.as_deref().map(sort_of) else {
            return self.clone();
        };
        self.smaller_if(|steps| {
            let trace = Self {
                config: self.config,
                steps: steps.to_vec(),
                found: None,
            };
            trace.play(false).0.is_some_and(|f| sort_of(&f) == kind)
        })
    }

    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The shortest part that is found for which this is so.
    pub fn smaller_if(&self, breaks: impl Fn(&[Step]) -> bool) -> Self {
        let mut steps = self.steps.clone();
        let mut size = steps.len().div_ceil(2).max(1);
        loop {
            let mut at = 0;
            let before = steps.len();
            while at < steps.len() {
                let mut fewer = steps.clone();
                fewer.drain(at..(at + size).min(steps.len()));
                if breaks(&fewer) {
                    steps = fewer;
                } else {
                    at += size;
                }
            }
            if size == 1 && steps.len() == before {
                break;
            }
            size = (size / 2).max(1);
        }
        Self {
            config: self.config,
            steps,
            found: self.found.clone(),
        }
    }

    /// As text that `read` reads.
    pub fn text(&self) -> String {
        let mut text = format!("world {}\n", self.config);
        for step in &self.steps {
            let _ = writeln!(text, "{step}  # {}", step.says());
        }
        text
    }

    pub fn len(&self) -> usize {
        self.steps.len()
    }
}

/// What is wrong, without numbers and particulars.
fn sort_of(fault: &str) -> String {
    fault
        .chars()
        .take(60)
        .filter(|c| !c.is_ascii_digit())
        .collect()
}

/// What a failing test prints.
pub fn report(seed: u64, worlds: u64, trace: &Trace, fault: &str) -> String {
    let small = trace.smaller();
    let (again, story) = small.play(true);
    let fault = plain(fault);
    let again = plain(&again.unwrap_or_default());
    let mut text = format!(
        "seed {seed}, after {worlds} worlds: {fault}\nsmallest: {} of {} steps: {}\n\nworld {}\n",
        small.len(),
        trace.len(),
        again,
        trace.config,
    );
    let _ = writeln!(
        text,
        "{story}\nTo play it again as a test: put everything from `world` on into `tests/sim/failed.rs`."
    );
    text
}
