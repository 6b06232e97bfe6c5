//! [`Random`]: the draws of a generator, the same on every machine.

use super::Share;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// A seeded sequence of draws. ChaCha8 is the same everywhere and in every version, and all that is derived from it here
/// is whole-number arithmetic; a draw in floating point would depend on the machine's mathematics library.
pub struct Random(ChaCha8Rng);

impl Random {
    /// The sequence of a seed. Parts of a generator that draw from sequences with different numbers do not disturb one
    /// another: turning disorder on leaves the events as they are.
    pub fn new(seed: u64, sequence: u64) -> Self {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        let mut random = ChaCha8Rng::from_seed(bytes);
        random.set_stream(sequence);
        Random(random)
    }

    /// Any number.
    pub fn draw(&mut self) -> u32 {
        self.0.next_u32()
    }

    /// A number below `bound`, which is not 0. One draw, so slightly uneven for bounds near 2^32; nobody can tell.
    pub fn below(&mut self, bound: u32) -> u32 {
        ((u64::from(self.draw()) * u64::from(bound)) >> 32) as u32
    }

    /// A number from `low` to `high`, both possible.
    pub fn between(&mut self, low: u32, high: u32) -> u32 {
        low + self.below(high - low + 1)
    }

    /// True for this share of the calls.
    pub fn chance(&mut self, share: Share) -> bool {
        u64::from(self.draw()) < share.threshold()
    }

    /// One of these.
    pub fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u32) as usize]
    }

    /// The numbers below `count` in random order.
    pub fn shuffled(&mut self, count: u32) -> Vec<u32> {
        let mut numbers: Vec<u32> = (0..count).collect();
        for last in (1..count).rev() {
            numbers.swap(last as usize, self.below(last + 1) as usize);
        }
        numbers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_these_numbers_for_ever() {
        let mut random = Random::new(1, 0);
        let drawn: Vec<u32> = (0..4).map(|_| random.below(1000)).collect();
        assert_eq!(drawn, [628, 381, 929, 294]);
        assert_eq!(Random::new(1, 0).shuffled(6), [4, 2, 0, 5, 1, 3]);
    }

    #[test]
    fn a_chance_comes_as_often_as_it_says() {
        let mut random = Random::new(7, 3);
        let hits = (0..100_000).filter(|_| random.chance(Share::percent(10))).count();
        assert!((9_700..10_300).contains(&hits), "{hits} of 100000");
        assert!(!random.chance(Share::ZERO));
        assert!(random.chance(Share::percent(100)));
    }
}
