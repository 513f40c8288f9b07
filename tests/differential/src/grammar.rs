//! Commands generated from `COMMAND DOCS`.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use crate::skipped::Skipped;
use crate::tame::tame;
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
    /// The group it is documented in.
    pub group: String,
    /// Whether it may wait.
    pub blocking: bool,
    arguments: Vec<Argument>,
}

impl Shape {
    /// Its option tokens.
    pub fn tokens(&self) -> Vec<Vec<u8>> {
        let mut found = Vec::new();
        tokens(&self.arguments, &mut Vec::new(), &mut found);
        found.into_iter().map(|(token, _)| token).collect()
    }
}

/// What is to be reached: a command, and the argument that a token of it stands at.
struct Target {
    shape: usize,
    /// The way to the argument, one index a level; empty for the command as such.
    path: Vec<usize>,
}

/// What is reached is counted under this: a command, and an option token of it or nothing.
pub type Reach = (String, String);

/// The commands of some groups.
pub struct Grammar {
    /// Those that can be generated, in the table's order.
    pub shapes: Vec<Shape>,
    targets: Vec<Target>,
    /// The option tokens of every command; a command without any has an empty list.
    pub tokens: BTreeMap<String, Vec<Vec<u8>>>,
    /// Which server the commands are also sent to, and what it gave as payloads of DUMP.
    world: World,
}

/// What commands depend on beside their documentation.
#[derive(Clone, Default)]
pub struct World {
    /// Whether the reference is a Redis 7.0: some commands of 7.2 are then kept simple.
    pub old: bool,
    /// Whether commands that wait are waited for by somebody: they then wait for long.
    pub patient: bool,
    /// Whether SORT is among the commands.
    pub sorts: bool,
    /// Payloads that RESTORE takes.
    pub payloads: Vec<Vec<u8>>,
}

/// Names of the commands and subcommands that both servers have.
pub fn common_commands(servers: [&mut Connection; 2]) -> io::Result<BTreeSet<String>> {
    let names = |server: &mut Connection| -> io::Result<BTreeSet<String>> {
        let list = server.ask("COMMAND LIST")?;
        Ok(list.items().iter().map(|name| String::from_utf8_lossy(name.text()).into_owned()).collect())
    };
    let [ours, theirs] = servers;
    Ok(names(ours)?.intersection(&names(theirs)?).cloned().collect())
}

impl Grammar {
    /// As [`read`](Self::read), of the `common` commands only.
    pub fn of_common(
        server: &mut Connection,
        common: &BTreeSet<String>,
        wanted: &dyn Fn(&str, &str) -> bool,
        world: World,
    ) -> io::Result<Grammar> {
        let both = |group: &str, name: &str| wanted(group, name) && common.contains(name);
        Self::read(server, &both, &Skipped::read().map_err(io::Error::other)?, world)
    }

    /// Reads a server's documentation of the commands that `wanted` picks by group and name; those that are skipped are
    /// left out.
    pub fn read(
        server: &mut Connection,
        wanted: &dyn Fn(&str, &str) -> bool,
        skipped: &Skipped,
        world: World,
    ) -> io::Result<Grammar> {
        let mut shapes = all_shapes(server)?;
        shapes.retain(|shape| wanted(&shape.group, &shape.name) && !skipped.command(&shape.name, world.old));
        let mut grammar = Grammar { shapes, targets: Vec::new(), tokens: BTreeMap::new(), world };
        for (at, shape) in grammar.shapes.iter().enumerate() {
            grammar.targets.push(Target { shape: at, path: Vec::new() });
            let mut found = Vec::new();
            grammar.tokens.entry(shape.name.clone()).or_default();
            tokens(&shape.arguments, &mut Vec::new(), &mut found);
            for (token, path) in found {
                let list = grammar.tokens.entry(shape.name.clone()).or_default();
                if !list.contains(&token) {
                    list.push(token.clone());
                }
                if !skipped.token(&shape.name, &token, grammar.world.old) {
                    grammar.targets.push(Target { shape: at, path });
                }
            }
        }
        Ok(grammar)
    }

    /// Everything that is to be reached.
    pub fn places(&self) -> Vec<Reach> {
        let mut places = Vec::new();
        for shape in &self.shapes {
            places.push((shape.name.clone(), String::new()));
            for token in self.tokens.get(&shape.name).into_iter().flatten() {
                places.push((shape.name.clone(), String::from_utf8_lossy(token).into_owned()));
            }
        }
        places
    }

    /// One command, chosen and filled in by `seed`, with what has to follow it; mostly well formed.
    pub fn commands(&self, seed: u64) -> Vec<Command> {
        let mut draw = Draw::new(seed);
        let mut target = &self.targets[draw.below(self.targets.len())];
        // Those that may block take milliseconds when they do: a quarter of them is enough.
        if self.shapes[target.shape].blocking && !self.world.patient && draw.chance(75) {
            target = &self.targets[draw.below(self.targets.len())];
        }
        self.fill(target, draw)
    }

