//! An exchange whose answer may be an extended agent card (P-3): what the exchange lets pass as a
//! success goes on to the rewriting of cards.
//!
//! JSON-RPC tells in the request's body only which call it is. So the exchange begins as any other, and
//! when it lets the host's head pass it is known whether a card follows.

use std::collections::VecDeque;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};

use super::{Binding, CardFate, CardRewrite, Exchange, Failure, Outcome, Output, OwnAnswer, Verdict};
use crate::protocol::a2a::Operation;

/// One call to an interface of a host that has a public URL.
pub struct ExtendedCard {
    exchange: Exchange,
    card: CardRewrite,
    /// The host's head, while it may be a card's.
    head: Option<(StatusCode, HeaderMap)>,
    /// What the exchange lets pass is the card's.
    is_card: bool,
    /// The exchange reads no more of the host's answer.
    has_passed: bool,
    out: VecDeque<Output>,
}

impl ExtendedCard {
    #[must_use]
    pub fn new(exchange: Exchange, card: CardRewrite) -> Self {
        let card = if exchange.binding == Binding::JsonRpc { card.in_result() } else { card };
        Self { exchange, card, head: None, is_card: false, has_passed: false, out: VecDeque::new() }
    }

    #[must_use]
    pub fn exchange(&self) -> &Exchange {
        &self.exchange
    }

    /// What became of the card, if one came.
    #[must_use]
    pub fn fate(&self) -> Option<CardFate> {
        self.card.fate().filter(|_| self.is_success())
    }

    /// As far as the exchange knows yet: an error, passed as it is or only observed, is no card.
    fn is_success(&self) -> bool {
        self.exchange.outcome().verdict == Verdict::Passed
    }

    // The same interface as that of an exchange: see there.

    pub fn request_piece(&mut self, bytes: &[u8]) {
        self.exchange.request_piece(bytes);
    }

    pub fn request_end(&mut self) {
        self.exchange.request_end();
        self.pump();
    }

    pub fn head(&mut self, status: StatusCode, headers: &HeaderMap) {
        self.head = self.card.holds(status, headers).then(|| (status, headers.clone()));
        self.exchange.head(status, headers);
        self.pump();
    }

    pub fn piece(&mut self, bytes: Bytes) {
        if self.has_passed {
            self.card.piece(bytes);
            self.forward();
        } else {
            self.exchange.piece(bytes);
            self.pump();
        }
    }

    pub fn end(&mut self) {
        self.exchange.end();
        self.pump();
    }

    pub fn fail(&mut self, failure: Failure) {
        if self.has_passed && self.card.wants_whole() && self.card.is_holding() {
            // Nothing of it was written: the answer can be a complete one.
            return self.answer(failure.own_answer());
        }
        self.exchange.fail(failure);
        self.pump();
    }

    pub fn shed(&mut self) -> bool {
        if self.card.is_holding() && self.card.wants_whole() {
            self.answer(Failure::NoRoom.own_answer());
            return true;
        }
        let is_shed = self.card.shed() | self.exchange.shed();
        self.pump();
        is_shed
    }

    pub fn answer(&mut self, own: OwnAnswer) {
        self.reset_answer();
        self.exchange.answer(own);
        self.pump();
    }

    pub fn reset_answer(&mut self) {
        self.exchange.reset_answer();
        self.card.reset_answer();
        self.head = None;
        self.is_card = false;
        self.has_passed = false;
        self.out.clear();
    }

