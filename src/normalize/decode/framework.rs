//! What web frameworks answer on their own: such a body gives field violations at most (F-5).

use super::Evidence;
use super::data::{read_details_only, read_violations};
use crate::protocol::tree::Node;

pub fn read(root: &Node, evidence: &mut Evidence) {
    for name in ["detail", "errors"] {
        if let Some(list) = root.get(name) {
            read_violations(list, evidence);
        }
    }
    // A Status without its envelope, as gRPC gateways write it: its ErrorInfo is an explicit reason.
    if let Some(details) = root.get("details") {
        read_details_only(details, evidence);
    }
    evidence.left_out += u32::try_from(root.members().len()).unwrap_or(u32::MAX);
}
