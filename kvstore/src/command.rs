//! What the command table says of a command: everything that COMMAND, COMMAND DOCS, the arity and memory gates, key
//! extraction, ACL categories and the documentation read.

use crate::ctx::Handler;

/// Command groups, as COMMAND DOCS names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Group {
    Generic,
    String,
    List,
    Set,
    SortedSet,
    Hash,
    Pubsub,
    Transactions,
    Connection,
    Server,
    Bitmap,
    Geo,
    HyperLogLog,
    Stream,
}

impl Group {
    /// The name that COMMAND DOCS gives.
    pub const fn name(self) -> &'static str {
        match self {
            Group::Generic => "generic",
            Group::String => "string",
            Group::List => "list",
            Group::Set => "set",
            Group::SortedSet => "sorted-set",
            Group::Hash => "hash",
            Group::Pubsub => "pubsub",
            Group::Transactions => "transactions",
            Group::Connection => "connection",
            Group::Server => "server",
            Group::Bitmap => "bitmap",
            Group::Geo => "geo",
            Group::HyperLogLog => "hyperloglog",
            Group::Stream => "stream",
        }
    }
}

/// Command flags, as COMMAND reports them ([`FLAG_NAMES`](flag::FLAG_NAMES)).
#[allow(missing_docs)]
pub mod flag {
    pub const WRITE: u32 = 1;
    pub const READONLY: u32 = 1 << 1;
    pub const DENYOOM: u32 = 1 << 2;
    pub const ADMIN: u32 = 1 << 3;
    pub const PUBSUB: u32 = 1 << 4;
    pub const NOSCRIPT: u32 = 1 << 5;
    pub const BLOCKING: u32 = 1 << 6;
    pub const LOADING: u32 = 1 << 7;
    pub const STALE: u32 = 1 << 8;
    pub const SKIP_MONITOR: u32 = 1 << 9;
    pub const SKIP_SLOWLOG: u32 = 1 << 10;
    pub const ASKING: u32 = 1 << 11;
    pub const FAST: u32 = 1 << 12;
    pub const NO_AUTH: u32 = 1 << 13;
    /// Does not write, but is held back by CLIENT PAUSE WRITE all the same. COMMAND does not show it.
    pub const MAY_REPLICATE: u32 = 1 << 14;
    pub const NO_MANDATORY_KEYS: u32 = 1 << 15;
    pub const NO_ASYNC_LOADING: u32 = 1 << 16;
    pub const NO_MULTI: u32 = 1 << 17;
    pub const ALLOW_BUSY: u32 = 1 << 18;
    /// Allowed only as `enable-debug-command` or `enable-module-command` says; COMMAND does not show it.
    pub const PROTECTED: u32 = 1 << 19;
    /// May have its client wait though it is not [`BLOCKING`] to Redis, whose server then waits as a whole; COMMAND does not
    /// show it.
    pub const WAITS: u32 = 1 << 20;

    /// Every flag with its name, in the order in which COMMAND lists them.
    pub const FLAG_NAMES: &[(u32, &str)] = &[
        (WRITE, "write"),
        (READONLY, "readonly"),
        (DENYOOM, "denyoom"),
        (ADMIN, "admin"),
        (PUBSUB, "pubsub"),
        (NOSCRIPT, "noscript"),
        (BLOCKING, "blocking"),
        (LOADING, "loading"),
        (STALE, "stale"),
        (SKIP_MONITOR, "skip_monitor"),
        (SKIP_SLOWLOG, "skip_slowlog"),
        (ASKING, "asking"),
        (FAST, "fast"),
        (NO_AUTH, "no_auth"),
        (NO_MANDATORY_KEYS, "no_mandatory_keys"),
        (NO_ASYNC_LOADING, "no_async_loading"),
        (NO_MULTI, "no_multi"),
        (ALLOW_BUSY, "allow_busy"),
    ];
}

