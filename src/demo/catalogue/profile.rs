//! Error data of the semaprax image-agent profile: kept whole or not at all (E-8).

use super::send;
use crate::demo::{Answer, Group, Scenario};
use crate::normalize::Rule::E8;

pub fn scenarios() -> Vec<Scenario> {
    let new = |name, title, diagnostics: &str| {
        Scenario::new(
            Group::Profile,
            name,
            title,
            "semaprax image agents",
            send(),
            Answer::error(&format!(
                r#""code":-32000,"message":"SPX-G282: stale subject","data":{{"schema":"semaprax.image-agent-application-error-data.v1","diagnostics":[{diagnostics}]}}"#,
            )),
        )
        .becomes(200, -32000, "")
        .rules(&[E8])
    };
    vec![
        new(
            "semaprax-valid",
            "validates: one typed entry, nulls and order kept",
            r#"{"code":"SPX-G282","severity":"error","message":"stale subject","path":"src/core.spx","location":{"line":3,"column":5,"start":8,"end":13},"help":"open a fresh session"},{"code":"SPX-G280","severity":"error","message":"authority unavailable","path":null,"location":null,"help":null}"#,
        ),
        new(
            "semaprax-invalid",
            "a member missing, a foreign one added: dropped whole",
            r#"{"code":"SPX-G282","severity":"error","message":"stale subject of acme","path":null,"location":null,"tenant":"acme"}"#,
        ),
    ]
}
