//! The incremental scanner, and the tree built on it, against serde on whole documents, at every split.

use super::hold;
use crate::rules_support::{Split, reading};

/// Documents up to this length are cut at every position.
const EVERY_SPLIT: usize = 96;

/// The input is one document.
pub fn check(text: &[u8]) {
    hold(reading::scanner_agrees(text));
    hold(reading::tree_agrees(text));
    for every in [1, 2, 3, 7, 25] {
        hold(reading::scans_the_same(text, &Split::Every(every).pieces(text)));
    }
    let step = text.len().div_ceil(EVERY_SPLIT).max(1);
    for at in (1..text.len()).step_by(step) {
        hold(reading::scans_the_same(text, &[&text[..at], &text[at..]]));
    }
}
