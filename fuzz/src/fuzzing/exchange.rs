//! Requests, answers, policies and splits of both bindings through the state machine.

use super::case::Case;
use super::hold;
use crate::rules_support::invariants;

/// The input is a case.
pub fn check(data: &[u8]) {
    let Case { host, request, answer, cuts: (cut_request, cut_answer) } = Case::read(data);
    hold(invariants::all(&host, &request, &answer, (&cut_request, &cut_answer)));
}
