//! Heights of entries with their sums: a Fenwick tree that grows at its end and loses at its
//! front. Every operation is logarithmic.

/// Heights by sequence number.
#[derive(Clone, Debug, Default)]
pub(super) struct Heights {
    /// Sequence number of the first height in the tree.
    base: u64,
    /// Heights before this one are gone (0).
    gone: usize,
    heights: Vec<u32>,
    /// `tree[i]` = sum of the `lowbit(i + 1)` heights that end at `i`.
    tree: Vec<u64>,
}

fn lowbit(i: usize) -> usize {
    i & i.wrapping_neg()
}

impl Heights {
    pub(super) fn starting_at(base: u64) -> Self {
        Self {
            base,
            ..Self::default()
        }
    }

    /// Sequence number after the last one.
    pub(super) fn next(&self) -> u64 {
        self.base + self.heights.len() as u64
    }

    /// Sequence number of the first one that is not gone.
    pub(super) fn first(&self) -> u64 {
        self.base + self.gone as u64
    }

    fn index(&self, seq: u64) -> Option<usize> {
        let at = usize::try_from(seq.checked_sub(self.base)?).ok()?;
        (at < self.heights.len()).then_some(at)
    }

    pub(super) fn push(&mut self, height: u32) {
        let i = self.heights.len() + 1;
        let mut sum = u64::from(height);
        let mut j = i - 1;
        let low = i - lowbit(i);
        while j > low {
            sum += self.tree.get(j - 1).copied().unwrap_or(0);
            j -= lowbit(j);
        }
        self.heights.push(height);
        self.tree.push(sum);
    }

    pub(super) fn set(&mut self, seq: u64, height: u32) {
        let Some(at) = self.index(seq) else {
            return;
        };
        let Some(slot) = self.heights.get_mut(at) else {
            return;
        };
        let before = u64::from(std::mem::replace(slot, height));
        if before == u64::from(height) {
            return;
        }
        let mut i = at + 1;
        while let Some(sum) = self.tree.get_mut(i - 1) {
            *sum = *sum + u64::from(height) - before;
            i += lowbit(i);
        }
    }

    /// Sum of all heights before `seq`.
    pub(super) fn before(&self, seq: u64) -> u64 {
        let at = seq.saturating_sub(self.base);
        let mut i = usize::try_from(at).map_or(self.tree.len(), |at| at.min(self.tree.len()));
        let mut sum = 0;
        while i > 0 {
            sum += self.tree.get(i - 1).copied().unwrap_or(0);
            i -= lowbit(i);
        }
        sum
    }

    pub(super) fn total(&self) -> u64 {
        self.before(self.next())
    }

    /// Forgets everything before `seq`.
    pub(super) fn drop_before(&mut self, seq: u64) {
        while self.first() < seq.min(self.next()) {
            let first = self.first();
            self.set(first, 0);
            self.gone += 1;
        }
        if self.gone > 1024 && self.gone * 2 > self.heights.len() {
            let mut fresh = Self::starting_at(self.first());
            for height in self.heights.iter().skip(self.gone) {
                fresh.push(*height);
            }
            *self = fresh;
        }
        if self.first() < seq {
            *self = Self::starting_at(seq);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_hold_under_growth_change_and_loss() {
        let mut tree = Heights::starting_at(7);
        let mut plain: Vec<u32> = Vec::new();
        for i in 0..5000_u32 {
            tree.push(i % 13);
            plain.push(i % 13);
            if i % 3 == 0 {
                let at = (i / 2) as usize;
                if at as u64 + 7 >= tree.first() {
                    tree.set(7 + at as u64, i % 29);
                    plain[at] = i % 29;
                }
            }
            if i % 100 == 99 {
                let first = u64::from(i / 2);
                tree.drop_before(7 + first);
                for h in plain.iter_mut().take(first as usize) {
                    *h = 0;
                }
            }
            if i % 97 == 0 {
                for at in [0, i / 3, i / 2, i, i + 1] {
                    let want: u64 = plain.iter().take(at as usize).map(|h| u64::from(*h)).sum();
                    assert_eq!(tree.before(7 + u64::from(at)), want);
                }
            }
        }
        assert_eq!(tree.next(), 5007);
        tree.drop_before(9000);
        assert_eq!((tree.first(), tree.next(), tree.total()), (9000, 9000, 0));
    }
}
