//! What the proxy read of a request against what hosts may read of it, strict ones and lenient ones: it must know of
//! every task that one of them would be asked for, and echo no id but the request's own.

use serde_json::Value;

use super::case::{Fields, read_request};
use super::hold;
use crate::normalize::{Binding, Target};
use crate::protocol::a2a::Operation;
use crate::rules_support::{Answer, Finish, Host, Order, Request, Seen, Split, invariants, reading, strict};

/// The input is a case without an answer.
pub fn check(data: &[u8]) {
    let Fields { knobs, texts: [head, body, ..] } = Fields::read(data);
    let (host, request) = read_request(&knobs, &head, &body);
    let host = Host { order: Order::RequestFirst, ..host };
    let probes = [
        Answer::raw(200, r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"x"}}"#),
        Answer::raw(403, "").set("content-type", None),
        Answer::raw(200, r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32602,"message":"x"}}"#),
        Answer::raw(409, r#"{"error":"run_terminal","message":"x"}"#),
    ];
    for (n, answer) in probes.iter().enumerate() {
        let seen = host.run(&request, answer);
        if seen.unbound {
            return;
        }
        hold(invariants::never_an_id_of_others(&host, &request, &seen));
        hold(invariants::passed_or_valid(&host, &request, answer, &seen));
        for cut in [Split::Every(1), Split::Lengths(vec![3, 1, 64, 7])] {
            hold(invariants::same_in_any_split(&host, &request, answer, (&cut, &Split::Whole), &seen));
        }
        if n == 1 {
            hold(knows_every_task(&host, &request, &seen));
        }
    }
    hold(recognized(&host, &request));
}

/// A 403 collapses if any host would read a task in the request.
fn knows_every_task(host: &Host, request: &Request, seen: &Seen) -> Result<(), String> {
    let Target::Interface(interface) = &host.target else { return Ok(()) };
    let is_coded = request.headers.contains_key("content-encoding");
    if interface.binding != Binding::JsonRpc || is_coded || request.method != http::Method::POST {
        return Ok(());
    }
    let text = reading::as_utf8(&request.body);
    let named = readings(&text, host.policy.normalize_0_3);
    if named.is_empty() || seen.outcome.not_found {
        Ok(())
    } else {
        Err(format!("hosts read {named:?}, the proxy no task: {}", seen.text()))
    }
}

/// Operation and task of every reading that names one.
fn readings(text: &[u8], names_0_3: bool) -> Vec<(Operation, String)> {
    let Some(call) = reading::members(text) else { return Vec::new() };
    let mut found = Vec::new();
    // The first of doubled members and the last; names as they are, and in any case.
    for last in [false, true] {
        for any_case in [false, true] {
            let get = |members: &[(String, Value)], name: &str| -> Option<Value> {
                let same = |n: &str| n == name || any_case && n.eq_ignore_ascii_case(name);
                let mut matching = members.iter().filter(|(n, _)| same(n)).map(|(_, v)| v.clone());
                if last { matching.last() } else { matching.next() }
            };
            // Nested doubles are serde's to choose: the last one counts.
            let member = |value: &Value, name: &str| -> Option<Value> {
                let map = value.as_object()?;
                let members: Vec<(String, Value)> = map.iter().map(|(n, v)| (n.clone(), v.clone())).collect();
                get(&members, name)
            };
            let Some(Value::String(method)) = get(&call, "method") else { continue };
            let Some(params) = get(&call, "params") else { continue };
            let v1 = Operation::from_method(&method);
            let Some(operation) = v1.or_else(|| Operation::from_method_0_3(&method).filter(|_| names_0_3))
            else {
                continue;
            };
            let task = if operation.is_send() {
                member(&params, "message")
                    .and_then(|m| member(&m, "taskId").or_else(|| member(&m, "task_id")))
            } else if operation.is_push() && (v1.is_some() || operation == Operation::CreatePushConfig) {
                member(&params, "taskId").or_else(|| member(&params, "task_id"))
            } else if operation.names_task() {
                member(&params, "id")
            } else {
                None
            };
            match task {
                Some(Value::String(id)) if !id.is_empty() => found.push((operation, id)),
                Some(Value::Number(id)) => found.push((operation, id.to_string())),
                _ => {}
            }
        }
    }
    found
}

/// Where no interface is known yet, a call that is A2A's beyond doubt is bound, and what is none passes (I-1).
fn recognized(host: &Host, request: &Request) -> Result<(), String> {
    if request.headers.contains_key("content-encoding") || request.method != http::Method::POST {
        return Ok(());
    }
    let host = Host { target: Target::Unknown, ..host.clone() };
    let answer = Answer::raw(401, "").set("content-type", None);
    let seen = host.run(request, &answer);
    let is_call = strict::parse(&request.body).is_ok_and(|call| {
        let method = call["method"].as_str().unwrap_or_default();
        call["jsonrpc"] == "2.0" && Operation::from_method(method).is_some() && call.get("id").is_some()
    });
    // What hosts may make of bytes that are nearly JSON is theirs; what begins as no object or batch is no call.
    let text = reading::as_utf8(&request.body);
    let is_none = !text.trim_ascii_start().first().is_some_and(|b| matches!(b, b'{' | b'[')) && !seen.unbound;
    match seen.finish {
        _ if is_call && seen.host_head => Err("an A2A call is not bound".into()),
        _ if is_none && !seen.host_head => Err("what begins as no call is bound".into()),
        Finish::End | Finish::PassRest => Ok(()),
        other => Err(format!("{other:?}")),
    }
}
