//! Imports a network, and looks up the names of keys that begin with `bad` in it.
#![cfg(target_arch = "wasm32")]

use counting::prelude::*;

mod network {
    //! The import. The host provides nothing of the kind.
    #![allow(missing_docs, clippy::undocumented_unsafe_blocks, reason = "generated code")]

    wit_bindgen::generate!({
        inline: "
            package guest:network;

            world network {
                import evil:net/dns@1.0.0;
            }

            package evil:net@1.0.0 {
                interface dns {
                    resolve: func(name: string) -> list<u8>;
                }
            }
        ",
        world: "guest:network/network",
        generate_all,
    });
}

struct AsksForNetwork;

impl Guest for AsksForNetwork {
    fn act(call: &mut Call) -> Result<()> {
        let address = network::evil::net::dns::resolve(call.key);
        call.out.emit(&Output::of(call.key).with("address", address))
    }
}

counting::export!(AsksForNetwork);