/// ACL categories. Those that follow from the flags are added by [`Command::categories`]; the table names the others.
#[allow(missing_docs)]
pub mod acl {
    pub const KEYSPACE: u32 = 1;
    pub const READ: u32 = 1 << 1;
    pub const WRITE: u32 = 1 << 2;
    pub const SET: u32 = 1 << 3;
    pub const SORTEDSET: u32 = 1 << 4;
    pub const LIST: u32 = 1 << 5;
    pub const HASH: u32 = 1 << 6;
    pub const STRING: u32 = 1 << 7;
    pub const BITMAP: u32 = 1 << 8;
    pub const HYPERLOGLOG: u32 = 1 << 9;
    pub const GEO: u32 = 1 << 10;
    pub const STREAM: u32 = 1 << 11;
    pub const PUBSUB: u32 = 1 << 12;
    pub const ADMIN: u32 = 1 << 13;
    pub const FAST: u32 = 1 << 14;
    pub const SLOW: u32 = 1 << 15;
    pub const BLOCKING: u32 = 1 << 16;
    pub const DANGEROUS: u32 = 1 << 17;
    pub const CONNECTION: u32 = 1 << 18;
    pub const TRANSACTION: u32 = 1 << 19;
    pub const SCRIPTING: u32 = 1 << 20;

    /// Every category with its name, in the order in which ACL CAT and COMMAND list them.
    pub const CATEGORY_NAMES: &[(u32, &str)] = &[
        (KEYSPACE, "keyspace"),
        (READ, "read"),
        (WRITE, "write"),
        (SET, "set"),
        (SORTEDSET, "sortedset"),
        (LIST, "list"),
        (HASH, "hash"),
        (STRING, "string"),
        (BITMAP, "bitmap"),
        (HYPERLOGLOG, "hyperloglog"),
        (GEO, "geo"),
        (STREAM, "stream"),
        (PUBSUB, "pubsub"),
        (ADMIN, "admin"),
        (FAST, "fast"),
        (SLOW, "slow"),
        (BLOCKING, "blocking"),
        (DANGEROUS, "dangerous"),
        (CONNECTION, "connection"),
        (TRANSACTION, "transaction"),
        (SCRIPTING, "scripting"),
    ];

    /// The category of this name, in any case, and the name in lower case.
    pub fn category(name: &[u8]) -> Option<(u32, &'static str)> {
        CATEGORY_NAMES.iter().find(|(_, n)| n.as_bytes().eq_ignore_ascii_case(name)).copied()
    }
}

/// Flags of a key specification: what the command does with the keys.
#[allow(missing_docs)]
pub mod key {
    pub const RO: u16 = 1;
    pub const RW: u16 = 1 << 1;
    pub const OW: u16 = 1 << 2;
    pub const RM: u16 = 1 << 3;
    pub const ACCESS: u16 = 1 << 4;
    pub const UPDATE: u16 = 1 << 5;
    pub const INSERT: u16 = 1 << 6;
    pub const DELETE: u16 = 1 << 7;
    pub const NOT_KEY: u16 = 1 << 8;
    pub const INCOMPLETE: u16 = 1 << 9;
    pub const VARIABLE_FLAGS: u16 = 1 << 10;

    /// Every flag with its name, in the order in which COMMAND lists them.
    pub const KEY_FLAG_NAMES: &[(u16, &str)] = &[
        (RO, "RO"),
        (RW, "RW"),
        (OW, "OW"),
        (RM, "RM"),
        (ACCESS, "access"),
        (UPDATE, "update"),
        (INSERT, "insert"),
        (DELETE, "delete"),
        (NOT_KEY, "not_key"),
        (INCOMPLETE, "incomplete"),
        (VARIABLE_FLAGS, "variable_flags"),
    ];
}

