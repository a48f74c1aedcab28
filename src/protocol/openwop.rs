//! The OpenWOP error envelope and its code registry (F-4). The table equals `tests/facts/openwop-codes.json`,
//! which a test checks.

/// The registered codes with their HTTP status, sorted by code.
pub const REGISTERED: &[(&str, u16)] = &[
    ("audience_mismatch", 401),
    ("capability_not_provided", 422),
    ("capability_required", 422),
    ("client_version_unsupported", 426),
    ("connection_auth_metadata_mismatch", 422),
    ("connection_provider_conflict", 409),
    ("connection_provider_unresolved", 400),
    ("connector_action_unresolved", 400),
    ("connector_auth_declined", 401),
    ("connector_auth_expired", 401),
    ("credential_forbidden", 403),
    ("credential_lifetime_exceeded", 401),
    ("credential_not_found", 404),
    ("credential_required", 422),
    ("credential_revoked", 401),
    ("credential_scope_forbidden", 403),
    ("credential_scope_unsupported", 400),
    ("credential_unavailable", 501),
    ("delegation_chain_cyclic", 400),
    ("delegation_chain_too_long", 400),
    ("delegation_expired", 401),
    ("delegation_scope_amplified", 403),
    ("envelope_correlation_conflict", 409),
    ("envelope_invalid", 422),
    ("envelope_refusal", 422),
    ("envelope_truncation_unrecoverable", 422),
    ("event_type_unmapped", 500),
    ("forbidden", 403),
    ("force_engine_version_forbidden", 403),
    ("fork_point_invalid", 422),
    ("id_tenant_mismatch", 403),
    ("idempotency_in_flight", 409),
    ("idempotency_key_invalid", 400),
    ("idempotency_key_mismatch", 409),
    ("identity_unresolvable", 401),
    ("identity_unverified", 401),
    ("internal_error", 500),
    ("interop_version_unsupported", 400),
    ("interrupt_already_resolved", 409),
    ("interrupt_cancelled", 410),
    ("interrupt_expired", 410),
    ("interrupt_not_found", 404),
    ("interrupt_token_invalid", 401),
    ("key_revoked", 401),
    ("loop_limit_exceeded", 422),
    ("mcp_mrtr_rounds_exceeded", 422),
    ("mock_provider_forbidden", 403),
    ("not_found", 404),
    ("oauth_provider_unsupported", 400),
    ("oauth_scope_unsupported", 400),
    ("pack_dependency_conflict", 409),
    ("pack_dependency_cycle", 400),
    ("pack_engine_unsupported", 400),
    ("pack_integrity_failure", 400),
    ("pack_integrity_mismatch", 409),
    ("pack_kind_invalid", 400),
    ("pack_load_failure", 500),
    ("pack_lockfile_incomplete", 400),
    ("pack_namespace_unauthorized", 403),
    ("pack_peer_dependency_missing", 400),
    ("pack_peer_dependency_undefined", 400),
    ("pack_registry_unreachable", 503),
    ("pack_runtime_requirement_unmet", 422),
    ("pack_signature_invalid", 400),
    ("pack_validation_failed", 400),
    ("pack_version_not_found", 404),
    ("payload_too_large", 413),
    ("payload_unprojectable", 500),
    ("protocol_version_mismatch", 400),
    ("protocol_version_unsupported", 406),
    ("rate_limited", 429),
    ("recursion_limit_exceeded", 422),
    ("replay_context_summary_unavailable", 409),
    ("replay_diverged_at_refusal", 409),
    ("replay_memory_snapshot_unavailable", 409),
    ("replay_source_missing", 404),
    ("residency_unavailable", 422),
    ("run_already_active", 409),
    ("run_forbidden", 403),
    ("run_state_conflict", 409),
    ("run_terminal", 409),
    ("run_timeout", 422),
    ("runner_unavailable", 503),
    ("sandbox_capability_denied", 403),
    ("sandbox_escape_attempt", 403),
    ("sandbox_memory_exceeded", 422),
    ("sandbox_timeout", 422),
    ("schedule_horizon_exceeded", 400),
    ("sender_constraint_missing", 401),
    ("signature_not_available", 404),
    ("sub_chain_cycle", 400),
    ("sub_chain_depth_exceeded", 400),
    ("token_budget_exceeded", 422),
    ("unauthenticated", 401),
    ("unknown_envelope_kind", 422),
    ("unknown_schema_version", 422),
    ("unsupported_media_type", 415),
    ("unsupported_runtime", 400),
    ("unsupported_stream_mode", 400),
    ("until_in_past", 400),
    ("validation_error", 400),
    ("version_conflict", 409),
    ("webhook_endpoint_unverified", 400),
    ("webhook_url_rejected", 400),
    ("workspace_conflict", 409),
    ("workspace_membership_required", 403),
    ("workspace_too_large", 413),
];

