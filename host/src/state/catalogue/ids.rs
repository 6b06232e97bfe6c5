//! Ids of what the service hosts. The host makes them; the names are the users'. What is deleted and made again under its name is
//! another thing.

use serde::{Deserialize, Serialize};
use std::fmt;
use uuid::Uuid;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// An id that nothing else has, later in the order than those made before.
            pub fn new() -> Self {
                $name(Uuid::now_v7().to_string())
            }

            /// An id as it was written.
            pub(in crate::state) fn from_text(text: String) -> Self {
                $name(text)
            }

            /// As it is written: safe as the name of a folder.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self::new()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

id! {
    /// A tenant.
    TenantId
}
id! {
    /// A token, whatever its secret is.
    TokenId
}
id! {
    /// A stream.
    StreamId
}
id! {
    /// A rule.
    RuleId
}
