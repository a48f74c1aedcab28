//! The table of checks. Each is one small function; those that look at every answer come last.

mod answers;
mod operations;
mod requests;
mod tasks;

use futures::future::BoxFuture;

use super::session::Session;

/// What a check saw, or why it did not pass.
pub type Ruling = Result<String, Miss>;

/// Why a check does not pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Miss {
    Fails(String),
    NotApplicable(String),
    /// The host says that now is not the time.
    Undecided(String),
    /// `--max-requests` was used up.
    NotRun(String),
}

/// One thing that is looked at.
pub struct Check {
    pub id: &'static str,
    /// What it tests, in one line.
    pub tests: &'static str,
    /// The section that asks for it.
    pub source: &'static str,
    pub(super) run: for<'a> fn(&'a Session<'_>) -> BoxFuture<'a, Ruling>,
}

impl Check {
    /// Whether it takes many times the requests of any other.
    pub(super) fn is_costly(&self) -> bool {
        self.id == "foreign-time"
    }
}

impl std::fmt::Debug for Check {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.id)
    }
}

macro_rules! checks {
    ($($id:literal, $room:ident :: $name:ident, $tests:literal, $source:literal;)*) => {
        /// Every check, in the order they run, but for those that cost much: they come last.
        pub static CHECKS: &[Check] = &[$(Check {
            id: $id,
            tests: $tests,
            source: $source,
            run: |session| Box::pin($room::$name(session)),
        }),*];
    };
}

checks! {
    "unknown-task", tasks::unknown, "GetTask of a task that does not exist is TASK_NOT_FOUND, with one ErrorInfo", "RFC 0211 §A, §B";
    "unknown-cancel", tasks::unknown_cancel, "so is CancelTask", "RFC 0211 §A, §B";
    "foreign-task", tasks::foreign, "a task of somebody else's is answered like one that does not exist, byte by byte", "RFC 0211 §D";
    "foreign-time", tasks::foreign_time, "and takes as long", "RFC 0211 §D, O-4";
    "cancel-finished", tasks::cancel_finished, "CancelTask of a finished task is TASK_NOT_CANCELABLE", "RFC 0211 §A, §B";
    "malformed-json", requests::malformed, "malformed JSON is answered in the binding's shape", "RFC 0211 §C";
    "non-object-json", requests::non_object, "so is JSON that is no object", "RFC 0211 §C";
    "unknown-method", requests::unknown_method, "so is a method that does not exist", "RFC 0211 §C";
    "invalid-params", requests::invalid_params, "so are invalid parameters, without an A2A reason", "RFC 0211 §A";
    "wrong-content-type", requests::wrong_content_type, "so is a request under another Content-Type", "RFC 0211 §C";
    "oversized-body", requests::oversized, "so is a body that is too large", "RFC 0211 §C";
    "no-credential", requests::no_credential, "so is a request without a credential", "RFC 0211 §C";
    "bad-version", requests::bad_version, "A2A-Version 99.0 is VERSION_NOT_SUPPORTED", "RFC 0211 §E";
    "supported-versions", requests::supported_versions, "its supportedVersions is text, and lists no more than the card", "RFC 0211 §E";
    "push-operations", operations::push, "push operations fail as A2A errors", "RFC 0211 §A, §B";
    "extended-card", operations::extended_card, "so does an extended card that is not there", "RFC 0211 §A, §B";
    "stream-error", operations::stream_error, "a stream that cannot begin says so as an A2A error", "RFC 0211 §A, §B; S-3";
    "id-echo", operations::id_echo, "an answer has the request's id, whatever its type and size", "JSON-RPC 2.0 §5";
    "twins", operations::twins, "both bindings give the same reasons", "RFC 0211 §A, §B";
    "no-envelope", answers::no_envelope, "no answer is an {error, message} body", "RFC 0211 §C";
    "content-type", answers::content_type, "every error says once that it is JSON, in UTF-8", "E-1, E-4";
    "http-status", answers::http_status, "every error has the binding's HTTP status", "E-2, E-4";
    "details", answers::details, "every detail is typed, and of a type that tells nothing", "RFC 0211 §A, E-5";
    "members", answers::members, "every error has the members of its shape, and no others", "E-1, E-4";
    "metadata", answers::metadata, "metadata maps strings to strings, and names nobody and no other task", "E-6, D-2";
    "messages", answers::messages, "no message gives paths, addresses, ids or stacks away", "D-1";
    "headers", answers::headers, "\"not found\" has no header that tells the task exists", "O-1, D-3";
}
