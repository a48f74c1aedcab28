//! Whether an answer about somebody else's task can be told from one about a task that does not exist (RFC 0211 §D):
//! byte by byte, header by header, and in how it is framed and ends. The one thing that may differ is the echo of
//! the id, and only where both answers have their own at the same place.

use std::mem::discriminant;

use serde_json::Value;

use super::client::Reply;
use crate::protocol::a2a::percent_encode;

/// An answer, and the task that was asked about.
pub struct Seen<'a> {
    reply: &'a Reply,
    /// How the id may be written, the same ways in the same order for every id.
    forms: Vec<String>,
}

impl<'a> Seen<'a> {
    pub fn of(reply: &'a Reply, task: &str) -> Self {
        let quoted = Value::from(task).to_string();
        let quoted = quoted.trim_start_matches('"').strip_suffix('"').unwrap_or_default().to_owned();
        let ascii: String = quoted.chars().map(ascii).collect();
        let forms = vec![percent_encode(task), quoted.replace('/', "\\/"), ascii, quoted, task.to_owned()];
        Self { reply, forms }
    }

    /// What tells this answer from those of unknown tasks, each in a few words. What those differ in among themselves
    /// (a request's number, say) tells nothing.
    pub fn apart_from(&self, unknown: &Self, other: &Self) -> Vec<String> {
        let mut told = Vec::new();
        let (ours, theirs, thirds) = (self.reply, unknown.reply, other.reply);
        let mut plain = |ours: &str, theirs: &str, thirds: &str, what: &str| {
            if ours != theirs && theirs == thirds {
                told.push(format!("{what}{ours} instead of {theirs}"));
            }
        };
        plain(&ours.version, &theirs.version, &thirds.version, "");
        if ours.status == theirs.status {
            let [ours, theirs, thirds] = [ours, theirs, thirds].map(|reply| format!("{:?}", reply.phrase));
            plain(&ours, &theirs, &thirds, "reason phrase ");
        }
        let [a, b, c] = [ours, theirs, thirds].map(framing);
        plain(a, b, c, "framing: ");
        if ours.status != theirs.status {
            told.insert(0, format!("HTTP {} instead of {}", ours.status, theirs.status));
        }
        self.headers_apart(unknown, other, &mut told);
        match self.differs_at(&ours.body, unknown, &theirs.body) {
            Some(at) if unknown.differs_at(&theirs.body, other, &thirds.body).is_none() => {
                told.push(format!("the body differs from byte {at} on"));
            }
            Some(_) => told.push("the body differs, as those of two unknown tasks do".to_owned()),
            None => {}
        }
        if discriminant(&ours.end) != discriminant(&theirs.end) {
            let (which, end) = if ours.end.trouble().is_some() {
                ("foreign", ours.end.trouble())
            } else {
                ("unknown", theirs.end.trouble())
            };
            told.push(format!("the {which} task's answer {}", end.unwrap_or_default()));
        }
        self.pairs_apart("trailer", unknown, other, |reply| &reply.trailers, &mut told);
        told
    }

    fn headers_apart(&self, unknown: &Self, other: &Self, told: &mut Vec<String>) {
        self.pairs_apart("header", unknown, other, |reply| &reply.headers, told);
        let order = |of: &Self| -> Vec<String> {
            let names = of.reply.headers.iter().map(|(name, _)| name);
            names.filter(|name| !FRAMING.contains(&name.as_str())).cloned().collect()
        };
        let sorted = |mut names: Vec<String>| {
            names.sort();
            names
        };
        let (ours, theirs) = (order(self), order(unknown));
        if ours != theirs && sorted(ours) == sorted(theirs.clone()) && theirs == order(other) {
            told.push("the headers come in another order".to_owned());
        }
        let mut known: Vec<&str> = Vec::new();
        for (name, _) in &self.reply.headers {
            let written = |of: &Self| -> Vec<String> {
                let pairs = of.reply.headers.iter().zip(&of.reply.spelled);
                pairs.filter(|((lower, _), _)| lower == name).map(|(_, spelled)| spelled.clone()).collect()
            };
            let (ours, theirs) = (written(self), written(unknown));
            let is_new = !known.contains(&name.as_str());
            known.push(name);
            if is_new && ours.len() == theirs.len() && ours != theirs && theirs == written(other) {
                told.push(format!(
                    "header {name} is written {} instead of {}",
                    ours.join(", "),
                    theirs.join(", ")
                ));
            }
        }
    }

