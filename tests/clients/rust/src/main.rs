//! What applications do through the redis crate: `barium-client-tests HOST:PORT`. The keyspace is emptied. The first check
//! that fails ends the run with what was wrong.

mod asynchronous;
mod blocking;

use std::error::Error;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// What a test comes to.
type Outcome = Result<(), Box<dyn Error>>;

/// Where the server is.
struct Server {
    address: String,
}

impl Server {
    /// A client that speaks RESP2, as the crate does by default.
    fn client(&self) -> redis::RedisResult<redis::Client> {
        redis::Client::open(format!("redis://{}/", self.address))
    }

    /// A client that speaks RESP3.
    fn client_resp3(&self) -> redis::RedisResult<redis::Client> {
        redis::Client::open(format!("redis://{}/?protocol=resp3", self.address))
    }

    /// A connection.
    fn connect(&self) -> redis::RedisResult<redis::Connection> {
        self.client()?.get_connection()
    }

    /// Waits until a field of INFO is `value`, 10 s at most.
    fn wait_for(&self, field: &str, value: &str) -> Outcome {
        let mut connection = self.connect()?;
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            let info: redis::InfoDict = redis::cmd("INFO").query(&mut connection)?;
            if info.get::<String>(field).as_deref() == Some(value) {
                return Ok(());
            }
            assert!(Instant::now() < deadline, "{field} does not become {value}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn run(server: &Server) -> Result<usize, Box<dyn Error>> {
    let () = redis::cmd("FLUSHALL").query(&mut server.connect()?)?;
    let tests = blocking::TESTS.iter().chain(asynchronous::TESTS);
    let mut passed = 0;
    for (name, test) in tests {
        test(server).map_err(|e| format!("{name}: {e}"))?;
        println!("ok {name}");
        passed += 1;
    }
    Ok(passed)
}

fn main() -> ExitCode {
    let Some(address) = std::env::args().nth(1) else {
        eprintln!("usage: barium-client-tests HOST:PORT");
        return ExitCode::FAILURE;
    };
    match run(&Server { address }) {
        Ok(passed) => {
            println!("{passed} passed, 0 failed");
            ExitCode::SUCCESS
        }
        Err(e) => {
            println!("not ok {e}");
            ExitCode::FAILURE
        }
    }
}
