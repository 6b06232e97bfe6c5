//! [`FunnelEvent`]: what a visitor does.

use keyfold_sdk::prelude::*;

/// One event, told apart by its `type`.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "type")]
pub enum FunnelEvent {
    /// Any page that is not a product's.
    #[serde(rename = "page.view")]
    PageView,
    /// The page of a product.
    #[serde(rename = "product.view")]
    ProductView {
        /// The product.
        sku: String,
    },
    /// One piece goes into the cart.
    #[serde(rename = "cart.add")]
    CartAdd {
        /// The product.
        sku: String,
        /// Its price, in the smallest unit of the shop's currency.
        value_minor: u64,
    },
    /// One piece leaves the cart.
    #[serde(rename = "cart.remove")]
    CartRemove {
        /// The product.
        sku: String,
    },
    /// The form for address and payment was opened.
    #[serde(rename = "checkout.start")]
    CheckoutStart,
    /// The cart was paid.
    #[serde(rename = "payment.ok")]
    PaymentOk {
        /// The order that it became.
        order: String,
        /// What was paid, in the smallest unit of the shop's currency.
        value_minor: u64,
    },
    /// A type that this version does not know. It is no part of a session: failing here would send the other events of
    /// the batch to the dead letters.
    #[serde(other)]
    Unknown,
}