    /// Names that only one has, and values that differ.
    fn pairs_apart(
        &self,
        what: &str,
        unknown: &Self,
        other: &Self,
        pairs: impl Fn(&Reply) -> &Vec<(String, String)>,
        told: &mut Vec<String>,
    ) {
        let values = |of: &Self, name: &str| -> Vec<String> {
            let those = pairs(of.reply).iter().filter(|(known, _)| known == name);
            those.map(|(_, value)| value.clone()).collect()
        };
        let all = pairs(self.reply).iter().chain(pairs(unknown.reply));
        let mut names: Vec<&str> = all.map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        for name in names.into_iter().filter(|name| !FRAMING.contains(name)) {
            let (ours, theirs, thirds) = (values(self, name), values(unknown, name), values(other, name));
            if ours.len() != theirs.len() {
                if theirs.len() == thirds.len() {
                    let which = if ours.len() > theirs.len() { "foreign" } else { "unknown" };
                    told.push(format!("{what} {name} only on the {which} task's"));
                }
            } else if name != "date"
                && self.all_differ(&ours, unknown, &theirs)
                && !unknown.all_differ(&theirs, other, &thirds)
            {
                told.push(format!("{what} {name} differs"));
            }
        }
    }

    fn all_differ(&self, ours: &[String], other: &Self, theirs: &[String]) -> bool {
        ours.len() != theirs.len()
            || ours
                .iter()
                .zip(theirs)
                .any(|(a, b)| self.differs_at(a.as_bytes(), other, b.as_bytes()).is_some())
    }

    /// Where two texts part, each with the echo of its own id; `None` when they do not.
    fn differs_at(&self, ours: &[u8], other: &Self, theirs: &[u8]) -> Option<usize> {
        // Where one id begins like the other, what is an echo can be no more than guessed: either guess will do.
        let echo_first = self.walk(ours, other, theirs, true)?;
        self.walk(ours, other, theirs, false).map(|at| at.max(echo_first))
    }

    fn walk(&self, ours: &[u8], other: &Self, theirs: &[u8], echo_first: bool) -> Option<usize> {
        let (mut at, mut there) = (0, 0);
        loop {
            let (rest, beyond) =
                (ours.get(at..).unwrap_or_default(), theirs.get(there..).unwrap_or_default());
            let literal = match (rest.first(), beyond.first()) {
                (None, None) => return None,
                (Some(one), Some(two)) => one == two,
                (Some(_), None) | (None, Some(_)) => false,
            };
            let mut echoes = self.forms.iter().zip(&other.forms);
            let echo = echoes.find(|(mine, yours)| {
                !mine.is_empty() && rest.starts_with(mine.as_bytes()) && beyond.starts_with(yours.as_bytes())
            });
            match echo {
                Some((mine, yours)) if echo_first || !rest.starts_with(yours.as_bytes()) => {
                    at += mine.len();
                    there += yours.len();
                }
                _ if literal => {
                    at += 1;
                    there += 1;
                }
                _ => return Some(at),
            }
        }
    }
}

/// Compared as framing; the length differs with the body.
const FRAMING: &[&str] = &["transfer-encoding", "content-length"];

/// How the body's end is announced.
fn framing(reply: &Reply) -> &'static str {
    match (reply.header("content-length"), reply.header("transfer-encoding")) {
        (Some(_), None) => "Content-Length",
        (None, Some(_)) => "chunks",
        (Some(_), Some(_)) => "Content-Length and chunks",
        (None, None) => "neither length nor chunks",
    }
}

