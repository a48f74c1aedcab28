//! Files that the command line names. A device or a pipe may give bytes for ever, and a name may be any text.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::screen::{clean, cut};

/// Bytes of a file whose size nothing else bounds.
pub const MOST: u64 = 256 << 20;

/// What the file holds.
///
/// # Errors
/// Why it cannot be read, or that it holds more than `most` bytes.
pub fn read(path: &Path, most: u64) -> Result<Vec<u8>, String> {
    read_from(File::open(path).map_err(|why| why.to_string())?, most)
}

/// What comes until its end.
///
/// # Errors
/// Why it cannot be read, or that more than `most` bytes come.
pub fn read_from(source: impl Read, most: u64) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    source.take(most.saturating_add(1)).read_to_end(&mut bytes).map_err(|why| why.to_string())?;
    if u64::try_from(bytes.len()).is_ok_and(|size| size <= most) {
        Ok(bytes)
    } else {
        Err(format!("it has more than {most} bytes"))
    }
}

/// A file's name as a part of a line.
pub fn named(path: &Path) -> String {
    cut(&clean(&path.display().to_string()), 200)
}

/// What a file or a person says, as a part of a line.
pub fn quoted(text: &str) -> String {
    format!("{:?}", cut(text, 100))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_read_than_was_meant() {
        assert_eq!(read_from(&b"abc"[..], 3), Ok(b"abc".to_vec()));
        assert_eq!(read_from(&b"abcd"[..], 3), Err("it has more than 3 bytes".to_owned()));
        assert_eq!(read(Path::new("/dev/zero"), 4096), Err("it has more than 4096 bytes".to_owned()));
    }

    #[test]
    fn names_and_texts_are_a_part_of_a_line() {
        assert_eq!(named(Path::new("a\nb\u{1b}")), "a\\u{a}b\\u{1b}");
        assert_eq!(quoted(&"\n".repeat(500)).lines().count(), 1);
        assert!(quoted(&"x".repeat(500)).chars().count() < 110);
    }
}
