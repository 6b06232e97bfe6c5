//! [`Zipf`]: keys of which few are drawn often and most are drawn seldom.

use super::Random;
use anyhow::{Context, ensure};
use std::str::FromStr;

/// How uneven the popularity of keys is: the key of rank r is drawn in proportion to r^-exponent. 0 is even; 1 is what
/// words, sites and shops show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exponent {
    thousandths: u32,
}

/// Draws numbers of keys. It costs the same however many keys there are (Walker's alias method).
pub struct Zipf {
    slots: Vec<Slot>,
}

/// A draw picks a slot evenly, and then one of its two keys.
struct Slot {
    /// Draws below this, of 2^32, are for `key`.
    threshold: u32,
    key: u32,
    other: u32,
}

impl Exponent {
    /// So many tenths.
    pub const fn tenths(tenths: u32) -> Self {
        Exponent { thousandths: tenths * 100 }
    }
}

impl FromStr for Exponent {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let exponent: f64 = text.parse().with_context(|| format!("'{text}' is not a number such as 1.0"))?;
        ensure!(
            (0.0..=4.0).contains(&exponent),
            "the exponent {text} is not from 0 (even) to 4 (one key has nearly all)"
        );
        Ok(Exponent { thousandths: (exponent * 1e3).round() as u32 })
    }
}

impl Zipf {
    /// Numbers below `keys`, which is not 0. Which numbers are popular is drawn too, so that popular keys are spread over
    /// the partitions.
    pub fn new(keys: u32, exponent: Exponent, random: &mut Random) -> Self {
        let names = random.shuffled(keys);
        let mut shares = shares(keys, exponent);
        let mut slots: Vec<Slot> = names.iter().map(|&key| Slot { threshold: u32::MAX, key, other: key }).collect();
        let (mut rich, mut poor): (Vec<usize>, Vec<usize>) = (0..keys as usize).partition(|&rank| shares[rank] >= SLOT);
        while let (Some(donor), Some(rank)) = (rich.last().copied(), poor.pop()) {
            slots[rank].threshold = shares[rank] as u32;
            slots[rank].other = names[donor];
            shares[donor] -= SLOT - shares[rank];
            if shares[donor] < SLOT {
                rich.pop();
                poor.push(donor);
            }
        }
        Zipf { slots }
    }

    /// The number of a key.
    pub fn draw(&self, random: &mut Random) -> u32 {
        let slot = &self.slots[random.below(self.slots.len() as u32) as usize];
        if random.draw() < slot.threshold { slot.key } else { slot.other }
    }
}

/// What one slot holds: the draws below 2^32.
const SLOT: u64 = 1 << 32;

/// What each rank gets when all ranks together get as many slots as there are ranks.
fn shares(keys: u32, exponent: Exponent) -> Vec<u64> {
    let weights: Vec<u64> = (1..=keys).map(|rank| weight(rank, exponent)).collect();
    let sum: u128 = weights.iter().map(|&weight| u128::from(weight)).sum();
    let share = |&weight: &u64| (((u128::from(weight) * u128::from(keys)) << 32) / sum) as u64;
    weights.iter().map(share).collect()
}

/// rank^-exponent, in units of 2^-48.
fn weight(rank: u32, exponent: Exponent) -> u64 {
    let power = log2(rank) * u64::from(exponent.thousandths) / 1000;
    let mut weight: u64 = 1 << 48;
    // 2^-power is the product of 2^-(2^-k) over the bits k of the power's fraction, shifted by its whole part.
    let mut factor: u128 = 1 << 127;
    for bit in (0..32).rev() {
        let root = if bit == 31 { factor.isqrt() } else { (factor << 64).isqrt() };
        factor = root;
        if power >> bit & 1 == 1 {
            weight = ((u128::from(weight) * factor) >> 64) as u64;
        }
    }
    weight >> (power >> 32).min(63)
}

/// The logarithm to base 2 of a number that is not 0, in units of 2^-32: each squaring gives one more bit.
fn log2(number: u32) -> u64 {
    let whole = number.ilog2();
    let mut mantissa = u64::from(number) << (31 - whole);
    let mut log = u64::from(whole);
    for _ in 0..32 {
        mantissa = (mantissa * mantissa) >> 31;
        let bit = mantissa >> 32;
        mantissa >>= bit;
        log = log << 1 | bit;
    }
    log
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_powers_of_the_rank() {
        for (rank, tenths) in [(1, 10), (2, 10), (3, 5), (1000, 12), (99_999, 10), (7, 0)] {
            let exact = f64::from(rank).powf(-f64::from(tenths) / 10.0);
            let close = weight(rank, Exponent::tenths(tenths)) as f64 / (1u64 << 48) as f64;
            assert!((close / exact - 1.0).abs() < 1e-5, "{rank}^-0.{tenths}: {close} is not {exact}");
        }
    }

    #[test]
    fn the_first_rank_is_drawn_as_often_as_its_weight_says() {
        let mut random = Random::new(1, 0);
        let zipf = Zipf::new(1000, Exponent::tenths(10), &mut random);
        let mut counts = vec![0u32; 1000];
        for _ in 0..200_000 {
            counts[zipf.draw(&mut random) as usize] += 1;
        }
        counts.sort_unstable();
        // 1 / (1 + 1/2 + ... + 1/1000) = 13.36 %, and half of it.
        assert!((26_200..27_300).contains(&counts[999]), "{}", counts[999]);
        assert!((13_000..13_800).contains(&counts[998]), "{}", counts[998]);
    }

    #[test]
    fn exponent_0_is_even_and_one_key_is_enough() {
        let mut random = Random::new(1, 0);
        let zipf = Zipf::new(10, Exponent::tenths(0), &mut random);
        let firsts = (0..10_000).filter(|_| zipf.draw(&mut random) == 0).count();
        assert!((900..1100).contains(&firsts), "{firsts}");
        assert_eq!(Zipf::new(1, Exponent::tenths(40), &mut random).draw(&mut random), 0);
    }
}
