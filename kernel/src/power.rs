//! Leaving the machine.

/// How the run ended, as the outside sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitStatus {
    /// An orderly power-off. QEMU exits with 0.
    Success,
    /// A failure: a panic or a fatal error. Where the machine has a way to pass a status on (isa-debug-exit,
    /// semihosting), QEMU exits with a non-zero status; otherwise the machine powers off like with success and the
    /// console's last line `exit status N` tells the difference.
    Failure(u8),
}

impl ExitStatus {
    /// The number on the console: 0 is success.
    pub const fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Failure(0) => 1,
            Self::Failure(code) => code,
        }
    }
}

/// Powers the machine off. Nothing is flushed: whatever must survive was written before.
#[cfg(target_os = "none")]
pub fn exit(status: ExitStatus) -> ! {
    if status != ExitStatus::Success {
        crate::console::emergency(format_args!("exit status {}\n", status.code()));
    }
    crate::arch::power::exit(status)
}

/// Resets the machine.
#[cfg(target_os = "none")]
pub fn reset() -> ! {
    crate::arch::power::reset()
}