    pub fn poll(&mut self) -> Option<Output> {
        self.out.pop_front()
    }

    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.exchange.held_bytes() + self.card.held_bytes()
    }

    #[must_use]
    pub fn outcome(&self) -> &Outcome {
        match self.fate() {
            Some(CardFate::Rewritten { .. }) => self.card.outcome(),
            _ => self.exchange.outcome(),
        }
    }

    /// Takes what the exchange says, and gives to the card what is its.
    fn pump(&mut self) {
        while let Some(output) = self.exchange.poll() {
            match output {
                Output::HostHead => match self.head.take().filter(|_| self.lets_a_card_pass()) {
                    Some((status, headers)) => {
                        self.is_card = true;
                        self.card.head(status, &headers);
                    }
                    None => self.out.push_back(Output::HostHead),
                },
                Output::Body(bytes) if self.is_card => self.card.piece(bytes),
                Output::End if self.is_card => self.card.end(),
                Output::PassRest if self.is_card => self.has_passed = true,
                other => self.out.push_back(other),
            }
            self.forward();
        }
    }

    fn lets_a_card_pass(&self) -> bool {
        self.is_success() && self.exchange.operation() == Some(Operation::GetExtendedAgentCard)
    }

    /// Takes what the card says. One that passes after all goes on from where the exchange is.
    fn forward(&mut self) {
        while let Some(output) = self.card.poll() {
            match output {
                Output::PassRest if !self.has_passed => self.is_card = false,
                other => self.out.push_back(other),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use http::Method;

    use super::*;
    use crate::normalize::{Interface, Mode, Policy, RequestFacts, Target};
    use crate::protocol::public_url::{Own, PublicUrl};

    const CALL: &str = r#"{"jsonrpc":"2.0","id":1,"method":"GetExtendedAgentCard"}"#;

    fn machine(mode: Mode, body: &str) -> ExtendedCard {
        let public =
            PublicUrl::new("https://agents.example/billing", Own::new(["127.0.0.1:9000"], [])).unwrap();
        let interface =
            Interface { path: "/a2a".into(), binding: Binding::JsonRpc, versions: vec!["1.0".into()] };
        let policy = Arc::new(Policy { mode, ..Policy::default() });
        let headers = HeaderMap::new();
        let facts = RequestFacts { method: &Method::POST, path: "/a2a", query: None, headers: &headers };
        let exchange = Exchange::new(&Target::Interface(Arc::new(interface)), &policy, &facts).unwrap();
        let card = CardRewrite::new(&Arc::new(public), mode, 20_000, &Method::POST, &headers);
        let mut machine = ExtendedCard::new(exchange, card);
        machine.request_piece(body.as_bytes());
        machine.request_end();
        machine
    }

    fn response(url: &str, filler: usize) -> String {
        let filler = "x".repeat(filler);
        format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"url":"{url}","x":"{filler}"}}}}"#)
    }

    /// What the client sees, as one text; the shell passes what comes after `PassRest`.
    fn answered(machine: &mut ExtendedCard, status: u16, body: &str, size: usize, ends: bool) -> String {
        let mut seen = Vec::new();
        let mut passes = false;
        let mut take = |machine: &mut ExtendedCard, passes: &mut bool| {
            while let Some(output) = machine.poll().filter(|_| !*passes) {
                seen.push(match output {
                    Output::HostHead => "host|".to_owned(),
                    Output::Head(head) => format!("{}|", head.status.as_u16()),
                    Output::Body(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
                    Output::End => "|end".to_owned(),
                    Output::Abort => "|abort".to_owned(),
                    Output::PassRest => {
                        *passes = true;
                        String::new()
                    }
                    Output::CloseUpstream => "|close".to_owned(),
                });
            }
            std::mem::take(&mut seen).concat()
        };
        let mut text = String::new();
        let mut headers = HeaderMap::new();
        headers.insert("content-type", "application/json".parse().unwrap());
        machine.head(StatusCode::from_u16(status).unwrap(), &headers);
        for piece in body.as_bytes().chunks(size) {
            text += &take(machine, &mut passes);
            if passes {
                text += std::str::from_utf8(piece).unwrap();
            } else {
                machine.piece(Bytes::copy_from_slice(piece));
            }
        }
        text += &take(machine, &mut passes);
        if ends && !passes {
            machine.end();
        } else if !passes {
            machine.fail(Failure::Closed);
        }
        text += &take(machine, &mut passes);
        if passes {
            text += "|passed";
        }
        text
    }

    /// Shorter and longer than what an exchange judges whole, in any split.
    #[test]
    fn p3_an_extended_card_is_told_the_public_url() {
        for filler in [0, 10_000] {
            let body = response("http://127.0.0.1:9000/a2a", filler);
            let expected = format!("200|{}|end", response("https://agents.example/billing/a2a", filler));
            for size in [1, 1000, 100_000] {
                let mut machine = machine(Mode::Enforce, CALL);
                assert_eq!(answered(&mut machine, 200, &body, size, true), expected);
                assert_eq!(machine.fate(), Some(CardFate::Rewritten { was_signed: false }));
                assert_eq!(machine.outcome().verdict, Verdict::Rewritten);
                assert_eq!(machine.held_bytes(), 0);
            }
        }
    }

    #[test]
    fn p3_what_is_no_extended_card_is_not_touched() {
        let body = |filler| response("http://127.0.0.1:9000/a2a", filler);
        let other = CALL.replace("GetExtendedAgentCard", "GetTask");
        let conformant =
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32700,"message":"Invalid JSON payload"}}"#;
        for (call, body, size, begins, ends) in [
            (other.as_str(), body(0), 9, "host|", "|end"),
            (&other, body(10_000), 900, "host|", "|passed"),
            (CALL, response("https://elsewhere.example/", 0), 9, "host|", "|end"),
            (CALL, response("https://elsewhere.example/", 10_000), 900, "host|", "|end"),
            // Larger than `card.max_bytes`, before and after the exchange has let go.
            (CALL, body(30_000), 900, "host|", "|passed"),
            (CALL, body(30_000), 100_000, "host|", "|passed"),
            (CALL, conformant.into(), 9, "host|", "|end"),
        ] {
            let mut machine = machine(Mode::Enforce, call);
            assert_eq!(answered(&mut machine, 200, &body, size, true), format!("{begins}{body}{ends}"));
            assert_eq!(machine.fate().is_some(), body != conformant && call == CALL);
        }
    }

    #[test]
    fn c5_a_card_that_breaks_off_is_a_fault() {
        let body = response("http://127.0.0.1:9000/a2a", 10_000);
        for cut in [20, 9_000] {
            let mut machine = machine(Mode::Enforce, CALL);
            let seen = answered(&mut machine, 200, body.get(..cut).unwrap(), 900, false);
            assert!(seen.starts_with(r#"502|{"jsonrpc":"2.0","id":1,"error""#), "{seen}");
            assert!(seen.ends_with("|end"), "{seen}");
            assert_eq!(machine.outcome().verdict, Verdict::Synthesized);
        }
        let mut machine = machine(Mode::Enforce, CALL);
        let large = response("http://127.0.0.1:9000/a2a", 30_000);
        assert!(answered(&mut machine, 200, large.get(..29_000).unwrap(), 900, false).ends_with("|passed"));
    }

    #[test]
    fn i5_an_observed_extended_card_is_counted_only() {
        for filler in [0, 10_000] {
            let body = response("http://127.0.0.1:9000/a2a", filler);
            let mut machine = machine(Mode::Observe, CALL);
            assert_eq!(answered(&mut machine, 200, &body, 900, true), format!("host|{body}|end"));
            assert_eq!(machine.fate(), Some(CardFate::Rewritten { was_signed: false }));
        }
        let mut machine = machine(Mode::Observe, CALL);
        let error = r#"{"jsonrpc":"2.0","id":1,"error":{"code":"-32001","message":"x"}}"#;
        assert_eq!(answered(&mut machine, 200, error, 9, true), format!("host|{error}|end"));
        assert_eq!((machine.fate(), machine.outcome().verdict), (None, Verdict::Rewritten));
    }
}
