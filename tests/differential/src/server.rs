//! The two servers, as child processes on free ports.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, io, thread};

use crate::differences::Reference;
use crate::wire::Connection;

/// A server of this test's own; ended when dropped.
pub struct Server {
    child: Child,
    /// Where it listens, on 127.0.0.1.
    pub port: u16,
}

impl Server {
    /// Barium's host server, by default the release build.
    pub fn barium() -> io::Result<Server> {
        Server::start(&program("BARIUM_HOST", "target/release/barium-host"), &[])
    }

    /// A reference, without persistence. `None` for Valkey where it is not there.
    pub fn reference(reference: Reference) -> io::Result<Option<Server>> {
        let program = match reference {
            Reference::Redis => program("REDIS_SERVER", "build/redis-server"),
            Reference::Valkey => program("VALKEY_SERVER", "build/valkey/usr/bin/valkey-server"),
        };
        if reference == Reference::Valkey && !program.exists() {
            return Ok(None);
        }
        // It looks at its blocked clients' timeouts `hz` times a second.
        let options = ["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", "/tmp", "--hz", "500"];
        Server::start(&program, &options).map(Some)
    }

    /// Starts a program on a free port. Somebody else may take the port first: another one is tried then.
    fn start(program: &Path, options: &[&str]) -> io::Result<Server> {
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        for _ in 0..5 {
            let port = free_port()?;
            let mut command = Command::new(program);
            command.args(["--port", &port.to_string(), "--enable-debug-command", "yes"]).args(options);
            match Server::wait_for(command, port) {
                Ok(server) => return Ok(server),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn wait_for(mut command: Command, port: u16) -> io::Result<Server> {
        let log_path = env::temp_dir().join(format!("barium-differential-{port}.log"));
        let log = fs::File::create(&log_path)?;
        let child = command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn()?;
        let mut server = Server { child, port };
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            if let Some(status) = server.child.try_wait()? {
                return Err(io::Error::other(format!("{command:?} ended: {status}")));
            }
            // Whoever answers has to be the child, not another run's server: it says so in its log once it listens.
            if [format!("ready: redis-cli -p {port}\n"), "eady to accept connections".into()]
                .iter()
                .any(|line| fs::read_to_string(&log_path).is_ok_and(|log| log.contains(line)))
            {
                let mut connection = Connection::open(port)?;
                // Keys go when commands touch them, so that both servers let them go at the same command.
                connection.ask("DEBUG SET-ACTIVE-EXPIRE 0")?;
                return Ok(server);
            }
            if Instant::now() > deadline {
                return Err(io::Error::other(format!("{command:?} does not answer")));
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself: its last words are of interest then. Either way nothing is left of it.
        let log = env::temp_dir().join(format!("barium-differential-{}.log", self.port));
        if let Ok(Some(status)) = self.child.try_wait() {
            let text = fs::read_to_string(&log).unwrap_or_default();
            let from = text.len().saturating_sub(4000);
            eprintln!("the server on port {} ended: {status}\n{}", self.port, text.get(from..).unwrap_or(&text));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_file(log);
    }
}

fn program(variable: &str, default: &str) -> PathBuf {
    env::var_os(variable).map_or_else(|| from_root(default), PathBuf::from)
}

fn from_root(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}
