//! What the environment says about a run: `SECONDS_EACH`, `SEQUENCES`, `SEED`.

/// The number that the environment gives for `name`.
pub fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}
