//! What is not compared: `skipped.txt`, each line with its reason.

/// One line of the file.
#[derive(Debug)]
pub struct Skip {
    /// Lower-case name of a command or subcommand.
    pub command: String,
    /// An option token of it; empty for all of the command.
    pub token: String,
    /// Whether only a Redis 7.0 is not asked.
    pub old_only: bool,
    /// Why.
    pub reason: String,
}

/// All lines.
pub struct Skipped(pub Vec<Skip>);

impl Skipped {
    /// Reads the file that stands beside this crate. `Err` quotes a line that is none.
    pub fn read() -> Result<Skipped, String> {
        let lines = include_str!("../skipped.txt").lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        lines.map(one).collect::<Result<_, _>>().map(Skipped)
    }

    /// Whether a command is left out.
    pub fn command(&self, name: &str, old: bool) -> bool {
        self.0.iter().any(|skip| skip.command == name && skip.token.is_empty() && (old || !skip.old_only))
    }

    /// Whether an option is not aimed at.
    pub fn token(&self, name: &str, token: &[u8], old: bool) -> bool {
        let skips = |skip: &&Skip| {
            skip.command == name && skip.token.as_bytes().eq_ignore_ascii_case(token) && (old || !skip.old_only)
        };
        self.0.iter().any(|skip| skips(&skip))
    }
}

fn one(line: &str) -> Result<Skip, String> {
    let (what, reason) = line.split_once(" -- ").ok_or_else(|| format!("no reason: {line}"))?;
    let words: Vec<&str> = what.split_whitespace().collect();
    let old_only = words.last() == Some(&"(7.0)");
    let (command, token) = match words[..words.len() - usize::from(old_only)] {
        [command] => (command, ""),
        [command, token] => (command, token),
        _ => return Err(format!("not 'command [TOKEN] [(7.0)] -- reason': {line}")),
    };
    Ok(Skip { command: command.into(), token: token.into(), old_only, reason: reason.into() })
}
