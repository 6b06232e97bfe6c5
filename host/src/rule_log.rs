//! [`RuleLog`]: where the lines go that rules log.

/// A line that a rule logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RuleLine<'a> {
    /// What the rule says it is called.
    pub rule: &'a str,
    /// 0 trace to 4 error.
    pub level: u8,
    /// The key that it was called for; empty when it was not called for one yet.
    pub key: &'a str,
    /// The text.
    pub text: &'a str,
}

/// Where the lines go that rules log.
pub trait RuleLog: Send + Sync {
    /// Takes a line. The rule waits meanwhile.
    fn line(&self, line: RuleLine<'_>);
}

/// To the log of the process.
pub struct ToTracing;

impl RuleLog for ToTracing {
    fn line(&self, RuleLine { rule, level, key, text }: RuleLine<'_>) {
        match level {
            0 => tracing::trace!(target: "rule", rule, key, "{text}"),
            1 => tracing::debug!(target: "rule", rule, key, "{text}"),
            2 => tracing::info!(target: "rule", rule, key, "{text}"),
            3 => tracing::warn!(target: "rule", rule, key, "{text}"),
            _ => tracing::error!(target: "rule", rule, key, "{text}"),
        }
    }
}
