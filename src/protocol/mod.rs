//! What the wire formats are; no decisions.

pub mod a2a;
pub mod card;
pub mod charset;
pub mod coding;
pub mod google_rpc;
pub mod json_rpc;
pub mod openwop;
pub mod public_url;
pub mod scan;
pub mod sse;
pub mod tree;
pub mod vocabulary;
