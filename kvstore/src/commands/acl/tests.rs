use crate::testing::Bench;

/// A server with a session of "default" and one of "u", who may do what the rules say.
fn with_user(rules: &str) -> (Bench, crate::session::ClientId, crate::session::ClientId) {
    let mut b = Bench::new(&[]);
    let (admin, user) = (b.client(), b.client());
    assert_eq!(b.run(admin, &alloc::format!("ACL SETUSER u on >pw {rules}")), "OK");
    assert_eq!(b.run(user, "AUTH u pw"), "OK");
    (b, admin, user)
}

const NO_KEY: &str = "-NOPERM No permissions to access a key";
const NO_CHANNEL: &str = "-NOPERM No permissions to access a channel";

#[test]
fn rules_are_shown_as_they_were_given() {
    let mut b = Bench::new(&[]);
    let c = b.client();
    assert_eq!(b.run(c, "ACL LIST"), "[user default on nopass sanitize-payload ~* &* +@all]");
    for (rules, shown) in [
        ("", "off sanitize-payload resetchannels -@all"),
        ("on nopass", "on nopass sanitize-payload resetchannels -@all"),
        ("allkeys allchannels allcommands", "off sanitize-payload ~* &* +@all"),
        ("~a %R~b %W~c %rw~d %W~b &x &y &x", "off sanitize-payload ~a ~b %W~c ~d resetchannels &x &y -@all"),
        ("skip-sanitize-payload +get -GET +set", "off skip-sanitize-payload resetchannels -@all -get +set"),
        ("+@all -@Admin +acl|WhoAmI -config", "off sanitize-payload resetchannels +@all -@admin +acl|whoami -config"),
        ("+config|get +config|set -config", "off sanitize-payload resetchannels -@all -config"),
        ("+select|0 +select|1 +select|0", "off sanitize-payload resetchannels -@all +select|1 +select|0"),
        ("+@read -@read", "off sanitize-payload resetchannels -@all -@read"),
        ("+get -@all", "off sanitize-payload resetchannels -@all"),
        (
            "(~a +get) ( %R~b &c )",
            "off sanitize-payload resetchannels -@all (~a resetchannels -@all +get) (%R~b resetchannels &c -@all)",
        ),
        ("(~a) clearselectors", "off sanitize-payload resetchannels -@all"),
        ("on ~a &b +get (~c) >p reset", "off sanitize-payload resetchannels -@all"),
        (
            ">a >a",
            "off sanitize-payload #ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb resetchannels -@all",
        ),
        (
            ">a nopass <a",
            "-ERR Error in ACL SETUSER modifier '<a': The password you are trying to remove from the user does not exist",
        ),
        (
            "~* ~a",
            "-ERR Error in ACL SETUSER modifier '~a': Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any effect. Try 'resetkeys' to start with an empty list of patterns",
        ),
        ("%RR~a", "-ERR Error in ACL SETUSER modifier '%RR~a': Syntax error"),
        ("+nosuch", "-ERR Error in ACL SETUSER modifier '+nosuch': Unknown command or category name in ACL"),
        ("-select|0", "-ERR Error in ACL SETUSER modifier '-select|0': Unknown command or category name in ACL"),
        (
            "+config|get|x",
            "-ERR Error in ACL SETUSER modifier '+config|get|x': Allowing first-arg of a subcommand is not supported",
        ),
        ("+get (~a", "-ERR Unmatched parenthesis in acl selector starting at '(~a'."),
        (
            "#00",
            "-ERR Error in ACL SETUSER modifier '#00': The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters",
        ),
    ] {
        b.run(c, "ACL DELUSER u");
        let line = alloc::format!("ACL SETUSER u {rules}");
        let reply = b.run(c, line.trim_end());
        if shown.starts_with('-') {
            assert_eq!(reply, shown);
            assert_eq!(b.run(c, "ACL USERS"), "[default]", "nothing of {rules} is kept");
        } else {
            assert_eq!(reply, "OK", "{rules}");
            let expected = alloc::format!("[user default on nopass sanitize-payload ~* &* +@all user u {shown}]");
            assert_eq!(b.run(c, "ACL LIST"), expected, "{rules}");
        }
    }
}

