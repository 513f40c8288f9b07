//! Commands generated from `COMMAND DOCS`.

use std::io;

use crate::known;
use crate::values::{Draw, Kind, Place};
use crate::wire::{Command, Connection, Reply};

/// One documented argument of a command.
#[derive(Debug)]
struct Argument {
    name: String,
    kind: String,
    token: Option<Vec<u8>>,
    optional: bool,
    multiple: bool,
    multiple_token: bool,
    children: Vec<Argument>,
}

/// A command, or one subcommand of it, with all it takes.
#[derive(Debug)]
pub struct Shape {
    /// The words it starts with, such as `OBJECT ENCODING`.
    pub words: Vec<Vec<u8>>,
    /// Lower-case name, `object|encoding`.
    pub name: String,
    group: String,
    blocking: bool,
    arguments: Vec<Argument>,
}

/// The commands of some groups.
pub struct Grammar {
    /// Those that can be generated, in the reference's order.
    pub shapes: Vec<Shape>,
}

impl Grammar {
    /// Reads the reference's documentation of the groups named (`string`, `sorted-set`, ...); commands that
    /// [`known::SKIPPED`] names are left out.
    pub fn read(reference: &mut Connection, groups: &[&str]) -> io::Result<Grammar> {
        let docs = reference.ask("COMMAND DOCS")?;
        let mut shapes = Vec::new();
        for pair in docs.items().chunks_exact(2) {
            let name = string(&pair[0]);
            let group = string(field(&pair[1], "group").unwrap_or(&pair[0]));
            collect(&name, vec![name.to_uppercase().into_bytes()], &group, &pair[1], &mut shapes);
        }
        shapes.retain(|shape| {
            groups.contains(&shape.group.as_str()) && !known::SKIPPED.iter().any(|(name, _)| *name == shape.name)
        });
        Ok(Grammar { shapes })
    }

    /// One command, chosen and filled in by `seed`; mostly well formed.
    pub fn command(&self, seed: u64) -> Command {
        let mut draw = Draw::new(seed);
        let mut shape = &self.shapes[draw.below(self.shapes.len())];
        // Those that may block take milliseconds when they do: a quarter of them is enough.
        if shape.blocking && draw.chance(75) {
            shape = &self.shapes[draw.below(self.shapes.len())];
        }
        let mut words = shape.words.clone();
        generate_all(shape, &shape.arguments, &mut draw, &mut words);
        // An odd word as a timeout could mean for ever.
        if !shape.blocking {
            mutate(&mut words, shape.words.len(), &mut draw);
        }
        known::tame(&shape.name, &mut words, &mut draw);
        words
    }
}

fn string(reply: &Reply) -> String {
    String::from_utf8_lossy(reply.text()).into_owned()
}

/// The value of `name` in a flat map.
fn field<'a>(map: &'a Reply, name: &str) -> Option<&'a Reply> {
    map.items().chunks_exact(2).find(|pair| pair[0].text() == name.as_bytes()).map(|pair| &pair[1])
}

fn collect(name: &str, words: Vec<Vec<u8>>, group: &str, docs: &Reply, shapes: &mut Vec<Shape>) {
    if let Some(subcommands) = field(docs, "subcommands") {
        for pair in subcommands.items().chunks_exact(2) {
            let full = string(&pair[0]);
            let last = full.rsplit('|').next().unwrap_or_default().to_uppercase();
            let words = [words.clone(), vec![last.into_bytes()]].concat();
            collect(&full, words, group, &pair[1], shapes);
        }
        return;
    }
    let arguments = field(docs, "arguments").map_or_else(Vec::new, |list| list.items().iter().map(argument).collect());
    let blocking = arguments.iter().any(|one| one.name == "timeout" || one.token.as_deref() == Some(b"BLOCK"));
    shapes.push(Shape { words, name: name.to_string(), group: group.to_string(), blocking, arguments });
}

fn argument(docs: &Reply) -> Argument {
    let text = |name| field(docs, name).map(string).unwrap_or_default();
    let flags: Vec<String> =
        field(docs, "flags").map_or_else(Vec::new, |list| list.items().iter().map(string).collect());
    let has = |flag: &str| flags.iter().any(|one| one == flag);
    Argument {
        name: text("name"),
        kind: text("type"),
        token: field(docs, "token").map(|token| token.text().to_vec()),
        optional: has("optional"),
        multiple: has("multiple"),
        multiple_token: has("multiple_token"),
        children: field(docs, "arguments").map_or_else(Vec::new, |list| list.items().iter().map(argument).collect()),
    }
}

/// Generates arguments in turn. A count of keys is put in once the keys that follow it are there.
fn generate_all(shape: &Shape, arguments: &[Argument], draw: &mut Draw, words: &mut Command) {
    let mut count_at = None;
    for one in arguments {
        if one.optional && draw.chance(60) {
            continue;
        }
        if one.name == "numkeys" {
            count_at = Some(words.len());
            words.push(b"1".to_vec());
            continue;
        }
        let before = words.len();
        generate(shape, one, draw, words);
        if let (Some(at), "key") = (count_at, one.kind.as_str()) {
            if draw.chance(95) {
                words[at] = (words.len() - before).to_string().into_bytes();
            } else {
                words[at] = draw.integer(Place::Count);
            }
            count_at = None;
        }
    }
}

fn generate(shape: &Shape, one: &Argument, draw: &mut Draw, words: &mut Command) {
    let times = if !one.multiple {
        1
    } else if one.token.is_none() && draw.chance(4) {
        // Enough to pass the limits of the compact encodings.
        100 + draw.below(150)
    } else {
        1 + draw.below(4)
    };
    for time in 0..times {
        if let Some(token) = &one.token
            && (time == 0 || one.multiple_token)
            && one.kind != "pure-token"
        {
            words.push(token.clone());
        }
        match one.kind.as_str() {
            "pure-token" => words.push(one.token.clone().unwrap_or_default()),
            "oneof" => {
                if let Some(child) = one.children.get(draw.below(one.children.len().max(1))) {
                    generate(shape, child, draw, words);
                }
            }
            "block" => generate_all(shape, &one.children, draw, words),
            "key" => words.push(draw.key(Kind::of_group(&shape.group))),
            "pattern" => words.push(draw.pattern()),
            "integer" | "unix-time" => words.push(draw.integer(Place::of(&shape.name, &one.name))),
            "double" => words.push(draw.double(Place::of(&shape.name, &one.name))),
            _ => words.push(draw.string(&shape.name, &one.name)),
        }
    }
}

/// Spoils a few commands: a word less, a word more, another word, other letters in the name.
fn mutate(words: &mut Command, fixed: usize, draw: &mut Draw) {
    if !draw.chance(8) {
        return;
    }
    match draw.below(4) {
        0 => drop(words.pop()),
        1 => words.push(draw.odd()),
        2 if words.len() > fixed => {
            let at = fixed + draw.below(words.len() - fixed);
            words[at] = draw.odd();
        }
        _ => words[0].make_ascii_lowercase(),
    }
    if words.is_empty() {
        words.push(b"GET".to_vec());
    }
}