/// As libraries write it that send nothing but ASCII.
fn ascii(c: char) -> String {
    use std::fmt::Write as _;
    if c.is_ascii() {
        return c.to_string();
    }
    let mut out = String::new();
    for unit in c.encode_utf16(&mut [0; 2]) {
        let _ = write!(out, "\\u{unit:04x}");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::client::End;

    fn reply(status: u16, headers: &[(&str, &str)], body: &str) -> Reply {
        Reply {
            status,
            version: "HTTP/1.1".to_owned(),
            phrase: "Fine".to_owned(),
            headers: headers
                .iter()
                .map(|(name, value)| (name.to_ascii_lowercase(), (*value).to_owned()))
                .collect(),
            spelled: headers.iter().map(|(name, _)| (*name).to_owned()).collect(),
            body: body.to_owned().into(),
            ..Reply::default()
        }
    }

    fn told(foreign: &Reply, unknown: &Reply, other: &Reply) -> Vec<String> {
        let unknown = Seen::of(unknown, "c/d");
        Seen::of(foreign, "e/f").apart_from(&unknown, &Seen::of(other, "a/b"))
    }

    #[test]
    fn only_the_echo_and_the_connection_may_differ() {
        let a = reply(200, &[("date", "1"), ("x-request-id", "1")], "no \"a/b\"");
        let b = reply(200, &[("date", "2"), ("x-request-id", "2")], "no \"c/d\"");
        let c = reply(200, &[("date", "3"), ("x-request-id", "3")], "no \"e/f\"");
        assert_eq!(told(&c, &b, &a), [""; 0]);
        let d = reply(403, &[("etag", "x")], "no! e/f");
        assert_eq!(
            told(&d, &b, &a),
            [
                "HTTP 403 instead of 200",
                "header date only on the unknown task's",
                "header etag only on the foreign task's",
                "header x-request-id only on the unknown task's",
                "the body differs from byte 2 on"
            ]
        );
    }

    #[test]
    fn each_way_to_tell_is_named() {
        let usual = [("Content-Length", "2"), ("Server", "x"), ("Vary", "y")];
        let of = |change: &dyn Fn(&mut Reply)| {
            let mut foreign = reply(404, &usual, "no");
            change(&mut foreign);
            told(&foreign, &reply(404, &usual, "no"), &reply(404, &usual, "no")).join("; ")
        };
        assert_eq!(of(&|_| ()), "");
        assert_eq!(of(&|one| "HTTP/1.0".clone_into(&mut one.version)), "HTTP/1.0 instead of HTTP/1.1");
        assert_eq!(
            of(&|one| "Gone".clone_into(&mut one.phrase)),
            r#"reason phrase "Gone" instead of "Fine""#
        );
        assert_eq!(
            of(&|one| one.headers[0].0 = "transfer-encoding".to_owned()),
            "framing: chunks instead of Content-Length"
        );
        assert_eq!(
            of(&|one| {
                one.headers.swap(1, 2);
                one.spelled.swap(1, 2);
            }),
            "the headers come in another order"
        );
        assert_eq!(
            of(&|one| one.spelled[1] = "SERVER".to_owned()),
            "header server is written SERVER instead of Server"
        );
        assert_eq!(of(&|one| one.headers[1].1 = "z".to_owned()), "header server differs");
        assert_eq!(
            of(&|one| one.end = End::Cut("1 of 2 bytes came".to_owned())),
            "the foreign task's answer is cut short: 1 of 2 bytes came"
        );
        assert_eq!(
            of(&|one| one.trailers.push(("x-owner".to_owned(), "b".to_owned()))),
            "trailer x-owner only on the foreign task's"
        );
    }

    /// A short id's letters stand in other words, too; they are no echo there.
    #[test]
    fn an_echo_is_one_only_where_both_have_it() {
        let at = |ours: &str, mine: &str, theirs: &str, yours: &str| {
            let (a, b) = (Reply::default(), Reply::default());
            Seen::of(&a, mine).differs_at(ours.as_bytes(), &Seen::of(&b, yours), theirs.as_bytes())
        };
        assert_eq!(at("start1 t1 gone", "t1", "start1 t7 gone", "t7"), None);
        assert_eq!(at("a task is t", "t", "a task is q", "q"), None);
        assert_eq!(at("t1: yours is t7", "t1", "t7: yours is t7", "t7"), None);
        assert_eq!(at("t7 gone", "t1", "t7 gone", "t7"), None);
        // Somebody else's echo is none.
        assert_eq!(at("t1 of t1", "t1", "t7 of t1", "t7"), None);
        assert_eq!(at("t1 of t9", "t1", "t7 of t8", "t7"), Some(7));
        assert_eq!(at("t1 gone", "t1", "t12 gone", "t12"), None);
        assert_eq!(at("t12 gone t1", "t1", "t12 gone t12", "t12"), None);
        assert_eq!(at("x%20y x y", "x y", "x%20z x z", "x z"), None);
        assert_eq!(at("\\u00e4 \\/", "ä", "\\u00f6 \\/", "ö"), None);
        assert_eq!(at("more", "t1", "more!", "t7"), Some(4));
    }
}
