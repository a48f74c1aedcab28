//! What the first bytes of an answer tell: whether a `result` comes first, and, should the body be too
//! long to hold, which error code was met (F-9, C-3).

use super::decode::{CodeSpelling, EnvelopeCode, Evidence, Shape};
use crate::protocol::json_rpc::integral;
use crate::protocol::openwop;
use crate::protocol::scan::{Kind, Visitor};
use crate::protocol::tree::decode_string;

/// Longest token kept: an error code, or an envelope's.
const TOKEN_MAX: usize = 192;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Member {
    #[default]
    None,
    Result,
    Error,
    ErrorCode,
}

/// Watches the members of an answer go by.
#[derive(Debug, Default)]
pub struct Watch {
    member: Member,
    reading: Member,
    in_error: bool,
    results: u32,
    errors: u32,
    /// A `result` that is not null has begun.
    result_begun: bool,
    /// A non-null `error` has begun.
    error_begun: bool,
    /// A non-null `result` began before anything contradicted it.
    result_first: bool,
    /// A non-null `error` had begun when the boundary was reached up to which a body is judged whole, or was what
    /// began first behind it.
    error_first: bool,
    /// A member or element of the document has begun.
    begun: bool,
    /// None had at the boundary, and none has since.
    open: bool,
    has_jsonrpc: bool,
    error_kind: Option<Kind>,
    code_kind: Option<Kind>,
    token: Vec<u8>,
}

impl Watch {
    /// The document is a success as I-4 defines it, provided it is complete and well-formed.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.results == 1 && self.errors <= 1 && !self.error_begun
    }

    /// A non-null `result` has begun and nothing before it says otherwise.
    #[must_use]
    pub fn flows(&self) -> bool {
        self.result_first
    }

    /// The boundary is reached up to which a body is judged whole: what was met so far may contradict the `result`
    /// that began, and what is met from here on is no error before it (F-9). But blanks say nothing: behind them the
    /// first member tells.
    pub fn settle(&mut self) {
        self.result_first = self.result_begun && self.is_success();
        self.error_first = self.error_begun;
        self.open = !self.begun;
    }

    /// A non-null `error` has been met.
    #[must_use]
    pub fn has_error(&self) -> bool {
        self.error_begun
    }

    /// Something was met, and no non-null `error` up to the boundary or first behind it.
    #[must_use]
    pub fn begins_without_error(&self) -> bool {
        !self.open && !self.error_first
    }

    /// A member of JSON-RPC's has been met.
    #[must_use]
    pub fn is_json_rpc(&self) -> bool {
        self.has_jsonrpc
    }

    /// What a body that was not read to its end says (C-3).
    #[must_use]
    pub fn evidence(&self) -> Evidence {
        let mut evidence = Evidence { has_jsonrpc: self.has_jsonrpc, ..Evidence::default() };
        match (self.error_kind, self.code_kind) {
            (Some(Kind::Object), Some(kind)) => {
                evidence.shape = Shape::RpcError;
                let text = match kind {
                    Kind::String => decode_string(&self.token).0,
                    _ => String::from_utf8_lossy(&self.token),
                };
                evidence.code = integral(&text).map_or(CodeSpelling::Unreadable, CodeSpelling::Integer);
            }
            (Some(Kind::String), _) if !self.has_jsonrpc => {
                let code = decode_string(&self.token).0;
                if let Some(kind) = openwop::classify(&code) {
                    evidence.shape = Shape::Envelope;
                    evidence.envelope = Some(EnvelopeCode { code: (&*code).into(), kind });
                }
            }
            _ => {}
        }
        evidence
    }
}

impl Visitor for Watch {
    fn name(&mut self, depth: usize, name: Option<&[u8]>) {
        self.member = Member::None;
        match (depth, name.unwrap_or_default()) {
            (1, name) => {
                self.in_error = false;
                match name {
                    b"result" => self.member = Member::Result,
                    b"error" => self.member = Member::Error,
                    b"jsonrpc" => self.has_jsonrpc = true,
                    _ => {}
                }
            }
            (2, b"code") if self.in_error => self.member = Member::ErrorCode,
            _ => {}
        }
    }

    fn begin(&mut self, depth: usize, kind: Kind) -> bool {
        let member = std::mem::replace(&mut self.member, Member::None);
        self.reading = Member::None;
        if !self.begun && (depth > 0 || !matches!(kind, Kind::Object | Kind::Array)) {
            self.begun = true;
            if std::mem::take(&mut self.open) {
                self.error_first = member == Member::Error && kind != Kind::Null;
            }
        }
        match member {
            Member::Result if depth == 1 => {
                self.results = self.results.saturating_add(1);
                if kind != Kind::Null {
                    self.result_begun = true;
                    // Once told it stays: what follows may come in the same piece or in the next (F-9).
                    self.result_first |= self.is_success();
                }
                false
            }
            Member::Error if depth == 1 => {
                self.errors = self.errors.saturating_add(1);
                if kind == Kind::Null {
                    return false;
                }
                self.error_begun = true;
                self.error_kind = Some(kind);
                self.in_error = kind == Kind::Object;
                self.code_kind = None;
                self.token.clear();
                self.reading = Member::Error;
                kind == Kind::String
            }
            Member::ErrorCode => {
                self.code_kind = None;
                self.token.clear();
                self.reading = Member::ErrorCode;
                matches!(kind, Kind::String | Kind::Number)
            }
            _ => false,
        }
    }

    fn raw(&mut self, bytes: &[u8]) {
        if self.token.len() + bytes.len() <= TOKEN_MAX {
            self.token.extend_from_slice(bytes);
        } else {
            self.reading = Member::None; // too long for any code
            self.token.clear();
        }
    }

    fn end(&mut self, _depth: usize, kind: Kind) {
        // A code counts once it is complete: its first digits are another number.
        if self.reading == Member::ErrorCode && matches!(kind, Kind::String | Kind::Number) {
            self.code_kind = Some(kind);
        }
        self.reading = Member::None;
    }
}