#[test]
fn getuser_in_both_protocols() {
    let mut b = Bench::new(&[]);
    let c = b.client();
    b.run(c, "ACL SETUSER u on nopass ~a %R~b &c +get (+set)");
    let expected = "[flags [on nopass sanitize-payload] passwords [] commands -@all +get keys ~a %R~b channels &c selectors [[commands -@all +set keys  channels ]]]";
    assert_eq!(b.run(c, "ACL GETUSER u"), expected);
    assert_eq!(b.run(c, "ACL GETUSER none"), "nil");
    b.run(c, "HELLO 3");
    let expected = "{flags ~[on nopass sanitize-payload] passwords [] commands -@all +get keys ~a %R~b channels &c selectors [{commands -@all +set keys  channels }]}";
    assert_eq!(b.run(c, "ACL GETUSER u"), expected);
    assert_eq!(b.run(c, "ACL GETUSER none"), "nil");
}

#[test]
fn commands_by_name_category_and_first_argument() {
    let (mut b, admin, u) = with_user("allkeys +@string -append +config|get +select|1");
    assert_eq!(b.run(u, "SET k v"), "OK");
    assert_eq!(b.run(u, "APPEND k v"), "-NOPERM User u has no permissions to run the 'append' command");
    assert_eq!(b.run(u, "CONFIG GET port"), "[port 5555]");
    assert_eq!(b.run(u, "CONFIG SET timeout 1"), "-NOPERM User u has no permissions to run the 'config|set' command");
    assert_eq!(b.run(u, "SELECT 0"), "-NOPERM User u has no permissions to run the 'select' command");
    assert_eq!(b.run(u, "SELECT 1"), "OK");
    assert_eq!(b.run(u, "NOSUCH"), "-ERR unknown command 'NOSUCH', with args beginning with: ");
    assert_eq!(b.run(u, "GET"), "-ERR wrong number of arguments for 'get' command");
    assert_eq!(b.run(u, "AUTH u no"), "-WRONGPASS invalid username-password pair or user is disabled.");
    assert_eq!(b.run(admin, "ACL SETUSER u -@string +append"), "OK");
    assert!(b.run(u, "GET k").starts_with("-NOPERM"), "rules apply at once");
    assert_eq!(b.run(admin, "ACL SETUSER u +@all ~* &*"), "OK");
    assert_eq!(b.run(u, "ACL WHOAMI"), "u");
    assert_eq!(b.run(admin, "ACL SETUSER u -ping"), "OK");
    assert!(b.run(u, "PING").starts_with("-NOPERM"), "a user that could do everything can be restricted");
}

#[test]
fn keys_by_what_is_done_to_them() {
    let (mut b, admin, u) = with_user("+@all ~rw:* %R~r:* %W~w:*");
    for k in ["rw:1", "r:1", "w:1", "x"] {
        b.run(admin, &alloc::format!("SET {k} v"));
    }
    assert_eq!(b.run(u, "GET rw:1"), "v");
    assert_eq!(b.run(u, "GET r:1"), "v");
    assert_eq!(b.run(u, "GET w:1"), NO_KEY);
    assert_eq!(b.run(u, "SET w:1 v"), "OK");
    assert_eq!(b.run(u, "SET w:1 v GET"), NO_KEY, "which reads");
    assert_eq!(b.run(u, "SET r:1 v"), NO_KEY);
    assert_eq!(b.run(u, "EXISTS w:1 r:1"), "2", "does neither");
    assert_eq!(b.run(u, "EXISTS x"), NO_KEY);
    assert_eq!(b.run(u, "COPY r:1 w:2"), "1");
    assert_eq!(b.run(u, "COPY w:1 r:2"), NO_KEY);
    assert_eq!(b.run(u, "BITFIELD r:1 GET u8 0"), "[118]");
    assert_eq!(b.run(u, "BITFIELD r:1 GET u8 0 INCRBY u8 0 1"), NO_KEY);
    assert_eq!(b.run(u, "MGET rw:1 r:1 w:1"), NO_KEY);
    assert_eq!(b.run(u, "SUNION r:1 w:1"), NO_KEY);
    assert_eq!(b.run(u, "ZUNIONSTORE w:z 1 r:z"), "0");
    assert_eq!(b.run(u, "ZUNIONSTORE w:z 1 w:z"), NO_KEY);
    assert_eq!(b.run(u, "ZUNIONSTORE w:z x w:z"), "-ERR value is not an integer or out of range");
    assert_eq!(b.run(u, "ZUNIONSTORE w:z 1x z:z"), NO_KEY, "as far as it is a number");
    assert_eq!(b.run(u, "XREAD STREAMS r:s 0"), "nil");
    assert_eq!(b.run(u, "XREAD STREAMS r:s w:s 0 0"), NO_KEY);
    assert_eq!(b.run(u, "SORT r:l STORE w:l"), "0");
    assert_eq!(b.run(u, "SORT r:l STORE r:l"), NO_KEY);
}

