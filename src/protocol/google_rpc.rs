//! google.rpc: status words and the typed details an A2A error may carry.

/// What every `@type` begins with.
pub const TYPE_PREFIX: &str = "type.googleapis.com/";
/// `@type` of the detail that names an error.
pub const ERROR_INFO: &str = "type.googleapis.com/google.rpc.ErrorInfo";
pub const BAD_REQUEST: &str = "type.googleapis.com/google.rpc.BadRequest";
pub const RETRY_INFO: &str = "type.googleapis.com/google.rpc.RetryInfo";
pub const PRECONDITION_FAILURE: &str = "type.googleapis.com/google.rpc.PreconditionFailure";
pub const QUOTA_FAILURE: &str = "type.googleapis.com/google.rpc.QuotaFailure";
pub const LOCALIZED_MESSAGE: &str = "type.googleapis.com/google.rpc.LocalizedMessage";
/// Carries an object of a known closed profile (E-8).
pub const STRUCT: &str = "type.googleapis.com/google.protobuf.Struct";

/// Longest `Duration` the protobuf definition allows, in seconds.
pub const DURATION_MAX_S: u64 = 315_576_000_000;

/// The full `@type` for any spelling of it: bare (`google.rpc.ErrorInfo`), or below another host.
#[must_use]
pub fn full_type(spelling: &str) -> String {
    let name = spelling.rsplit('/').next().unwrap_or(spelling);
    [TYPE_PREFIX, name].concat()
}

/// The status word of an HTTP status that no reason explains (E-4).
#[must_use]
pub fn status_word(http_status: u16) -> &'static str {
    match http_status {
        401 | 407 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 | 405 => "NOT_FOUND",
        429 => "RESOURCE_EXHAUSTED",
        500 => "INTERNAL",
        501 => "UNIMPLEMENTED",
        502 | 503 => "UNAVAILABLE",
        504 => "DEADLINE_EXCEEDED",
        s if s >= 500 => "INTERNAL",
        _ => "INVALID_ARGUMENT",
    }
}

/// The words google.rpc.Code knows.
#[must_use]
pub fn is_status_word(word: &str) -> bool {
    matches!(
        word,
        "OK" | "CANCELLED"
            | "UNKNOWN"
            | "INVALID_ARGUMENT"
            | "DEADLINE_EXCEEDED"
            | "NOT_FOUND"
            | "ALREADY_EXISTS"
            | "PERMISSION_DENIED"
            | "UNAUTHENTICATED"
            | "RESOURCE_EXHAUSTED"
            | "FAILED_PRECONDITION"
            | "ABORTED"
            | "OUT_OF_RANGE"
            | "UNIMPLEMENTED"
            | "INTERNAL"
            | "UNAVAILABLE"
            | "DATA_LOSS"
    )
}
