//! Words for the commands that are not about keys: channels, clients, users, rules, parameters.

use crate::scene::IDS;
use crate::values::Draw;

const CHANNELS: &[&str] = &["a", "b", "news.1", "__keyspace@0__:s1", "__keyevent@0__:set", "", "\u{e9} x"];
const CHANNEL_PATTERNS: &[&str] = &["*", "a*", "[ab]", "__key*__:*", "__keyevent@0__:*", "n?ws.*", "", "a"];
const COMMANDS: &[&str] = &[
    "get",
    "SET",
    "config|get",
    "acl|setuser",
    "zadd",
    "hello",
    "nosuch",
    "client|kill",
    "config",
    "xadd",
    "ping",
    "",
];
const CATEGORIES: &[&str] = &["geo", "hyperloglog", "bitmap", "stream", "nosuch", "string", "list", "set", "hash", ""];
const USERS: &[&str] = &["u", "v", "u", "v", "default", "nosuch", "", "a b"];
const RULES: &[&str] = &[
    "on",
    "off",
    "nopass",
    "resetpass",
    ">pw",
    "<pw",
    ">other",
    "<nosuch",
    "#x",
    "!x",
    "~*",
    "~s*",
    "~",
    "%R~s*",
    "%W~l*",
    "%RW~h*",
    "%X~a",
    "%R~",
    "&*",
    "&a",
    "&news.*",
    "&",
    "+@all",
    "-@all",
    "+get",
    "-get",
    "+set",
    "+@read",
    "-@write",
    "+@string",
    "+@nosuch",
    "+nosuch",
    "+config|get",
    "-config|get",
    "+config",
    "+config|nosuch",
    "+select|0",
    "+get|x",
    "allkeys",
    "resetkeys",
    "allchannels",
    "resetchannels",
    "allcommands",
    "nocommands",
    "reset",
    "clearselectors",
    "(+get ~s*)",
    "(%R~l* +@read)",
    "(+set",
    "( +get )",
    "()",
    "(+get ~s*",
    "(-@all +ping &a)",
    "(on)",
    "sanitize-payload",
    "skip-sanitize-payload",
    "ON",
    "x",
    "",
    "+@fast",
    "-@dangerous",
    "+@pubsub",
    "-debug",
    "+get ~x",
    "#2bd806c97f0e00af1a1fc3328fa763a9269723c8db8fac4f93af71db186d6e90",
    "!2bd806c97f0e00af1a1fc3328fa763a9269723c8db8fac4f93af71db186d6e90",
    "#2BD806c97f0e00af1a1fc3328fa763a9269723c8db8fac4f93af71db186d6e90",
];
/// Parameters that have the same default and meaning in all versions.
const PARAMETERS: &[(&str, &[&str])] = &[
    ("hash-max-listpack-entries", &["128", "4", "0", "-1", "x", ""]),
    ("hash-max-ziplist-value", &["64", "8", "0"]),
    ("set-max-intset-entries", &["512", "3", "0", "-1"]),
    ("zset-max-listpack-entries", &["128", "3", "x"]),
    ("zset-max-listpack-value", &["64", "5"]),
    ("list-max-listpack-size", &["-2", "-1", "4", "x"]),
    ("stream-node-max-entries", &["100", "5", "0"]),
    ("hll-sparse-max-bytes", &["3000", "100"]),
    ("maxmemory-policy", &["noeviction", "allkeys-lru", "volatile-ttl", "nosuch"]),
    ("maxmemory-samples", &["5", "10", "x", "1"]),
    ("lfu-log-factor", &["10", "0", "-1"]),
    ("lfu-decay-time", &["1", "0"]),
    ("timeout", &["0", "100000", "-1"]),
    ("tcp-keepalive", &["300", "0", "-1", "x"]),
    ("notify-keyspace-events", &["", "KEA", "Kx", "AKE", "g$lshzxetdmn", "Q"]),
    ("slowlog-max-len", &["128", "0", "-1"]),
    ("slowlog-log-slower-than", &["10000", "-1", "x"]),
    ("latency-monitor-threshold", &["0", "100", "-1"]),
    ("proto-max-bulk-len", &["512mb", "1048576", "1k", "x"]),
    ("client-query-buffer-limit", &["1gb", "10mb", "x"]),
    (
        "client-output-buffer-limit",
        &["normal 0 0 0", "pubsub 32mb 8mb 60", "normal 1 2", "nosuch 0 0 0", "replica 1 1 x"],
    ),
    ("acllog-max-len", &["128", "0", "x"]),
    ("nosuch", &["1"]),
];
const PROTOCOLS: &[&str] = &[
    "string", "integer", "double", "null", "array", "set", "map", "attrib", "push", "verbatim", "true", "false",
    "bignum", "nosuch",
];

