//! RFC 9457 problem documents: a `type` that ends in `/errors/<kebab-name>` names an A2A error (F-2).

use super::Evidence;
use crate::protocol::a2a::A2aError;
use crate::protocol::tree::Node;

pub fn read(root: &Node, evidence: &mut Evidence) {
    let Some(uri) = root.get("type").and_then(Node::as_str) else { return };
    let Some((before, name)) = uri.rsplit_once('/') else { return };
    if before == "errors" || before.ends_with("/errors") {
        evidence.a2a = evidence.a2a.or_else(|| A2aError::from_reason(name));
    }
}
