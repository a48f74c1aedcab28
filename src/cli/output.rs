//! Standard output, where the result of a command goes: a result that nobody got is none.

use std::io::{self, Write as _};
use std::process::ExitCode;

use super::{REFUSED, say};

/// Writes all of a command's output, which then ends with `done`; with 2, if that cannot be written: 1 is a verdict of
/// many commands.
pub fn print(text: &[u8], done: ExitCode) -> ExitCode {
    match write(text) {
        Ok(()) => done,
        Err(why) => {
            say(&format!("a2a-errata: {why}"));
            ExitCode::from(REFUSED)
        }
    }
}

/// Writes a part of the output.
///
/// # Errors
/// In one line, why it cannot be written.
pub fn write(text: &[u8]) -> Result<(), String> {
    let mut out = io::stdout().lock();
    told(out.write_all(text).and_then(|()| out.flush()))
}

/// A reader that went away (`| head`) has what it wanted.
pub fn told(result: io::Result<()>) -> Result<(), String> {
    match result {
        Err(why) if why.kind() != io::ErrorKind::BrokenPipe => {
            Err(format!("cannot write to standard output: {why}"))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}
