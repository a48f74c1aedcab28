//! JSON-RPC 2.0: codes and the request's id.

/// The codes the JSON-RPC specification defines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RpcError {
    Parse,
    InvalidRequest,
    MethodNotFound,
    InvalidParams,
    Internal,
}

impl RpcError {
    pub const ALL: [Self; 5] =
        [Self::Parse, Self::InvalidRequest, Self::MethodNotFound, Self::InvalidParams, Self::Internal];

    #[must_use]
    pub fn code(self) -> i64 {
        match self {
            Self::Parse => -32700,
            Self::InvalidRequest => -32600,
            Self::MethodNotFound => -32601,
            Self::InvalidParams => -32602,
            Self::Internal => -32603,
        }
    }

    #[must_use]
    pub fn from_code(code: i64) -> Option<Self> {
        Self::ALL.into_iter().find(|e| e.code() == code)
    }

    /// The name A2A gives it (A2A §9.5).
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Parse => "JSONParseError",
            Self::InvalidRequest => "InvalidRequestError",
            Self::MethodNotFound => "MethodNotFoundError",
            Self::InvalidParams => "InvalidParamsError",
            Self::Internal => "InternalError",
        }
    }

    /// The canonical text (D-1).
    #[must_use]
    pub fn message(self) -> &'static str {
        match self {
            Self::Parse => "Invalid JSON payload",
            Self::InvalidRequest => "Request payload validation error",
            Self::MethodNotFound => "Method not found",
            Self::InvalidParams => "Invalid parameters",
            Self::Internal => "Internal error",
        }
    }

    /// The ErrorInfo reason the HTTP+JSON binding uses (E-4).
    #[must_use]
    pub fn http_reason(self) -> &'static str {
        match self {
            Self::Parse | Self::InvalidRequest => "INVALID_REQUEST",
            Self::MethodNotFound => "METHOD_NOT_FOUND",
            Self::InvalidParams => "INVALID_PARAMS",
            Self::Internal => "INTERNAL_ERROR",
        }
    }

    /// The HTTP status of the HTTP+JSON binding (E-4).
    #[must_use]
    pub fn http_status(self) -> u16 {
        match self {
            Self::Parse | Self::InvalidRequest | Self::InvalidParams => 400,
            Self::MethodNotFound => 404,
            Self::Internal => 500,
        }
    }
}

/// Canonical text of -32000 when no refusal is meant (D-1).
pub const SERVER_ERROR: &str = "Server error";
/// Canonical text of a code nobody registered (D-1).
pub const UNKNOWN_CODE: &str = "The agent returned an error";

/// What a `code` member says, in any integral spelling (F-3): `-32001`, `-32001.0`, `-3.2001e4`.
/// `None` if it is no integer that fits 64 bits.
#[must_use]
pub fn integral(spelling: &str) -> Option<i64> {
    // Nearly all are spelled plainly.
    if !spelling.starts_with('+')
        && let Ok(plain) = spelling.parse()
    {
        return Some(plain);
    }
    let (negative, rest) = match spelling.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, spelling),
    };
    let (mantissa, exponent) = match rest.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (rest, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if whole.is_empty() || !whole.bytes().chain(fraction.bytes()).all(|b| b.is_ascii_digit()) {
        return None;
    }
    let fraction = fraction.trim_end_matches('0');
    let digits = [whole, fraction].concat();
    let digits = digits.trim_start_matches('0');
    if digits.is_empty() {
        return Some(0);
    }
    // Zeros that the exponent appends; digits that it leaves behind the point make it no integer.
    let shift = exponent.checked_sub(i32::try_from(fraction.len()).ok()?)?;
    let digits = if shift >= 0 {
        let zeros = usize::try_from(shift).ok().filter(|z| *z <= 20)?;
        format!("{digits}{}", "0".repeat(zeros))
    } else {
        let cut = digits.len().checked_sub(usize::try_from(shift.checked_neg()?).ok()?)?;
        let (kept, left) = digits.split_at_checked(cut)?;
        if kept.is_empty() || left.bytes().any(|b| b != b'0') {
            return None;
        }
        kept.to_owned()
    };
    let value: i128 = digits.parse().ok()?;
    i64::try_from(if negative { -value } else { value }).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f3_integral_spellings_fold() {
        for (spelling, want) in [
            ("-32001", Some(-32001)),
            ("-32001.0", Some(-32001)),
            ("-32001.000", Some(-32001)),
            ("-3.2001e4", Some(-32001)),
            ("-3.2001E+4", Some(-32001)),
            ("-320010e-1", Some(-32001)),
            ("-32001e0", Some(-32001)),
            ("-0", Some(0)),
            ("0e99999", Some(0)),
            ("0.0", Some(0)),
            ("503", Some(503)),
            ("9223372036854775807", Some(i64::MAX)),
            ("9223372036854775808", None),
            ("-32002.5", None),
            ("-320015e-1", None),
            ("1e-1", None),
            ("1e400", None),
            ("1e99999999999", None),
            ("", None),
            ("-", None),
            ("NaN", None),
            ("0x10", None),
            (" 1", None),
            ("1 ", None),
        ] {
            assert_eq!(integral(spelling), want, "{spelling}");
        }
    }

    #[test]
    fn the_table_is_the_facts() {
        let facts: serde_json::Value =
            serde_json::from_str(include_str!("../../tests/facts/a2a-errors.json")).unwrap();
        let rows = facts["jsonrpc"].as_array().unwrap();
        assert_eq!(rows.len(), RpcError::ALL.len());
        for row in rows {
            let error = RpcError::from_code(row["code"].as_i64().unwrap()).unwrap();
            assert_eq!(row["message"], error.message());
            assert_eq!(row["name"], error.name());
            assert_eq!(row["http_json_reason"], error.http_reason());
            assert_eq!(row["http_json_status"].as_u64().unwrap(), u64::from(error.http_status()));
        }
        assert_eq!(facts["canonical_unknown_code_message"], UNKNOWN_CODE);
        assert_eq!(facts["canonical_other"]["-32000"], SERVER_ERROR);
    }
}