impl Draw {
    /// A word for this argument of this command, if it is of those that are not about keys.
    pub fn admin(&mut self, command: &str, argument: &str) -> Option<Vec<u8>> {
        let pool: &[&str] = match (command, argument) {
            (_, "channel" | "shardchannel") => CHANNELS,
            (_, "pattern") if command.contains("psub") || command.starts_with("pubsub") => CHANNEL_PATTERNS,
            ("command|list", "pattern") => &["zr*k", "hset*", "b?pop", "x*", "z*store", "nosuch*", "S*ET", "get"],
            ("command|list", "category") => &["geo", "hyperloglog", "bitmap", "stream", "nosuch", ""],
            ("command|list", _) => &["nosuch"],
            (_, "command-name") => COMMANDS,
            ("acl|dryrun" | "latency|histogram", "command") => COMMANDS,
            ("acl|dryrun", "arg") => &["s1", "l1", "v", "a", "get", "*", ""],
            (_, "category") => CATEGORIES,
            (_, "username") if command.starts_with("acl") => USERS,
            (_, "rule") => RULES,
            ("acl|genpass", _) => &["1", "8", "256", "4096", "0", "-1", "4097", "x"],
            ("acl|log", "count") => &["0", "1", "10", "-1", "x"],
            (_, "username") => &["default", "default", "nosuch", ""],
            (_, "password") => &["", "x", "pw"],
            ("hello", "protover") => &["2", "3", "2", "3", "1", "4", "x", ""],
            ("hello" | "client|setname", _) => &["name", "other-name", "", "a b", "\u{e9}", "x\ny", "name"],
            ("client|setinfo", "libname" | "libver") => &["redis-py", "1.2.3", "", "a b", "x\ny", "(x)"],
            (_, "client-id") => {
                return Some(match self.below(8) {
                    0 => b"0".to_vec(),
                    1 => b"999999".to_vec(),
                    2 => b"x".to_vec(),
                    _ => IDS[self.below(IDS.len())].to_vec(),
                });
            }
            ("client|kill", "addr" | "laddr" | "old-format") => &["127.0.0.1:1", "", "x"],
            ("client|pause", "timeout") => &["0", "1", "1", "-1", "x"],
            ("client|tracking", "prefix") => &["s", "l", "st", "h1", ""],
            ("select", _) => &["0", "1", "15", "16", "-1", "x", "99999999999"],
            ("swapdb", _) => &["0", "1", "2", "15", "16", "-1", "x"],
            ("slowlog|get", _) => &["0", "-1", "10", "-2", "x"],
            ("lolwut", _) => &["5", "6", "0"],
            ("latency|history" | "latency|reset" | "latency|graph", _) => &["command", "fork", "nosuch", ""],
            ("config|get", "parameter") => return Some(self.parameter_pattern()),
            _ => return None,
        };
        Some(self.one(pool).as_bytes().to_vec())
    }

    fn parameter_pattern(&mut self) -> Vec<u8> {
        let name = self.one(PARAMETERS).0;
        match self.below(8) {
            0 => name.to_uppercase().into_bytes(),
            1 if name.contains("list") => b"zset-max-listpack-*".to_vec(),
            2 => b"nosuch*".to_vec(),
            _ => name.as_bytes().to_vec(),
        }
    }

    /// A parameter and a value for it.
    pub fn parameter(&mut self) -> [Vec<u8>; 2] {
        let (name, values) = *self.one(PARAMETERS);
        [name.as_bytes().to_vec(), self.one(values).as_bytes().to_vec()]
    }

    /// Arguments of DEBUG.
    pub fn debug(&mut self) -> Vec<Vec<u8>> {
        let words = |text: &str| text.split(' ').map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>();
        match self.below(9) {
            0..=3 => words(&format!("PROTOCOL {}", self.one(PROTOCOLS))),
            4 => words("DIGEST"),
            5 => words(self.one::<&str>(&["DIGEST-VALUE s1", "DIGEST-VALUE h1 l1 x1", "DIGEST-VALUE z1 t1 nosuch"])),
            6 => words(self.one::<&str>(&["POPULATE 3", "POPULATE 2 p", "POPULATE 2 q 5", "POPULATE x"])),
            7 => words(self.one::<&str>(&[
                "ERROR MYERR x",
                "LOG x",
                "STRINGMATCH-LEN 3 a*",
                "SET-DISABLE-DENY-SCRIPTS 0",
            ])),
            _ => words(self.one::<&str>(&["SLEEP 0", "nosuch", "SLEEP x", "QUICKLIST-PACKED-THRESHOLD 100b"])),
        }
    }
}
