//! The console and the log.
//!
//! Two kinds of lines go to it: log records, up to the level that `log=` names, and [`announce!`](crate::announce) lines,
//! which tell the user what came up and which `log=off` alone silences. Panics and exit statuses are always shown.

use crate::{arch, cmdline};
use core::fmt::{self, Write};
use core::sync::atomic::{AtomicBool, Ordering};
use log::LevelFilter;
use spin::Mutex;

static SILENT: AtomicBool = AtomicBool::new(false);
static LOCK: Mutex<()> = Mutex::new(());

/// The names that `log=` takes, in rising order of talkativeness.
pub const LEVELS: &str = "off, error, warn, info, debug, trace";

/// Writes to the UART with CR before each LF.
struct Uart;

impl Write for Uart {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for piece in text.split_inclusive('\n') {
            match piece.strip_suffix('\n') {
                Some(line) => {
                    arch::console::write(line.as_bytes());
                    arch::console::write(b"\r\n");
                }
                None => arch::console::write(piece.as_bytes()),
            }
        }
        Ok(())
    }
}

/// Writes formatted text; lines of several CPUs do not mix.
pub fn print(text: fmt::Arguments<'_>) {
    let _line = LOCK.lock();
    // The UART's write cannot fail.
    let _ = Uart.write_fmt(text);
}

/// Writes although another CPU, or this one, may be in the middle of a line: for panics.
pub fn emergency(text: fmt::Arguments<'_>) {
    let _ = Uart.write_fmt(text);
}

/// Writes a line that every user should see, unless `log=off`.
pub fn announce(text: fmt::Arguments<'_>) {
    if !SILENT.load(Ordering::Relaxed) {
        print(format_args!("{text}\n"));
    }
}

/// Writes a formatted line that every user should see, unless `log=off`.
#[macro_export]
macro_rules! announce {
    ($($arg:tt)*) => { $crate::console::announce(format_args!($($arg)*)) };
}

struct Logger;

impl log::Log for Logger {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        metadata.level() <= log::max_level()
    }

    fn log(&self, record: &log::Record<'_>) {
        if self.enabled(record.metadata()) {
            let us = arch::time::now_ns() / 1000;
            print(format_args!(
                "[{:5}.{:06} {:5} {}] {}\n",
                us / 1_000_000,
                us % 1_000_000,
                record.level(),
                record.target(),
                record.args()
            ));
        }
    }

    fn flush(&self) {}
}

/// Sets up the log by the command line's `log=`; the default is `warn`. An unknown level is said and the default kept.
pub(crate) fn init(line: &str) {
    let value = cmdline::get(line, "log").unwrap_or("warn");
    let level: Option<LevelFilter> = value.parse().ok();
    SILENT.store(level == Some(LevelFilter::Off), Ordering::Relaxed);
    // Only fails when called twice.
    let _ = log::set_logger(&Logger);
    log::set_max_level(level.unwrap_or(LevelFilter::Warn));
    if level.is_none() {
        print(format_args!("log={value}: not a log level; the levels are {}\n", LEVELS));
    }
}
