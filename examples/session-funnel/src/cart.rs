//! [`Cart`]: what a visitor means to buy.

use serde::{Deserialize, Serialize};

/// How many pieces a cart lists. Scripts fill carts without end, and a state must not grow with them.
pub const CART_MAX: usize = 50;

/// The pieces in a cart. Its number and value stay exact when it holds more than it lists.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cart {
    /// How many pieces it holds.
    pub items: u64,
    /// What they cost together.
    pub value_minor: u64,
    /// The last pieces, oldest first.
    listed: Vec<Item>,
}

/// One piece.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Item {
    sku: String,
    value_minor: u64,
}

impl Cart {
    /// Puts a piece in. The oldest piece leaves the list, not the cart, when the list is full.
    pub fn add(&mut self, sku: String, value_minor: u64) {
        if self.listed.len() == CART_MAX {
            self.listed.remove(0);
        }
        self.listed.push(Item { sku, value_minor });
        self.items += 1;
        self.value_minor = self.value_minor.saturating_add(value_minor);
    }

    /// Takes out the last piece of this product. A piece that is not listed stays: nobody knows its price any more.
    pub fn remove(&mut self, sku: &str) {
        if let Some(number) = self.listed.iter().rposition(|item| item.sku == sku) {
            let item = self.listed.remove(number);
            self.items -= 1;
            self.value_minor = self.value_minor.saturating_sub(item.value_minor);
        }
    }

    /// Whether it holds pieces that it does not list.
    pub fn is_truncated(&self) -> bool {
        self.items > self.listed.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_and_value_are_exact_beyond_the_list() {
        let mut cart = Cart::default();
        (0..60).for_each(|number| cart.add(format!("p{number}"), 100));
        assert_eq!((cart.items, cart.value_minor, cart.listed.len()), (60, 6_000, CART_MAX));
        assert!(cart.is_truncated());
        cart.remove("p0");
        assert_eq!(cart.items, 60, "p0 is not listed any more");
        cart.remove("p59");
        assert_eq!((cart.items, cart.value_minor), (59, 5_900));
    }

    #[test]
    fn remove_takes_the_last_piece_of_the_product() {
        let mut cart = Cart::default();
        cart.add("p1".into(), 100);
        cart.add("p1".into(), 90);
        cart.remove("p1");
        assert_eq!((cart.items, cart.value_minor), (1, 100));
        cart.remove("p2");
        assert_eq!(cart.items, 1);
    }
}
