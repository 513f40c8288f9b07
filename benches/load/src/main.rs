//! The program: reads its command line, runs, prints. `barium-load --help` says what it takes.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use barium_load::options::{Asked, Options, USAGE, parse};
use barium_load::report::Report;
use barium_load::run::Load;

fn run(options: &Options) -> std::io::Result<Report> {
    let mut load = Load::new(options)?;
    let clients = load.connect(options.clients)?;
    if options.fill && clients.made > 0 {
        let filled = load.fill()?;
        if filled.failed(false) {
            let reason = filled.first_error.unwrap_or_else(|| "connections lost".into());
            return Err(std::io::Error::other(format!("filling the keys failed: {reason}")));
        }
    }
    let idle = load.connect(options.idle)?;
    if !options.warmup.is_zero() {
        load.measure(Some(options.warmup), None)?;
    }
    let run = load.measure(options.time, options.requests)?;
    let idle_lost = load.idle_lost();
    Ok(Report { clients, idle, idle_lost, run })
}

fn main() -> ExitCode {
    let options = match parse(std::env::args_os().skip(1)) {
        Ok(Asked::Run(options)) => options,
        Ok(Asked::Help) => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        Err(problem) => {
            eprintln!("barium-load: {problem}");
            return ExitCode::from(2);
        }
    };
    match run(&options) {
        Ok(report) => {
            if !options.json_only {
                eprintln!("{}", report.line(&options));
            }
            println!("{}", report.json(&options));
            let complete = report.clients.complete() && report.idle.complete() && report.idle_lost == 0;
            ExitCode::from(u8::from(!complete || report.run.failed(!options.fill)))
        }
        Err(error) => {
            eprintln!("barium-load: {error}");
            ExitCode::from(2)
        }
    }
}