/// Where the search for keys begins.
#[derive(Clone, Copy, Debug)]
pub enum Begin {
    /// At this argument (the command's name is argument 0).
    Index(usize),
    /// After this keyword, searched from an argument on (from the end, if negative).
    Keyword(&'static str, i32),
    /// Cannot be told.
    Unknown,
}

/// Which arguments from there on are keys.
#[derive(Clone, Copy, Debug)]
pub enum Find {
    /// `last` (relative to the beginning; negative: from the end), `step`, `limit` (0 and 1: none, else the divisor).
    Range {
        /// Last key.
        last: i32,
        /// Distance of keys.
        step: usize,
        /// Divisor of the arguments that remain.
        limit: usize,
    },
    /// The number of keys stands at `index`, the first key at `first` (both relative to the beginning).
    Count {
        /// Where the number stands.
        index: usize,
        /// Where the first key stands.
        first: usize,
        /// Distance of keys.
        step: usize,
    },
    /// Cannot be told.
    Unknown,
}

/// A key specification.
#[derive(Clone, Copy, Debug)]
pub struct KeySpec {
    /// What is done with the keys ([`key`]).
    pub flags: u16,
    /// Where they begin.
    pub begin: Begin,
    /// Which they are.
    pub find: Find,
    /// Remark that COMMAND gives, if any.
    pub notes: &'static str,
}

impl KeySpec {
    /// Keys from argument `first` on: `last` relative to it (negative: from the end), every `step`.
    pub const fn range(flags: u16, first: usize, last: i32, step: usize) -> Self {
        Self { flags, begin: Begin::Index(first), find: Find::Range { last, step, limit: 0 }, notes: "" }
    }
    /// As many keys as the argument at `index` says, right after it.
    pub const fn count(flags: u16, index: usize) -> Self {
        Self { flags, begin: Begin::Index(index), find: Find::Count { index: 0, first: 1, step: 1 }, notes: "" }
    }
    /// The key after a keyword.
    pub const fn keyword(flags: u16, keyword: &'static str, from: i32) -> Self {
        Self {
            flags,
            begin: Begin::Keyword(keyword, from),
            find: Find::Range { last: 0, step: 1, limit: 0 },
            notes: "",
        }
    }
    /// Keys that cannot be told from the arguments.
    pub const fn unknown(flags: u16) -> Self {
        Self { flags, begin: Begin::Unknown, find: Find::Unknown, notes: "" }
    }
    /// The same with a remark.
    pub const fn notes(mut self, notes: &'static str) -> Self {
        self.notes = notes;
        self
    }
    /// The same with another last key.
    pub const fn last(mut self, to: i32) -> Self {
        if let Find::Range { step, limit, .. } = self.find {
            self.find = Find::Range { last: to, step, limit };
        }
        self
    }
    /// The same with a limit.
    pub const fn limit(mut self, to: usize) -> Self {
        if let Find::Range { last, step, .. } = self.find {
            self.find = Find::Range { last, step, limit: to };
        }
        self
    }
}

/// Type of a documented argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ArgType {
    String,
    Integer,
    Double,
    Key,
    Pattern,
    UnixTime,
    PureToken,
    OneOf,
    Block,
}

impl ArgType {
    /// The name that COMMAND DOCS gives.
    pub const fn name(self) -> &'static str {
        match self {
            ArgType::String => "string",
            ArgType::Integer => "integer",
            ArgType::Double => "double",
            ArgType::Key => "key",
            ArgType::Pattern => "pattern",
            ArgType::UnixTime => "unix-time",
            ArgType::PureToken => "pure-token",
            ArgType::OneOf => "oneof",
            ArgType::Block => "block",
        }
    }
}

/// A documented argument, as in COMMAND DOCS.
#[derive(Clone, Copy, Debug)]
pub struct Arg {
    /// Name.
    pub name: &'static str,
    /// Type.
    pub kind: ArgType,
    /// What is shown for it, if it is not the name.
    pub display: &'static str,
    /// Which key specification describes it (keys, and patterns of keys).
    pub key_spec: Option<u8>,
    /// The word in front of it, or that it is.
    pub token: Option<&'static str>,
    /// Version that brought it, if later than the command.
    pub since: &'static str,
    /// Version that deprecated it.
    pub deprecated_since: &'static str,
    /// May be left out.
    pub optional: bool,
    /// May be repeated.
    pub multiple: bool,
    /// The token is repeated with it.
    pub multiple_token: bool,
    /// Parts, of [`ArgType::OneOf`] and [`ArgType::Block`].
    pub parts: &'static [Arg],
}

