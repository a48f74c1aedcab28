//! From a host's body to evidence: what it says, in whatever shape it says it (section 3).
//!
//! Nothing is decided here and nothing is dropped for what it discloses; [`super::fault`] weighs the
//! evidence against status and call, [`super::disclose`] lets through what may leave.

mod data;
mod envelope;
mod framework;
mod json_rpc;
mod problem;
mod rpc_status;

pub use data::{Violation, openwop_forbids};
pub use rpc_status::own_error;

use crate::protocol::a2a::A2aError;
use crate::protocol::json_rpc::RpcError;
use crate::protocol::openwop::CodeKind;
use crate::protocol::tree::{Node, Text};

/// The shape of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Shape {
    /// No body at all.
    Empty,
    /// Not JSON, or JSON that says nothing the protocols know: text, HTML, a framework's own.
    #[default]
    Other,
    /// A JSON-RPC response with a `result` and no error: a success (I-4).
    Result,
    /// A JSON-RPC response with an error, `jsonrpc` present or not (F-6).
    RpcError,
    /// The members of a JSON-RPC error without one around them.
    FlatError,
    /// `{"error": google.rpc.Status}`.
    RpcStatus,
    /// An OpenWOP envelope (F-4).
    Envelope,
}

/// What a `code` member says (F-3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CodeSpelling {
    #[default]
    Absent,
    Integer(i64),
    Unreadable,
}

/// An envelope's code.
#[derive(Debug, Clone)]
pub struct EnvelopeCode {
    pub code: Text,
    pub kind: CodeKind,
}

/// Everything a body says that a rule may ask for.
#[derive(Debug, Clone, Default)]
pub struct Evidence {
    pub shape: Shape,
    /// There is a `jsonrpc` member: beyond doubt a JSON-RPC body.
    pub has_jsonrpc: bool,
    pub code: CodeSpelling,
    /// The HTTP status a Status body names inside.
    pub inner_status: Option<u16>,
    /// An explicit A2A reason (F-2).
    pub a2a: Option<A2aError>,
    /// A reason of the HTTP+JSON binding that stands for a JSON-RPC error (E-4).
    pub rpc_reason: Option<RpcError>,
    /// A reason that says "forbidden" (O-3).
    pub says_forbidden: bool,
    /// The reason of an ErrorInfo with OpenWOP's domain.
    pub openwop_reason: Option<Text>,
    pub envelope: Option<EnvelopeCode>,
    pub message: Option<Text>,
    /// Versions the host says it offers (E-7).
    pub versions: Vec<Text>,
    /// They came as `supportedVersions` (F-7).
    pub has_supported_versions: bool,
    /// Candidates for ErrorInfo metadata, in order (E-6, D-2); `None` where the value cannot be one.
    pub metadata: Vec<(Text, Option<Text>)>,
    /// Field violations of untyped lists (E-5).
    pub violations: Vec<Violation>,
    /// Typed details but ErrorInfo, in order, `@type` in full (E-5).
    pub details: Vec<(Text, Node)>,
    /// An object of the known closed profile that validates (E-8).
    pub profile: Option<Node>,
    /// Parsers disagree about what the body says: members are doubled, there is a result beside the
    /// error, an array stands where one answer should (F-6).
    pub contested: bool,
    /// The data is not a list of typed details (E-5).
    pub untyped_data: bool,
    /// An object of the closed profile that does not validate (E-8).
    pub broken_profile: bool,
    /// Members, elements and values that have no place in an answer.
    pub left_out: u32,
}

/// Reads a body. `root` is `None` if it is not one JSON document.
#[must_use]
pub fn decode(root: Option<&Node>, is_empty: bool) -> Evidence {
    let mut evidence = Evidence::default();
    if is_empty {
        evidence.shape = Shape::Empty;
        return evidence;
    }
    let Some(root) = root else { return evidence };
    evidence.contested = matches!(root, Node::Array(_));
    evidence.has_jsonrpc = root.members().iter().any(|(name, _)| &**name == "jsonrpc");
    if !(envelope::read(root, &mut evidence)
        || json_rpc::read(root, &mut evidence)
        || rpc_status::read(root, &mut evidence)
        || json_rpc::read_flat(root, &mut evidence))
    {
        problem::read(root, &mut evidence);
        framework::read(root, &mut evidence);
    }
    evidence
}
