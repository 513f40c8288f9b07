//! Load for a server that speaks Redis's protocol: closed loop or by the clock, with connections that only stay, and with
//! every value checked. `docs/decisions/load-generator.md` says why there is one of the project's own.
#![forbid(unsafe_code)]

pub mod arrivals;
pub mod options;
pub mod replies;
pub mod report;
pub mod run;
pub mod values;
