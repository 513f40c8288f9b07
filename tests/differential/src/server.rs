//! The two servers, as child processes on free ports.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, io, thread};

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
        let program = env::var_os("BARIUM_HOST").map_or_else(|| from_root("target/release/barium-host"), PathBuf::from);
        let port = free_port()?;
        let mut command = Command::new(program);
        command.args(["--port", &port.to_string(), "--enable-debug-command", "yes"]);
        Server::start(command, port)
    }

    /// The reference, without persistence.
    pub fn reference() -> io::Result<Server> {
        let program = env::var_os("REDIS_SERVER").map_or_else(|| from_root("build/redis-server"), PathBuf::from);
        let port = free_port()?;
        let mut command = Command::new(program);
        command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
        // It looks at its blocked clients' timeouts `hz` times a second.
        command.args(["--enable-debug-command", "yes", "--dir", "/tmp", "--hz", "500"]);
        Server::start(command, port)
    }

    fn start(mut command: Command, port: u16) -> io::Result<Server> {
        let log = fs::File::create(env::temp_dir().join(format!("barium-differential-{port}.log")))?;
        let child = command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn()?;
        let mut server = Server { child, port };
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            if let Ok(mut connection) = Connection::open(port)
                && connection.ask("PING").is_ok_and(|reply| reply.text() == b"PONG")
            {
                return Ok(server);
            }
            if let Some(status) = server.child.try_wait()? {
                return Err(io::Error::other(format!("{command:?} ended: {status}")));
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
        // The process may have ended by itself; either way nothing is left of it.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_file(env::temp_dir().join(format!("barium-differential-{}.log", self.port)));
    }
}

fn from_root(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}
