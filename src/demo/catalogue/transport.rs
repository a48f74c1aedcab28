//! Errors whose bytes are the trouble: framing, compression, size, and hosts that die (C-1 to C-5,
//! D-3, P-1).

use super::send;
use crate::demo::{Answer, Encoding, Ending, Framing, Group, Scenario};
use crate::normalize::Rule::{C1, C2, C3, C4, C5, D3, F6, P1, P2};

const REFUSAL: &str = r#""code":-32004,"message":"This operation is not supported","data":{"tenant":"acme"}"#;

pub fn scenarios() -> Vec<Scenario> {
    let new = |name, title, seen_at, answer| {
        Scenario::new(Group::Transport, name, title, seen_at, send(), answer).becomes(
            200,
            -32004,
            "UNSUPPORTED_OPERATION",
        )
    };
    vec![
        new(
            "odd-headers",
            "headers that tell on the host, and a digest of the old body",
            "every production host",
            Answer::error(REFUSAL)
                .header("server", "acme-agent/3.1")
                .header("x-tenant", "acme")
                .header("set-cookie", "s=acme")
                .header("etag", "\"acme-1\"")
                .header("server-timing", "db;desc=acme")
                .header("content-language", "de")
                .header("content-digest", "sha-256=:YWNtZQ==:")
                .header("cache-control", "no-store")
                .header("vary", "origin"),
        )
        .rules(&[D3, C4]),
        new(
            "gzip-error",
            "compressed, though nobody asked",
            "caches in front",
            Answer::error(REFUSAL).encoding(Encoding::Gzip),
        )
        .rules(&[C4]),
        new(
            "chunked-error",
            "in chunks of five bytes",
            "streaming frameworks",
            Answer::error(REFUSAL).framing(Framing::Chunked(5)),
        )
        .rules(&[C4]),
        new(
            "close-framed-error",
            "without a length: the end is the end of the connection",
            "HTTP/1.0-minded hosts",
            Answer::error(REFUSAL).framing(Framing::Close),
        )
        .rules(&[C4]),
        new(
            "length-too-short",
            "a length that cuts the JSON in half",
            "hosts that count characters",
            Answer::error(REFUSAL).framing(Framing::LengthOff(-30)),
        )
        .becomes(200, -32603, "")
        .rules(&[F6, C4]),
        new(
            "died-inside-error",
            "the host dies inside the error",
            "hosts under memory pressure",
            Answer::json(200, r#"{"jsonrpc":"2.0","id":$ID,"error":{"code":-32602,"message":"acme"#)
                .framing(Framing::LengthOff(400))
                .ending(Ending::HangUp),
        )
        .becomes(502, -32603, "")
        .rules(&[C5]),
        new(
            "died-inside-chunk",
            "the same, in chunks",
            "hosts under memory pressure",
            Answer::json(200, r#"{"jsonrpc":"2.0","id":$ID,"error":{"code":-32602,"message":"acme"#)
                .framing(Framing::Chunked(20))
                .ending(Ending::HangUp),
        )
        .becomes(502, -32603, "")
        .rules(&[C5]),
        new(
            "no-answer",
            "the host hangs up without a byte",
            "hosts that restart",
            Answer::json(200, "").ending(Ending::Silence),
        )
        .becomes(502, -32603, "")
        .rules(&[P1, P2]),
        new(
            "over-cap",
            "legal details, more than the cap lets through: all or nothing",
            "validators on large inputs",
            Answer::error(&format!(
                r#""code":-32602,"message":"Invalid parameters","data":[{{"@type":"type.googleapis.com/google.rpc.BadRequest","fieldViolations":[{}]}}]"#,
                vec![r#"{"field":"message.parts","description":"At least one part is required"}"#; 18_000]
                    .join(","),
            )),
        )
        .becomes(200, -32603, "")
        .rules(&[C1, C2]),
        new(
            "over-intake",
            "five megabytes of message: not even read to its end",
            "hosts that dump what they know",
            Answer::error(&format!(r#""code":-32603,"message":"acme {}""#, "z".repeat(5_000_000))),
        )
        .becomes(200, -32603, "")
        .rules(&[C3, C2]),
        new(
            "gzip-bomb",
            "sixteen megabytes in a few kilobytes",
            "attackers",
            Answer::error(&format!(r#""code":-32603,"message":"{}""#, "a".repeat(16 << 20)))
                .encoding(Encoding::Gzip),
        )
        .becomes(200, -32603, "")
        .rules(&[C3, C2]),
    ]
}
