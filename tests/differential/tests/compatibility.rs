//! `docs/compatibility.md` is true: its tables are what the servers' own tables and the lists of differences give.
//! `UPDATE=1` writes them into the file.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::PathBuf;

use barium_differential::differences::{DIFFERENCES, Reference};
use barium_differential::grammar::all_shapes;
use barium_differential::server::Server;
use barium_differential::skipped::Skipped;
use barium_differential::wire::{Connection, Reply};

/// Groups that are all later work.
const LATER: [&str; 2] = ["scripting", "cluster"];

fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/compatibility.md")
}

/// Commands and subcommands of a server by group, and the version each came with.
fn commands(server: &Server) -> BTreeMap<String, (String, String)> {
    let mut connection = Connection::open(server.port).expect("connect");
    let docs = connection.ask("COMMAND DOCS").expect("COMMAND DOCS");
    let mut since = BTreeMap::new();
    versions(&docs, &mut since);
    let shapes = all_shapes(&mut connection).expect("COMMAND DOCS");
    shapes.into_iter().map(|shape| (shape.name.clone(), (shape.group, since[&shape.name].clone()))).collect()
}

fn versions(docs: &Reply, into: &mut BTreeMap<String, String>) {
    for pair in docs.items().chunks_exact(2) {
        let name = String::from_utf8_lossy(pair[0].text()).into_owned();
        for field in pair[1].items().chunks_exact(2) {
            match field[0].text() {
                b"since" => drop(into.insert(name.clone(), String::from_utf8_lossy(field[1].text()).into_owned())),
                b"subcommands" => versions(&field[1], into),
                _ => {}
            }
        }
    }
}

/// All commands of 7.2: 7.0's, and those of Valkey that came with 7.2 at the latest.
fn of_7_2(old: &Server, new: &Server) -> BTreeMap<String, String> {
    let mut all: BTreeMap<String, String> = commands(old).into_iter().map(|(name, (group, _))| (name, group)).collect();
    let early = |since: &str| {
        let mut parts = since.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
        (parts.next().unwrap_or(0), parts.next().unwrap_or(0)) <= (7, 2)
    };
    let later = commands(new).into_iter().filter(|(_, (_, since))| early(since));
    all.extend(later.map(|(name, (group, _))| (name, group)));
    all
}

/// The table of families. The count of compared cases is a run's, and stays as it is in the file.
fn families(all: &BTreeMap<String, String>, ours: &BTreeMap<String, (String, String)>, text: &str) -> String {
    let mut table = String::from("| family | commands | compared | not there yet |\n|---|---|---|---|\n");
    let groups: BTreeSet<&String> = all.values().collect();
    for group in groups {
        let of_group: Vec<&String> = all.iter().filter(|(_, of)| *of == group).map(|(name, _)| name).collect();
        let missing: Vec<&str> =
            of_group.iter().filter(|name| !ours.contains_key(**name)).map(|name| name.as_str()).collect();
        let start = format!("| {group} | ");
        let old = text.lines().find(|line| line.starts_with(&start)).and_then(|line| line.split(" | ").nth(2));
        let compared = if LATER.contains(&group.as_str()) { "-" } else { old.unwrap_or("?") };
        let there = of_group.len() - missing.len();
        let missing = if there == 0 { "all: not yet".into() } else { missing.join(", ") };
        let _ = writeln!(table, "{start}{there} / {} | {compared} | {missing} |", of_group.len());
    }
    table
}

fn differences() -> String {
    let mut text = String::new();
    for (reference, name) in [(Reference::Redis, "Redis 7.0.15"), (Reference::Valkey, "Valkey 8.0.1")] {
        let _ = writeln!(text, "\n### From {name}\n");
        for one in DIFFERENCES.iter().filter(|one| one.from == reference) {
            let _ = writeln!(text, "- {}", one.what.trim_end_matches(" Not generated."));
        }
    }
    text
}

fn skipped() -> String {
    let mut text = String::new();
    for skip in Skipped::read().expect("skipped.txt").0 {
        let of = if skip.old_only { " (of Redis 7.0)" } else { "" };
        let token = if skip.token.is_empty() { String::new() } else { format!(" `{}`", skip.token) };
        let _ = writeln!(text, "- `{}`{token}{of}: {}", skip.command.replace('|', " "), skip.reason);
    }
    text
}

/// The text with what stands between the two marks of this name replaced.
fn with(text: &str, name: &str, content: &str) -> String {
    let (start, end) = (format!("<!-- {name} -->\n"), format!("<!-- end of {name} -->"));
    let (before, rest) = text.split_once(&start).unwrap_or_else(|| panic!("no mark {start}"));
    let (_, after) = rest.split_once(&end).unwrap_or_else(|| panic!("no mark {end}"));
    format!("{before}{start}{content}{end}{after}")
}

#[test]
fn the_page_is_true() {
    let (Some(old), Some(new)) = (
        Server::reference(Reference::Redis).expect("redis-server"),
        Server::reference(Reference::Valkey).expect("valkey-server"),
    ) else {
        println!("SKIPPED: Valkey is not there");
        return;
    };
    let barium = Server::barium().expect("barium-host");
    let text = std::fs::read_to_string(path()).expect("docs/compatibility.md");
    let table = families(&of_7_2(&old, &new), &commands(&barium), &text);
    let mut wanted = with(&text, "families", &table);
    wanted = with(&wanted, "differences", &differences());
    wanted = with(&wanted, "skipped", &skipped());
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(path(), &wanted).expect("write");
    } else {
        assert_eq!(text, wanted, "run it with UPDATE=1");
    }
}
