//! Answers whose `id` is not the request's (Q-1, Q-2, E-1).

use super::{HELLO, send};
use crate::demo::{Answer, Call, Group, Scenario};
use crate::normalize::Rule::{E1, Q1, Q2};

pub fn scenarios() -> Vec<Scenario> {
    let refusal = |id: &str| {
        let id = if id.is_empty() { String::new() } else { format!(r#""id":{id},"#) };
        Answer::json(
            200,
            format!(
                r#"{{"jsonrpc":"2.0",{id}"error":{{"code":-32004,"message":"This operation is not supported"}}}}"#
            ),
        )
    };
    let new = |name, title, seen_at, call, answer| {
        Scenario::new(Group::Ids, name, title, seen_at, call, answer)
            .becomes(200, -32004, "UNSUPPORTED_OPERATION")
            .rules(&[Q1, E1])
    };
    let ask = |id: &str| Call::json_rpc(id, "SendMessage", HELLO);
    vec![
        new("id-missing", "no id member", "a2a-sdk (Python) 0.3", send(), refusal("")),
        new(
            "id-null",
            "null, though the request had an id",
            "a2a-sdk 1.0, OpenWOP hosts",
            send(),
            refusal("null"),
        ),
        new("id-of-another", "another request's id", "hosts that share state", send(), refusal(r#""other""#)),
        new("id-number-as-text", "the number 7 as text", "hosts with typed ids", send(), refusal(r#""7""#)),
        new(
            "id-off-by-one",
            "2^53+1 through a float",
            "every JavaScript host",
            ask("9007199254740993"),
            refusal("9007199254740992"),
        ),
        new(
            "id-in-exponents",
            "2^70 through a float",
            "@a2a-js/sdk",
            ask("1180591620717411303424"),
            refusal("1.1805916207174113e+21"),
        ),
        new(
            "id-unescaped",
            "a text id, its escapes undone",
            "hosts that parse and print",
            ask(r#""\u0061-1""#),
            refusal(r#""a-1""#),
        ),
        new(
            "id-is-an-object",
            "an id that is neither text nor number: null, as JSON-RPC says",
            "@a2a-js/sdk echoes it",
            ask(r#"{"a":1}"#),
            refusal(r#"{"a":1}"#),
        )
        .rules(&[Q2, E1]),
    ]
}
