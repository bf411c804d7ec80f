//! Log lines on standard error, and the end of the process when a thread panics.

use std::io::Write;

use tracing_subscriber::EnvFilter;

use crate::cli::{Exit, LogFormat};

/// Sets logging up; `RUST_LOG` chooses what is shown, `info` by default.
pub fn init(format: LogFormat) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        // It would be reported on standard error, which panics if nobody reads that any more.
        .log_internal_errors(false)
        .with_thread_names(true);
    match format {
        LogFormat::Text => builder.with_target(false).with_ansi(false).init(),
        LogFormat::Json => builder.json().init(),
    }
}

/// A server with a dead thread is worse than a dead server: any panic ends the process.
pub fn exit_on_panic() {
    std::panic::set_hook(Box::new(|info| {
        let thread = std::thread::current();
        let backtrace = std::backtrace::Backtrace::force_capture();
        // Straight to standard error: the logger may be what panicked. Nothing is left to do if that fails.
        let _ = writeln!(
            std::io::stderr(),
            "PANIC in thread {:?}: {info}\n{backtrace}",
            thread.name().unwrap_or("?")
        );
        std::process::exit(i32::from(Exit::Panic.code()));
    }));
}