impl Arg {
    /// A plain argument.
    pub const fn new(name: &'static str, kind: ArgType) -> Self {
        Self {
            name,
            kind,
            display: "",
            key_spec: None,
            token: None,
            since: "",
            deprecated_since: "",
            optional: false,
            multiple: false,
            multiple_token: false,
            parts: &[],
        }
    }
    /// A string.
    pub const fn string(name: &'static str) -> Self {
        Self::new(name, ArgType::String)
    }
    /// An integer.
    pub const fn integer(name: &'static str) -> Self {
        Self::new(name, ArgType::Integer)
    }
    /// A double.
    pub const fn double(name: &'static str) -> Self {
        Self::new(name, ArgType::Double)
    }
    /// A glob pattern.
    pub const fn pattern(name: &'static str) -> Self {
        Self::new(name, ArgType::Pattern)
    }
    /// A Unix time.
    pub const fn unix_time(name: &'static str) -> Self {
        Self::new(name, ArgType::UnixTime)
    }
    /// A key that the specification of number `spec` describes.
    pub const fn key(name: &'static str, spec: u8) -> Self {
        let mut a = Self::new(name, ArgType::Key);
        a.key_spec = Some(spec);
        a
    }
    /// A word.
    pub const fn word(name: &'static str, token: &'static str) -> Self {
        Self::new(name, ArgType::PureToken).token(token)
    }
    /// One of `parts`.
    pub const fn one_of(name: &'static str, parts: &'static [Arg]) -> Self {
        let mut a = Self::new(name, ArgType::OneOf);
        a.parts = parts;
        a
    }
    /// All of `parts`.
    pub const fn block(name: &'static str, parts: &'static [Arg]) -> Self {
        let mut a = Self::new(name, ArgType::Block);
        a.parts = parts;
        a
    }
    /// With a word in front.
    pub const fn token(mut self, token: &'static str) -> Self {
        self.token = Some(token);
        self
    }
    /// Described by the key specification of this number, though it is no key.
    pub const fn key_spec(mut self, spec: u8) -> Self {
        self.key_spec = Some(spec);
        self
    }
    /// Shown otherwise than by name.
    pub const fn display(mut self, display: &'static str) -> Self {
        self.display = display;
        self
    }
    /// Version that brought it.
    pub const fn since(mut self, since: &'static str) -> Self {
        self.since = since;
        self
    }
    /// Version that deprecated it.
    pub const fn deprecated(mut self, since: &'static str) -> Self {
        self.deprecated_since = since;
        self
    }
    /// May be left out.
    pub const fn optional(mut self) -> Self {
        self.optional = true;
        self
    }
    /// May be repeated.
    pub const fn multiple(mut self) -> Self {
        self.multiple = true;
        self
    }
    /// May be repeated with its token.
    pub const fn multiple_token(mut self) -> Self {
        self.multiple = true;
        self.multiple_token = true;
        self
    }
}

/// Which arguments are channels, for ACL: a user has to be allowed to use them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channels {
    /// None that matter.
    None,
    /// The first is published to.
    Publish,
    /// All are subscribed to.
    Subscribe,
    /// All are patterns that are subscribed to.
    SubscribePatterns,
}