    /// Whether a generated command may wait.
    pub fn waits(&self, command: &Command) -> bool {
        let name = String::from_utf8_lossy(&command[0]).to_lowercase();
        self.shapes.iter().any(|shape| shape.blocking && shape.name == name)
    }

    fn fill(&self, target: &Target, mut draw: Draw) -> Vec<Command> {
        let shape = &self.shapes[target.shape];
        let mut words = shape.words.clone();
        let mut writer = Writer { shape, world: &self.world, draw: &mut draw, words: &mut words };
        writer.all(&shape.arguments, &target.path);
        // An odd word as a timeout could mean for ever.
        if !shape.blocking {
            mutate(&mut words, shape.words.len(), &mut draw);
        }
        tame(&shape.name, &mut words, &mut draw, &self.world)
    }
}

/// All commands and subcommands that a server documents.
pub fn all_shapes(server: &mut Connection) -> io::Result<Vec<Shape>> {
    let docs = server.ask("COMMAND DOCS")?;
    let mut shapes = Vec::new();
    for pair in docs.items().chunks_exact(2) {
        let name = string(&pair[0]);
        let group = string(field(&pair[1], "group").unwrap_or(&pair[0]));
        collect(&name, vec![name.to_uppercase().into_bytes()], &group, &pair[1], &mut shapes);
    }
    Ok(shapes)
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
    let blocking = blocking && name != "client|pause";
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

/// Every token with the way to it.
fn tokens(arguments: &[Argument], way: &mut Vec<usize>, found: &mut Vec<(Vec<u8>, Vec<usize>)>) {
    for (at, one) in arguments.iter().enumerate() {
        way.push(at);
        if let Some(token) = one.token.as_ref().filter(|token| !token.is_empty()) {
            found.push((token.clone(), way.clone()));
        }
        tokens(&one.children, way, found);
        way.pop();
    }
}

/// Writes a command's arguments.
struct Writer<'a> {
    shape: &'a Shape,
    world: &'a World,
    draw: &'a mut Draw,
    words: &'a mut Command,
}

impl Writer<'_> {
    /// Generates arguments in turn, that on the `way` in any case. A count of keys is put in once the keys that follow it
    /// are there.
    fn all(&mut self, arguments: &[Argument], way: &[usize]) {
        let mut count_at = None;
        for (at, one) in arguments.iter().enumerate() {
            let wanted = way.first() == Some(&at);
            if one.optional && !wanted && self.draw.chance(60) {
                continue;
            }
            if one.name == "numkeys" {
                count_at = Some(self.words.len());
                self.words.push(b"1".to_vec());
                continue;
            }
            let before = self.words.len();
            self.one(one, if wanted { &way[1..] } else { &[] });
            if let (Some(at), "key") = (count_at, one.kind.as_str()) {
                if self.draw.chance(95) {
                    self.words[at] = (self.words.len() - before).to_string().into_bytes();
                } else {
                    self.words[at] = self.draw.integer(Place::Count);
                }
                count_at = None;
            }
        }
    }

    fn one(&mut self, one: &Argument, way: &[usize]) {
        let times = if !one.multiple {
            1
        } else if one.token.is_none() && self.draw.chance(2) {
            // Enough to pass the limits of the compact encodings.
            100 + self.draw.below(150)
        } else {
            1 + self.draw.below(4)
        };
        for time in 0..times {
            if let Some(token) = &one.token
                && (time == 0 || one.multiple_token)
                && one.kind != "pure-token"
            {
                self.words.push(token.clone());
            }
            self.value(one, if time == 0 { way } else { &[] });
        }
    }

    fn value(&mut self, one: &Argument, way: &[usize]) {
        let name = &self.shape.name;
        if !["pure-token", "oneof", "block", "key"].contains(&one.kind.as_str())
            && let Some(word) = self.draw.admin(name, &one.name)
        {
            self.words.push(word);
            return;
        }
        let place = Place::of(name, &one.name, self.world.patient);
        match one.kind.as_str() {
            "pure-token" => self.words.push(one.token.clone().unwrap_or_default()),
            "oneof" => {
                let at = way.first().copied().unwrap_or_else(|| self.draw.below(one.children.len().max(1)));
                if let Some(child) = one.children.get(at) {
                    self.one(child, way.get(1..).unwrap_or(&[]));
                }
            }
            "block" => self.all(&one.children, way),
            "key" => self.words.push(self.draw.key(Kind::of_group(&self.shape.group))),
            "pattern" => self.words.push(self.draw.pattern(name)),
            "integer" | "unix-time" => self.words.push(self.draw.integer(place)),
            "double" => self.words.push(self.draw.double(place)),
            _ if one.name == "serialized-value" => self.words.push(self.draw.payload(&self.world.payloads)),
            _ => self.words.push(self.draw.string(name, &one.name)),
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