#[test]
fn sort_by_patterns_needs_every_key() {
    let (mut b, admin, u) = with_user("+@all ~l");
    b.run(admin, "RPUSH l 1");
    assert_eq!(b.run(u, "SORT l BY w*"), "-ERR BY option of SORT denied due to insufficient ACL permissions.");
    assert_eq!(b.run(u, "SORT l GET w*"), "-ERR GET option of SORT denied due to insufficient ACL permissions.");
    assert_eq!(b.run(u, "SORT l BY nosort"), "[1]");
    b.run(admin, "ACL SETUSER u %R~*");
    assert_eq!(b.run(u, "SORT l BY w* GET #"), "[1]");
}

#[test]
fn a_selector_allows_all_of_a_command_or_nothing() {
    let (mut b, admin, u) = with_user("+get ~a (+set ~b) (+@all ~c &c)");
    assert_eq!(b.run(u, "GET a"), "nil");
    assert_eq!(b.run(u, "SET b v"), "OK");
    assert_eq!(b.run(u, "SET a v"), NO_KEY);
    assert_eq!(b.run(u, "DEL c"), "0");
    assert_eq!(b.run(u, "PUBLISH c m"), "0");
    assert_eq!(b.run(admin, "ACL DRYRUN u PUBLISH d m"), "User u has no permissions to access the 'd' channel");
    assert_eq!(b.run(admin, "ACL DRYRUN u MGET c a"), "User u has no permissions to access the 'a' key");
    assert_eq!(b.run(admin, "ACL DRYRUN u MGET c c"), "OK");
    b.run(admin, "ACL SETUSER u clearselectors");
    assert_eq!(b.run(admin, "ACL DRYRUN u DEL c"), "User u has no permissions to run the 'del' command");
    assert_eq!(b.run(admin, "ACL DRYRUN none DEL c"), "-ERR User 'none' not found");
    assert_eq!(b.run(admin, "ACL DRYRUN u none"), "-ERR Command 'none' not found");
    assert_eq!(b.run(admin, "ACL DRYRUN u GET"), "-ERR wrong number of arguments for 'get' command");
}

#[test]
fn channels_patterns_are_compared_as_they_are() {
    let (mut b, _, u) = with_user("+@all ~* &a* &lit?");
    assert_eq!(b.run(u, "PUBLISH abc m"), "0");
    assert_eq!(b.run(u, "PUBLISH b m"), NO_CHANNEL);
    assert_eq!(b.run(u, "SPUBLISH b m"), NO_CHANNEL);
    assert_eq!(b.run(u, "SUBSCRIBE a1 b"), NO_CHANNEL);
    assert_eq!(b.run(u, "PSUBSCRIBE ab*"), NO_CHANNEL);
    assert_eq!(b.run(u, "SSUBSCRIBE b"), NO_CHANNEL);
    assert_eq!(b.run(u, "UNSUBSCRIBE b"), "[unsubscribe b 0]");
    assert_eq!(b.run(u, "PSUBSCRIBE a* lit?"), "[psubscribe a* 1] [psubscribe lit? 2]");
}

#[test]
fn who_loses_a_channel_is_ended() {
    let (mut b, admin, u) = with_user("+@all ~* &a &b");
    b.run(u, "SUBSCRIBE a");
    let open = |b: &mut Bench, c| b.server().fate(c) == crate::session::Fate::Open;
    b.run(admin, "ACL SETUSER u resetchannels &a");
    assert!(open(&mut b, u), "it still may");
    b.run(admin, "ACL SETUSER u resetchannels &a* &b");
    assert!(open(&mut b, u), "another pattern allows it");
    b.run(admin, "ACL SETUSER u resetchannels &b");
    assert!(!open(&mut b, u));
}

#[test]
fn whose_user_is_removed_is_ended() {
    let (mut b, admin, u) = with_user("+@all ~* &*");
    assert_eq!(b.run(admin, "ACL DELUSER default"), "-ERR The 'default' user cannot be removed");
    assert_eq!(b.run(u, "ACL DELUSER u none u"), "1", "the answer is still sent");
    assert_eq!(b.server().fate(u), crate::session::Fate::CloseAfterOutput);
    let (other, third) = (b.client(), b.client());
    b.run(admin, "ACL SETUSER v on nopass +@all");
    b.run(other, "AUTH v x");
    b.run(admin, "ACL DELUSER v");
    assert_eq!(b.server().fate(other), crate::session::Fate::Abort);
    b.run(admin, "ACL SETUSER w on nopass -@all");
    b.run(third, "AUTH w x");
    assert!(b.run(third, "PING").starts_with("-NOPERM"), "a place is used again");
}

