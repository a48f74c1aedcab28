//! Streams of events, or of lines, through the state machine; and the splitter by itself against a reading of the
//! whole stream.

use http::HeaderValue;

use super::case::Case;
use super::hold;
use crate::protocol::sse::{Framing, Splitter};
use crate::rules_support::invariants::{self, Event};

/// The input is a case; an answer that is called no stream is called one.
pub fn check(data: &[u8]) {
    let mut case = Case::read(data);
    let media = case.answer.headers.get("content-type").and_then(|v| v.to_str().ok()).and_then(Framing::of);
    let framing = media.unwrap_or_else(|| {
        case.answer.headers.insert("content-type", HeaderValue::from_static("text/event-stream"));
        Framing::Sse
    });
    if !(200..300).contains(&case.answer.status) {
        case.answer.status = 200;
    }
    let body = &case.answer.body;
    if framing == Framing::Sse && !case.answer.headers.contains_key("content-encoding") {
        for pieces in [case.cuts.1.pieces(body), vec![body], body.chunks(1).collect()] {
            hold(splits_as_read(body, &pieces));
        }
    }
    hold(invariants::all(&case.host, &case.request, &case.answer, (&case.cuts.0, &case.cuts.1)));
}

/// The data that the splitter hands out, event by event, is what a client reads; the bytes it takes are the stream.
fn splits_as_read(stream: &[u8], pieces: &[&[u8]]) -> Result<(), String> {
    let mut splitter = Splitter::new(Framing::Sse);
    let (mut ours, mut data, mut taken) = (Vec::new(), Vec::new(), Vec::new());
    for piece in pieces {
        let mut rest = *piece;
        while !rest.is_empty() {
            let step = splitter.next(rest, &mut |part| data.extend_from_slice(part));
            if step.taken == 0 || step.taken > rest.len() {
                return Err(format!("took {} of {} bytes", step.taken, rest.len()));
            }
            taken.extend_from_slice(&rest[..step.taken]);
            rest = &rest[step.taken..];
            if let Some(has_data) = step.ended {
                let data = std::mem::take(&mut data);
                if has_data {
                    ours.push(data);
                }
            }
        }
    }
    let theirs: Vec<Vec<u8>> =
        invariants::events(stream).into_iter().map(|Event { data, .. }| data).collect();
    if taken != stream {
        return Err("bytes are missing".into());
    }
    // A field of data without a value is an event for the splitter; clients deliver an empty one too.
    if ours == theirs { Ok(()) } else { Err(format!("splitter: {ours:?}\nclient: {theirs:?}")) }
}
