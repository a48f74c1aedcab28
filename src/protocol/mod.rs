//! What the wire formats are; no decisions.
