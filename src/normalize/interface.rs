//! One URL of a host with one binding, and what a request to it is bound by (I-1 to I-3).

/// How an interface speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Binding {
    JsonRpc,
    HttpJson,
}

impl Binding {
    /// The name agent cards use.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::JsonRpc => "JSONRPC",
            Self::HttpJson => "HTTP+JSON",
        }
    }
}

/// One URL of a host with one binding and the protocol versions offered there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// Absolute path without a trailing slash (`/a2a`; the root is empty).
    pub path: String,
    pub binding: Binding,
    /// In the order of the card or the configuration (`["1.0", "0.3"]`).
    pub versions: Vec<String>,
}

/// What a request is addressed to, as far as the head tells.
#[derive(Debug, Clone)]
pub enum Target {
    /// A known interface.
    Interface(std::sync::Arc<Interface>),
    /// Not the URL of an interface but one that many hosts route to it (another case, doubled slashes,
    /// needless encoding): it is one if the body is an A2A call, or the route names a task or sends a
    /// message, so that no spelling of a URL is a way around the rules.
    Likely(std::sync::Arc<Interface>),
    /// No interface of the host is known yet: it is one if the body is an A2A call (I-1).
    Unknown,
}
