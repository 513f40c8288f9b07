//! ACL rules: what ACL LIST says of a user makes the same user again, and commands sent as that user are allowed or refused as
//! ACL DRYRUN says.
#![no_main]

use barium_fuzz::generate;
use barium_fuzz::host::Host;
use barium_fuzz::input::Input;
use libfuzzer_sys::fuzz_target;

/// Pieces of rules.
const RULES: &[&str] = &[
    "on",
    "off",
    "nopass",
    "resetpass",
    ">p",
    "<p",
    "~*",
    "~str*",
    "%R~list*",
    "%W~set1",
    "%RW~zset?",
    "allkeys",
    "resetkeys",
    "&*",
    "&news",
    "&new*",
    "allchannels",
    "resetchannels",
    "+@all",
    "-@all",
    "allcommands",
    "nocommands",
    "+@read",
    "-@write",
    "+@string",
    "-@dangerous",
    "+get",
    "-get",
    "+set",
    "+config|get",
    "-config|set",
    "+config",
    "-client|kill",
    "+@admin",
    "+select|0",
    "reset",
    "clearselectors",
    "sanitize-payload",
    "skip-sanitize-payload",
    "(",
    ")",
    "(+get",
    "~a)",
    "(~b*",
    "+@hash)",
    "(+set ~c*)",
    "(%W~str* +@all)",
    "#9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "!9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
];

/// The line of ACL LIST about a user, without the name.
fn line(host: &mut Host, user: &str) -> Vec<u8> {
    let all = host.ask(0, &[b"acl", b"list"]);
    let start = format!("user {user} ");
    let found = all.split(|&b| b == b'\n').find_map(|line| line.strip_prefix(start.as_bytes()));
    found.map(|line| line.strip_suffix(b"\r").unwrap_or(line).to_vec()).expect("the user is listed")
}

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input(bytes);
    let mut host = Host::new(2);
    assert_eq!(host.ask(0, &[b"acl", b"setuser", b"u", b"on", b">p"]), b"+OK\r\n");
    for _ in 0..1 + input.below(3) {
        let mut words: Vec<Vec<u8>> = ["acl", "setuser", "u"].map(|w| w.as_bytes().to_vec()).to_vec();
        for _ in 0..1 + input.below(12) {
            words.push(match input.below(8) {
                7 => {
                    let len = input.below(12);
                    [input.take(1), input.take(len)].concat()
                }
                _ => input.pick(RULES).as_bytes().to_vec(),
            });
        }
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        host.command(0, &words);
    }
    let described = line(&mut host, "u");
    // Patterns may be of any bytes but blanks: what cannot be told apart in a line is left out.
    if described.iter().all(|b| (b' '..=b'~').contains(b)) {
        let mut again: Vec<&[u8]> = vec![b"acl", b"setuser", b"v"];
        again.extend(described.split(|&b| b == b' '));
        let reply = host.ask(0, &again);
        assert_eq!(reply, b"+OK\r\n", "{}: {}", described.escape_ascii(), reply.escape_ascii());
        let twice = line(&mut host, "v");
        assert!(twice == described, "\n{}\n{}", described.escape_ascii(), twice.escape_ascii());
    }
    host.command(0, &[b"acl", b"getuser", b"u"]);
    host.command(1, &[b"auth", b"u", b"p"]);
    host.command(1, &[b"acl", b"whoami"]);
    for _ in 0..8 {
        let command = generate::command(&mut input);
        let command: Vec<&[u8]> = command.iter().map(Vec::as_slice).collect();
        let mut dry: Vec<&[u8]> = vec![b"acl", b"dryrun", b"u"];
        dry.extend(&command);
        host.command(0, &dry);
        host.command(1, &command);
        if input.one_in(4) {
            let rule = input.pick(RULES).as_bytes();
            host.command(0, &[b"acl", b"setuser", b"u", rule]);
        }
    }
    host.command(0, &[b"acl", b"log"]);
    host.command(0, &[b"acl", b"deluser", b"u", b"v"]);
    // It came after what `finish` compares with.
    drop(described);
    host.finish();
});
