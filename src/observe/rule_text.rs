//! What each rule of the specification is about, in one line for operators: the status page and the report
//! show it beside the id.

use crate::normalize::Rule;

/// The same by the rule's id; empty if there is no such rule.
#[must_use]
pub fn says_by_id(id: &str) -> &'static str {
    Rule::ALL.iter().find(|rule| rule.id() == id).map_or("", |rule| says(*rule))
}

/// One line, without a full stop.
#[must_use]
pub fn says(rule: Rule) -> &'static str {
    match rule {
        Rule::I1 => "interfaces are taken from the agent card",
        Rule::I2 => "the URL is an interface of the host",
        Rule::I3 => "the request is bound by A2A 1.0",
        Rule::I4 => "a success passes byte for byte",
        Rule::I5 => "observed only: the host's bytes passed untouched",
        Rule::Q1 => "the answer's id was not the request's",
        Rule::Q2 => "the request has no usable id, so the answer has none either",
        Rule::Q3 => "the call names a task",
        Rule::Q4 => "the host is asked for plain bytes",
        Rule::F1 => "the HTTP status alone says what went wrong (401, 403, 407, 413, 429)",
        Rule::F2 => "an explicit A2A reason says what went wrong",
        Rule::F3 => "an error code says what went wrong, or was spelled oddly",
        Rule::F4 => "an OpenWOP envelope became an A2A error",
        Rule::F5 => "a framework's own error page became an A2A error",
        Rule::F6 => "a body that parsers disagree about was replaced",
        Rule::F7 => "a version refusal got its own code",
        Rule::F8 => "an unknown route or method became METHOD_NOT_FOUND",
        Rule::F9 => "a long success was let go unread",
        Rule::F10 => "an A2A error counted although the HTTP status said something else",
        Rule::E1 => "a JSON-RPC error was written in shape",
        Rule::E2 => "a JSON-RPC answer got the status its code asks for",
        Rule::E3 => "Retry-After was mirrored as RetryInfo",
        Rule::E4 => "an HTTP+JSON error was written as google.rpc.Status",
        Rule::E5 => "error details were read for what is useful; the rest went",
        Rule::E6 => "metadata values became strings",
        Rule::E7 => "supportedVersions was filled in from what the interface offers",
        Rule::E8 => "error data of a closed profile was kept whole, or dropped",
        Rule::E9 => "already in shape, passed byte for byte",
        Rule::O1 => "the one fixed TASK_NOT_FOUND was written",
        Rule::O2 => "TASK_NOT_FOUND was shortened to stay below the cap",
        Rule::O3 => "\"not yours\" became \"not found\"",
        Rule::O4 => "TASK_NOT_FOUND waited for its time slot",
        Rule::D1 => "a message that could identify somebody was replaced",
        Rule::D2 => "metadata that is not on the list was dropped",
        Rule::D3 => "headers that are not on the list were dropped",
        Rule::D4 => "nothing identifying is logged",
        Rule::C1 => "an answer over the byte cap was replaced",
        Rule::C2 => "the fixed \"exceeds configured byte limit\" answer was written",
        Rule::C3 => "a body over the intake was not read further",
        Rule::C4 => "headers of the old body were taken off the new one",
        Rule::C5 => "the host broke off inside an error, which was completed",
        Rule::S1 => "the answer was a stream",
        Rule::S2 => "error events inside a stream were put into shape",
        Rule::S3 => "an error took the form that stream clients read",
        Rule::S4 => "an empty stream passed as one",
        Rule::P1 => "the proxy answered itself: the host gave no answer, or the request was refused",
        Rule::P2 => "the request was sent again on a new connection",
        Rule::P3 => "an agent card got the public URLs",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_has_a_line_of_its_own() {
        let mut lines: Vec<&str> = Rule::ALL.iter().map(|rule| says(*rule)).collect();
        assert!(lines.iter().all(|line| !line.contains('\n') && !line.ends_with('.') && line.len() < 80));
        lines.sort_unstable();
        lines.dedup();
        assert_eq!(lines.len(), Rule::ALL.len());
    }
}