/// A command, or a subcommand of one.
#[derive(Debug)]
pub struct Command {
    /// Name, in lower case; of a subcommand its own part only.
    pub name: &'static str,
    /// Group.
    pub group: Group,
    /// Redis version that brought it.
    pub since: &'static str,
    /// One line.
    pub summary: &'static str,
    /// Time it takes.
    pub complexity: &'static str,
    /// Number of arguments with the name; negative: at least that many. For a subcommand it counts both names.
    pub arity: i8,
    /// Flags ([`flag`]).
    pub flags: u32,
    /// ACL categories ([`acl`]) beside those that follow from the flags.
    pub acl: u32,
    /// Key specifications.
    pub keys: &'static [KeySpec],
    /// Channels among the arguments.
    pub channels: Channels,
    /// Documented arguments.
    pub args: &'static [Arg],
    /// Subcommands, sorted by name.
    pub subcommands: &'static [Command],
    /// What changed in which version.
    pub history: &'static [(&'static str, &'static str)],
    /// Tips for proxies and clients.
    pub tips: &'static [&'static str],
    /// Version that deprecated it, or empty.
    pub deprecated_since: &'static str,
    /// What to use in its place, or empty.
    pub replaced_by: &'static str,
    /// What HELP answers, of such a subcommand.
    pub help: &'static [&'static str],
    /// Documentation flag "syscmd".
    pub syscmd: bool,
    /// The handler. None for a container whose subcommands do the work.
    pub run: Option<Handler>,
    /// How it goes the express way where that can be.
    pub express: Option<Express>,
}

/// What the express way (`server/express.rs`) does in a command's place. Names and numbers of arguments are the table's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Express {
    /// Answers with the string at the first argument.
    Get,
    /// Writes the second argument over the string at the first.
    Set,
    /// Does that with each pair of arguments.
    SetMany,
}

impl Command {
    /// What entries leave out (`..Command::DEFAULT`).
    pub const DEFAULT: Command = Command {
        name: "",
        group: Group::Generic,
        since: "",
        summary: "",
        complexity: "",
        arity: 0,
        flags: 0,
        acl: 0,
        keys: &[],
        channels: Channels::None,
        args: &[],
        subcommands: &[],
        history: &[],
        tips: &[],
        deprecated_since: "",
        replaced_by: "",
        help: &[],
        syscmd: false,
        run: None,
        express: None,
    };

    /// Whether `n` arguments (with the name) are a legal number.
    #[inline]
    pub const fn arity_fits(&self, n: usize) -> bool {
        let (arity, n) = (self.arity as isize, n as isize);
        n == arity || (arity < 0 && n >= -arity)
    }

    /// Whether a flag is set.
    #[inline]
    pub const fn has(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }

    /// Whether it leaves sessions and server as they are, and does not wait: it deals with keys, or only answers.
    pub fn is_simple(&self) -> bool {
        let others = matches!(self.group, Group::Pubsub | Group::Transactions | Group::Connection | Group::Server);
        let answers = matches!(self.name, "ping" | "echo");
        (!others || answers)
            && !self.has(flag::BLOCKING | flag::WAITS | flag::PROTECTED | flag::ADMIN)
            && self.subcommands.is_empty()
    }

    /// Whether what it takes is bounded by the length of its arguments, or nearly so.
    pub fn is_quick(&self) -> bool {
        self.has(flag::FAST) || self.complexity == "O(1)"
    }

    /// All its ACL categories.
    pub const fn categories(&self) -> u32 {
        let mut c = self.acl;
        if self.has(flag::WRITE) {
            c |= acl::WRITE;
        }
        if self.has(flag::READONLY) && c & acl::SCRIPTING == 0 {
            c |= acl::READ;
        }
        if self.has(flag::ADMIN) {
            c |= acl::ADMIN | acl::DANGEROUS;
        }
        if self.has(flag::PUBSUB) {
            c |= acl::PUBSUB;
        }
        if self.has(flag::BLOCKING) {
            c |= acl::BLOCKING;
        }
        if self.has(flag::FAST) {
            c |= acl::FAST;
        }
        if c & acl::FAST == 0 {
            c |= acl::SLOW;
        }
        c
    }

    /// The subcommand of this name, in any case.
    pub fn subcommand(&self, name: &[u8]) -> Option<&'static Command> {
        self.subcommands.iter().find(|s| s.name.as_bytes().eq_ignore_ascii_case(name))
    }
}
