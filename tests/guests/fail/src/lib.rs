//! Returns an error for keys that begin with `bad`.
#![cfg(target_arch = "wasm32")]

use counting::keyfold_sdk;
use counting::prelude::*;

struct Fail;

impl Guest for Fail {
    fn act(call: &mut Call) -> Result<()> {
        keyfold_sdk::bail!("the key {} has the amount {}, which is odd", call.key, 7)
    }
}

counting::export!(Fail);