#[test]
fn passwords_and_being_off() {
    let mut b = Bench::new(&[]);
    let (admin, c) = (b.client(), b.client());
    const WRONG: &str = "-WRONGPASS invalid username-password pair or user is disabled.";
    b.run(admin, "ACL SETUSER u >one >two +@all");
    assert_eq!(b.run(c, "AUTH u one"), WRONG, "it is off");
    b.run(admin, "ACL SETUSER u on");
    assert_eq!(b.run(c, "AUTH u two"), "OK");
    assert_eq!(b.run(c, "AUTH u three"), WRONG);
    assert_eq!(b.run(c, "ACL WHOAMI"), "u", "who fails stays who he was");
    b.run(admin, "ACL SETUSER u <two");
    assert_eq!(b.run(c, "AUTH u two"), WRONG);
    assert_eq!(b.run(c, "HELLO 2 AUTH u one SETNAME n").split(' ').next(), Some("[server"));
    b.run(admin, "ACL SETUSER u off");
    assert_eq!(b.run(c, "PING"), "PONG", "who is in stays in");
    assert_eq!(b.run(c, "RESET"), "RESET");
    assert_eq!(b.run(c, "ACL WHOAMI"), "default");
    assert_eq!(b.run(c, "AUTH a b c"), "-ERR syntax error");
    assert!(b.run(c, "AUTH p").starts_with("-ERR AUTH <password> called without any password configured"));
}

#[test]
fn requirepass_is_the_default_users_password() {
    let mut b = Bench::new(&[("requirepass", "one")]);
    let (a, late) = (b.client(), b.client());
    const NOAUTH: &str = "-NOAUTH Authentication required.";
    assert_eq!(b.run(a, "PING"), NOAUTH);
    assert_eq!(b.run(a, "AUTH one"), "OK");
    b.run(a, "ACL SETUSER default >two");
    assert_eq!(b.run(late, "AUTH two"), "OK");
    assert_eq!(b.run(a, "CONFIG GET requirepass"), "[requirepass one]");
    b.run(a, "CONFIG SET requirepass one");
    assert_eq!(b.run(late, "AUTH two"), "OK", "the same value changes nothing");
    b.run(a, "CONFIG SET requirepass three");
    assert!(b.run(late, "AUTH two").starts_with("-WRONGPASS"));
    let new = b.client();
    assert_eq!(b.run(new, "PING"), NOAUTH);
    b.run(a, "CONFIG SET requirepass ''");
    assert_eq!(b.run(new, "PING"), "PONG", "nobody has to any more");
    assert!(b.run(new, "HELLO 3").starts_with("-NOAUTH HELLO must be called"), "but it never did");
    b.run(a, "ACL SETUSER default resetpass");
    assert_eq!(b.run(new, "PING"), NOAUTH);
    b.run(a, "ACL SETUSER default nopass off");
    let new = b.client();
    assert_eq!(b.run(new, "PING"), NOAUTH, "a default user that is off lets nobody in");
}

#[test]
fn transactions_are_checked_twice() {
    let (mut b, admin, u) = with_user("+@all ~a &*");
    b.run(u, "MULTI");
    assert_eq!(b.run(u, "SET b v"), NO_KEY);
    assert_eq!(b.run(u, "EXEC"), "-EXECABORT Transaction discarded because of previous errors.");
    b.run(u, "MULTI");
    b.run(u, "SET a v");
    b.run(u, "PUBLISH c m");
    b.run(u, "PING");
    b.run(admin, "ACL SETUSER u resetkeys resetchannels -ping");
    const CHANGED: &str = "-NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This command is no longer allowed for the following reason:";
    assert_eq!(
        b.run(u, "EXEC"),
        alloc::format!(
            "[{CHANGED} no permission to touch the specified keys {CHANGED} no permission to access one of the channels used as arguments {CHANGED} no permission to execute the command or subcommand]"
        )
    );
    let log = b.run(admin, "ACL LOG");
    assert_eq!(log.matches("context multi").count(), 4, "{log}");
}