/// Codes that hosts are known to send although nobody registered them, with the status they stand for.
pub const UNREGISTERED: &[(&str, u16)] = &[
    ("conflict", 409),
    ("forbidden_scope", 403),
    ("forbidden_tenant", 403),
    ("host_capability_missing", 422),
    ("run_not_found", 404),
    ("service_unavailable", 503),
    ("sign_in_required", 401),
    ("task_not_found", 404),
];

/// The codes that speak of a task the caller cannot read: the first row of the specification's table.
pub const UNREADABLE: &[&str] = &[
    "forbidden_tenant",
    "id_tenant_mismatch",
    "interrupt_not_found",
    "not_found",
    "replay_source_missing",
    "run_forbidden",
    "run_not_found",
    "task_not_found",
    "workspace_membership_required",
];

/// Whether the specification's table makes an A2A error of this code although its status is 400 or 422.
#[must_use]
pub fn names_a2a_error(code: &str) -> bool {
    matches!(
        code,
        "capability_required"
            | "capability_not_provided"
            | "interop_version_unsupported"
            | "protocol_version_mismatch"
    )
}

/// What an envelope's `error` member is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CodeKind {
    /// In the registry, with the HTTP status it stands for.
    Known(u16),
    /// Known from the field, with the status it stands for where the answer's own says nothing.
    Unregistered(u16),
    /// `<vendor>.<code>`: only the answer's own status tells what it stands for.
    Vendor,
}

/// Whether this is a code that makes a body an envelope; case-sensitive.
#[must_use]
pub fn classify(code: &str) -> Option<CodeKind> {
    let find = |table: &[(&str, u16)]| {
        table.binary_search_by(|(c, _)| (*c).cmp(code)).ok().and_then(|i| table.get(i)).map(|(_, s)| *s)
    };
    find(REGISTERED)
        .map(CodeKind::Known)
        .or_else(|| find(UNREGISTERED).map(CodeKind::Unregistered))
        .or_else(|| is_vendor(code).then_some(CodeKind::Vendor))
}

/// `^(?!openwop\.)[a-z][a-z0-9]*(-[a-z0-9]+)*\.[a-z][a-z0-9_]*$`, at most 128 bytes.
fn is_vendor(code: &str) -> bool {
    let Some((vendor, name)) = code.split_once('.') else { return false };
    let starts_lower = |s: &str| s.as_bytes().first().is_some_and(u8::is_ascii_lowercase);
    let alnum = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    code.len() <= 128
        && vendor != "openwop"
        && starts_lower(vendor)
        && vendor.split('-').all(|part| !part.is_empty() && part.as_bytes().iter().all(alnum))
        && starts_lower(name)
        && name.as_bytes().iter().all(|b| alnum(b) || *b == b'_')
}

/// The code as an ErrorInfo reason: upper snake case, a vendor's dot and dashes as `_`.
#[must_use]
pub fn reason(code: &str) -> String {
    code.chars().map(|c| if matches!(c, '.' | '-') { '_' } else { c.to_ascii_uppercase() }).collect()
}

/// Whether a reason (in any case) is one of the first row's codes.
#[must_use]
pub fn reason_is_unreadable(reason: &str) -> bool {
    UNREADABLE.iter().any(|code| code.eq_ignore_ascii_case(reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f4_the_table_is_the_registry() {
        let facts: serde_json::Value =
            serde_json::from_str(include_str!("../../tests/facts/openwop-codes.json")).unwrap();
        let mut want: Vec<(String, u64)> = facts["codes"]
            .as_array()
            .unwrap()
            .iter()
            .map(|c| (c["code"].as_str().unwrap().to_owned(), c["httpStatus"].as_u64().unwrap()))
            .collect();
        want.sort();
        let have: Vec<(String, u64)> =
            REGISTERED.iter().map(|(c, s)| ((*c).to_owned(), u64::from(*s))).collect();
        assert_eq!(have, want);
        let mut want: Vec<&str> = facts["unregistered_seen_in_hosts"]
            .as_array()
            .unwrap()
            .iter()
            .map(|c| c.as_str().unwrap())
            .collect();
        want.sort_unstable();
        assert_eq!(UNREGISTERED.iter().map(|(c, _)| *c).collect::<Vec<_>>(), want);
        assert!(UNREADABLE.iter().all(|c| classify(c).is_some()));
    }

    #[test]
    fn f4_vendor_codes() {
        for good in ["acme.ledger_locked", "acme-labs.quota_hit", "a.b", "a1-2b.c_3"] {
            assert_eq!(classify(good), Some(CodeKind::Vendor), "{good}");
        }
        for bad in [
            "openwop.x",
            "Acme.x",
            "acme",
            "acme.",
            ".x",
            "acme-.x",
            "-acme.x",
            "acme.X",
            "acme.1x",
            "1a.x",
            "acme.x.y",
            "io.a2a.spec.TaskNotFoundError",
            "Not Found",
            "Forbidden",
            "acme--labs.x",
            "acme.x-y",
        ] {
            assert_eq!(classify(bad), None, "{bad}");
        }
        assert_eq!(reason("acme-labs.quota_hit"), "ACME_LABS_QUOTA_HIT");
    }
}