#[test]
fn who_waits_is_checked_again() {
    let (mut b, admin, u) = with_user("+@all ~l");
    assert_eq!(b.run(u, "BLPOP l 0"), "");
    b.run(admin, "ACL SETUSER u resetkeys");
    b.run(admin, "RPUSH l x");
    assert_eq!(b.read(u), NO_KEY);
    assert_eq!(b.run(admin, "LLEN l"), "1");
    assert!(b.run(admin, "CLIENT LIST").contains("user=u"));
}

#[test]
fn who_is_being_ended_is_not_served() {
    let (mut b, admin, u) = with_user("+@all ~l");
    b.run(u, "BLPOP l 0");
    b.run(admin, "ACL DELUSER u");
    b.run(admin, "RPUSH l x");
    assert_eq!(b.read(u), "");
    assert_eq!(b.run(admin, "LLEN l"), "1");
}

#[test]
fn the_log_counts_what_is_alike() {
    let (mut b, admin, u) = with_user("+get ~a");
    b.run(u, "SET a v");
    b.run(u, "GET b");
    b.run(u, "GET b");
    b.run(u, "auth nobody x");
    let log = b.run(admin, "ACL LOG");
    let info = |line: &str| line.replace(" client-info ", "\n").lines().count();
    assert_eq!(info(&log), 4);
    assert!(
        log.starts_with(
            "[[count 1 reason auth context toplevel object auth username nobody age-seconds 0 client-info id="
        ),
        "{log}"
    );
    assert!(
        log.contains("[count 2 reason key context toplevel object b username u age-seconds 0 client-info id="),
        "{log}"
    );
    assert!(log.contains("cmd=get user=u redir"), "{log}");
    b.pass_ms(61_000);
    b.run(u, "GET b");
    assert!(b.run(admin, "ACL LOG 1").starts_with("[[count 1 reason key"), "too late to be the same");
    assert_eq!(b.run(admin, "ACL LOG -5"), "[]");
    b.run(admin, "CONFIG SET acllog-max-len 2");
    b.run(u, "GET c");
    assert_eq!(info(&b.run(admin, "ACL LOG")), 3);
    assert_eq!(b.run(admin, "ACL LOG reset"), "OK");
    assert_eq!(b.run(admin, "ACL LOG"), "[]");
    let stats = b.run(admin, "INFO stats");
    for line in ["auth:1", "cmd:1", "key:4", "channel:0"] {
        assert!(stats.contains(&alloc::format!("acl_access_denied_{line}\r\n")), "{stats}");
    }
}

#[test]
fn categories_and_passwords() {
    let mut b = Bench::new(&[]);
    let c = b.client();
    assert!(b.run(c, "ACL CAT").starts_with("[keyspace read write set sortedset list hash string bitmap hyperloglog geo stream pubsub admin fast slow blocking dangerous connection transaction scripting]"));
    assert!(b.run(c, "ACL CAT transaction").contains("watch"));
    assert!(b.run(c, "ACL CAT ADMIN").contains("acl|setuser"));
    assert_eq!(b.run(c, "ACL CAT none"), "-ERR Unknown category 'none'");
    assert_eq!(b.run(c, "ACL GENPASS").len(), 64);
    assert_eq!(b.run(c, "ACL GENPASS 5"), "12");
    assert!(b.run(c, "ACL GENPASS 4097").ends_with("a positive number up to 4096"));
    assert!(b.run(c, "ACL SAVE").starts_with("-ERR This Redis instance is not configured to use an ACL file."));
}

#[test]
fn users_of_the_command_line() {
    let mut b = Bench::new(&[("user", "alice on >pw ~a:* (+get ~b) +set"), ("user", "default off")]);
    let c = b.client();
    assert_eq!(b.run(c, "GET b"), "-NOAUTH Authentication required.");
    assert_eq!(b.run(c, "AUTH alice pw"), "OK");
    assert_eq!(b.run(c, "GET b"), "nil");
    assert_eq!(b.run(c, "SET b v"), NO_KEY);
    let mut b = Bench::new(&[("acl-pubsub-default", "allchannels")]);
    let c = b.client();
    b.run(c, "ACL SETUSER u (+get)");
    assert!(b.run(c, "ACL LIST").ends_with("user u off sanitize-payload &* -@all (&* -@all +get)]"));
}

#[test]
fn sessions_by_user() {
    let (mut b, admin, u) = with_user("+@all");
    assert_eq!(b.run(admin, "CLIENT KILL USER none"), "-ERR No such user 'none'");
    assert_eq!(b.run(admin, "CLIENT KILL USER u"), "1");
    assert_eq!(b.server().fate(u), crate::session::Fate::Abort);
}
