//! What a request asks for: its id, its operation and the task it names, read while the bytes stream
//! through, in bounded memory and whatever the order of members.
//!
//! The host may read more leniently than the proxy, and a call it understands must not look like
//! another one here. So content codings and Unicode encodings are undone, names are compared decoded,
//! original protobuf names and other cases count as well, a batch is read like its calls, and where
//! members are doubled the reading that discloses less is taken.

use std::borrow::Cow;

use http::HeaderMap;
use smallvec::SmallVec;

use crate::protocol::a2a::{Operation, Route};
use crate::protocol::charset::Charset;
use crate::protocol::coding::Decoder;
use crate::protocol::scan::{Kind, Malformed, Scanner, Visitor};
use crate::protocol::tree::{Text, decode_string};

/// Longest method name that is kept; a longer one is none of A2A's.
const METHOD_MAX: usize = 256;

/// The first value seen for a member of interest, and how often the member came.
#[derive(Debug, Default)]
struct Slot {
    kind: Option<Kind>,
    /// Most are short: the version, the method's name, a number for an id.
    raw: SmallVec<[u8; 16]>,
    seen: u32,
    too_long: bool,
    /// The value was read to its end.
    complete: bool,
}

impl Slot {
    fn begin(&mut self, kind: Kind) -> bool {
        self.seen = self.seen.saturating_add(1);
        if self.seen > 1 {
            return false;
        }
        self.kind = Some(kind);
        matches!(kind, Kind::String | Kind::Number)
    }

    fn push(&mut self, bytes: &[u8], max: usize) {
        if self.raw.len() + bytes.len() > max {
            self.too_long = true;
            self.raw = SmallVec::new();
        }
        if !self.too_long {
            self.raw.extend_from_slice(bytes);
        }
    }

    /// The decoded string, if that is what it is.
    fn text(&self) -> Option<Cow<'_, str>> {
        (self.kind == Some(Kind::String) && !self.too_long).then(|| decode_string(&self.raw).0)
    }

    /// A string that is not empty, or a number: enough to name something.
    fn names(&self) -> bool {
        match self.kind {
            Some(Kind::String) => self.too_long || self.raw.len() > 2,
            Some(Kind::Number) => true,
            _ => false,
        }
    }

    /// Absent, or a string that is not empty every time.
    fn is_text_or_absent(&self) -> bool {
        self.seen == 0 || self.kind == Some(Kind::String) && self.names()
    }
}

/// Where in a document a value of interest stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Nowhere,
    Id,
    Method,
    JsonRpc,
    ParamsId,
    TaskId,
    ContextId,
    MessageTaskId,
    MessageContextId,
    PushConfigId,
    HistoryLength,
}

/// What has been seen of the document so far.
#[derive(Debug)]
struct Reader {
    /// Depth of a member of `params`: 2 in a JSON-RPC call, 1 where the body is the parameters, one
    /// more in a batch.
    base: usize,
    /// Depth of a member of the call: 1, or 2 in a batch.
    call: usize,
    is_rpc: bool,
    /// Tokens longer than this cannot be echoed in any answer.
    token_max: usize,
    root_is_object: bool,
    in_params: bool,
    in_message: bool,
    place: Place,
    /// The value that is read right now.
    reading: Place,
    id: Slot,
    method: Slot,
    /// A second or later `method` member, while it is read.
    other_method: Slot,
    /// What those name, each once, and whether by its 0.3 name.
    other_operations: Vec<(Operation, bool)>,
    jsonrpc: Slot,
    params_id: Slot,
    task_id: Slot,
    context_id: Slot,
    message_task_id: Slot,
    message_context_id: Slot,
    push_config_id: Slot,
    history_length: Slot,
    params_is_object: bool,
    has_tenant: bool,
    /// A value where only text that is not empty is in order, was something else when doubled.
    bad_double: bool,
    members: Members,
}

/// The members of `params` that were met, beyond those with a slot.
#[derive(Debug, Default, Clone, Copy)]
struct Members {
    metadata: bool,
    page: bool,
    push: bool,
    push_object: bool,
    unknown: bool,
}

impl Reader {
    fn new(base: usize, token_max: usize) -> Self {
        Self {
            base,
            call: 1,
            is_rpc: base == 2,
            token_max,
            root_is_object: false,
            in_params: base == 1,
            in_message: false,
            place: Place::Nowhere,
            reading: Place::Nowhere,
            id: Slot::default(),
            method: Slot::default(),
            other_method: Slot::default(),
            other_operations: Vec::new(),
            jsonrpc: Slot::default(),
            params_id: Slot::default(),
            task_id: Slot::default(),
            context_id: Slot::default(),
            message_task_id: Slot::default(),
            message_context_id: Slot::default(),
            push_config_id: Slot::default(),
            history_length: Slot::default(),
            params_is_object: base == 1,
            has_tenant: false,
            bad_double: false,
            members: Members::default(),
        }
    }

    fn slot(&mut self, place: Place) -> Option<(&mut Slot, usize)> {
        let max = self.token_max;
        Some(match place {
            Place::Nowhere => return None,
            Place::Id => (&mut self.id, max),
            Place::Method if self.method.seen > 1 => (&mut self.other_method, METHOD_MAX),
            Place::Method => (&mut self.method, METHOD_MAX),
            Place::JsonRpc => (&mut self.jsonrpc, 64),
            Place::ParamsId => (&mut self.params_id, max),
            Place::TaskId => (&mut self.task_id, max),
            Place::ContextId => (&mut self.context_id, max),
            Place::MessageTaskId => (&mut self.message_task_id, max),
            Place::MessageContextId => (&mut self.message_context_id, max),
            Place::PushConfigId => (&mut self.push_config_id, max),
            Place::HistoryLength => (&mut self.history_length, 32),
        })
    }

    /// A member of `params` is met.
    fn params_member(&mut self, name: Option<&[u8]>) -> Place {
        match name.unwrap_or_default() {
            b"id" => return Place::ParamsId,
            b"taskId" | b"task_id" => return Place::TaskId,
            b"contextId" | b"context_id" => return Place::ContextId,
            b"pushNotificationConfigId" => return Place::PushConfigId,
            b"historyLength" | b"history_length" => return Place::HistoryLength,
            b"tenant" => self.has_tenant = true,
            b"message" => self.in_message = true,
            b"metadata" => self.members.metadata = true,
            b"pageSize" | b"page_size" | b"pageToken" | b"page_token" => self.members.page = true,
            b"url" | b"token" | b"authentication" => self.members.push = true,
            b"pushNotificationConfig" => self.members.push_object = true,
            other => {
                self.members.unknown = true;
                return self.loose_member(other);
            }
        }
        Place::Nowhere
    }

    /// A member of `params` in another case than A2A's: some hosts take it for the one it resembles.
    fn loose_member(&mut self, name: &[u8]) -> Place {
        match &*without_case(name) {
            "id" => Place::ParamsId,
            "taskid" | "task_id" => Place::TaskId,
            "contextid" | "context_id" => Place::ContextId,
            "message" => {
                self.in_message = true;
                Place::Nowhere
            }
            _ => Place::Nowhere,
        }
    }
}

impl Visitor for Reader {
    fn name(&mut self, depth: usize, name: Option<&[u8]>) {
        self.place = Place::Nowhere;
        if self.is_rpc && depth == self.call {
            self.in_params = false;
            self.in_message = false;
            match name.unwrap_or_default() {
                b"id" => self.place = Place::Id,
                b"method" => self.place = Place::Method,
                b"jsonrpc" => self.place = Place::JsonRpc,
                b"params" => self.in_params = true,
                // The id is `id` and nothing else.
                other => match &*without_case(other) {
                    "method" => self.place = Place::Method,
                    "params" => self.in_params = true,
                    _ => {}
                },
            }
        } else if self.in_params && depth == self.base {
            self.in_message = false;
            self.place = self.params_member(name);
        } else if self.in_message && depth == self.base + 1 {
            self.place = match name.unwrap_or_default() {
                b"taskId" | b"task_id" => Place::MessageTaskId,
                b"contextId" | b"context_id" => Place::MessageContextId,
                other => match &*without_case(other) {
                    "taskid" | "task_id" => Place::MessageTaskId,
                    "contextid" | "context_id" => Place::MessageContextId,
                    _ => Place::Nowhere,
                },
            };
        }
    }

    fn begin(&mut self, depth: usize, kind: Kind) -> bool {
        if depth == 0 {
            self.root_is_object = kind == Kind::Object;
            if self.is_rpc && kind == Kind::Array {
                (self.base, self.call) = (3, 2);
            }
        }
        if self.in_params && self.is_rpc && depth == self.call {
            self.params_is_object = kind == Kind::Object;
            self.in_params = self.params_is_object;
        }
        if self.in_message && depth == self.base && kind != Kind::Object {
            self.in_message = false;
        }
        let place = std::mem::replace(&mut self.place, Place::Nowhere);
        self.reading = place;
        if place == Place::Method && self.method.seen > 0 {
            self.method.seen = self.method.seen.saturating_add(1);
            self.other_method = Slot::default();
            return self.other_method.begin(kind);
        }
        let Some((slot, _)) = self.slot(place) else { return false };
        let wanted = slot.begin(kind);
        // A doubled task id: the host may take either, so one that names something must count.
        if slot.seen > 1 && matches!(kind, Kind::String | Kind::Number) && !slot.names() {
            slot.kind = Some(kind);
            slot.raw = SmallVec::new();
            slot.too_long = true;
        }
        self.bad_double |= slot.seen > 1 && kind != Kind::String;
        wanted
    }

    fn raw(&mut self, bytes: &[u8]) {
        let place = self.reading;
        if let Some((slot, max)) = self.slot(place) {
            slot.push(bytes, max);
        }
    }

    fn end(&mut self, _depth: usize, _kind: Kind) {
        if self.reading == Place::Method
            && self.method.seen > 1
            && let (Some(operation), is_0_3) = operation(&self.other_method)
            && !self.other_operations.contains(&(operation, is_0_3))
        {
            self.other_operations.push((operation, is_0_3));
        }
        let place = std::mem::replace(&mut self.reading, Place::Nowhere);
        if let Some((slot, _)) = self.slot(place) {
            slot.complete = true;
        }
    }
}

/// A JSON-RPC id as it goes into an answer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Id {
    #[default]
    Null,
    /// The raw token of the request, never re-escaped.
    Token(Text),
    /// Longer than any answer may be: written as null.
    TooLong,
}

impl Id {
    /// What is written.
    #[must_use]
    pub fn as_json(&self) -> &str {
        match self {
            Self::Null | Self::TooLong => "null",
            Self::Token(raw) => raw,
        }
    }
}

/// The task a call names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// The id as JSON, for the echo; `None` if it cannot be echoed: doubled, cut off, no strict JSON, or
    /// longer than any answer may be.
    pub json: Option<Text>,
    /// The id, decoded.
    pub text: Option<Text>,
}

/// What a request asks for.
#[derive(Debug, Clone, Default)]
pub struct Call {
    pub id: Id,
    /// A readable call without an id.
    pub notification: bool,
    pub operation: Option<Operation>,
    /// The JSON-RPC method as it was sent.
    pub method: Option<Text>,
    /// The call is task-addressed.
    pub task: Option<Task>,
    pub context: Option<Text>,
    /// The parameters are in order, so a -32602 says "not yours" (O-3).
    pub well_formed: bool,
    /// A JSON-RPC 2.0 call with an A2A method name (I-1).
    pub is_a2a: bool,
}

/// Reads one request's body.
#[derive(Debug)]
pub struct CallReader {
    decoder: Option<Decoder>,
    charset: Charset,
    scanner: Scanner,
    reader: Reader,
    result: Result<(), Malformed>,
    /// Whether 0.3 method names name a task (`normalize_0_3`).
    names_0_3: bool,
    /// What the head of an HTTP+JSON request says already.
    route: Option<Route>,
    query_in_order: bool,
    /// No body byte has been read.
    empty: bool,
    ended: bool,
}

impl CallReader {
    /// `token_max`: ids and task ids longer than this are not kept, since no answer could echo them.
    /// `route`: what an HTTP+JSON request's path says.
    #[must_use]
    pub fn new(headers: &HeaderMap, token_max: usize, names_0_3: bool, route: Option<(Route, bool)>) -> Self {
        let (decoder, result) = match Decoder::for_head(headers) {
            Ok(decoder) => (decoder, Ok(())),
            Err(_) => (None, Err(Malformed)),
        };
        let (route, query_in_order) = match route {
            Some((route, in_order)) => (Some(route), in_order),
            None => (None, true),
        };
        let base = if route.is_some() { 1 } else { 2 };
        Self {
            decoder,
            charset: Charset::default(),
            scanner: Scanner::new(),
            reader: Reader::new(base, token_max),
            result,
            names_0_3,
            route,
            query_in_order,
            empty: true,
            ended: false,
        }
    }

    /// The next bytes of the body.
    pub fn piece(&mut self, bytes: &[u8]) {
        self.empty &= bytes.is_empty();
        if self.result.is_err() {
            return;
        }
        let Self { decoder, charset, scanner, reader, result, .. } = self;
        let mut scan = |text: &[u8]| {
            if result.is_ok() {
                *result = scanner.feed(text, reader);
            }
        };
        match decoder {
            None => charset.feed(bytes, &mut scan),
            Some(decoder) => {
                let outcome = decoder.feed(bytes, &mut |piece| {
                    charset.feed(piece, &mut scan);
                    true
                });
                if outcome.is_err() {
                    *result = Err(Malformed);
                }
            }
        }
    }

    /// The body is complete.
    pub fn end(&mut self) {
        if std::mem::replace(&mut self.ended, true) || self.result.is_err() {
            return;
        }
        let Self { charset, scanner, reader, result, .. } = self;
        charset.finish(&mut |text| {
            if result.is_ok() {
                *result = scanner.feed(text, reader);
            }
        });
        if result.is_ok() {
            *result = scanner.finish(reader);
        }
    }

    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// What the request asks for, as far as it was read.
    #[must_use]
    pub fn call(&self) -> Call {
        match &self.route {
            Some(route) => self.http_call(route),
            None => self.rpc_call(),
        }
    }

    fn readable(&self) -> bool {
        self.ended && self.result.is_ok() && self.reader.root_is_object
    }

    fn rpc_call(&self) -> Call {
        let r = &self.reader;
        let readable = self.readable();
        let method = r.method.text();
        let (first, first_0_3) = operation(&r.method);
        let others = r.other_operations.iter().copied();
        // Of several methods the one that names a task counts: the host may take any.
        let mut candidates = first
            .map(|op| (op, first_0_3))
            .into_iter()
            .chain(others.clone())
            .filter(|(_, is_0_3)| !is_0_3 || self.names_0_3);
        let named = candidates.clone().find_map(|(op, is_0_3)| Some((op, is_0_3, r.task_of(op, is_0_3)?)));
        let (op, is_0_3, task) = match named {
            Some((op, is_0_3, task)) => (Some(op), is_0_3, Some(task)),
            None => match candidates.next() {
                Some((op, is_0_3)) => (Some(op), is_0_3, None),
                None => (first.or(others.clone().next().map(|(op, _)| op)), first_0_3, None),
            },
        };
        let id = if readable && r.id.seen == 1 {
            match (r.id.kind, std::str::from_utf8(&r.id.raw)) {
                (Some(_), _) if r.id.too_long => Id::TooLong,
                (Some(Kind::String), Ok(raw)) if is_text(raw) => Id::Token(raw.into()),
                (Some(Kind::Number), Ok(raw)) if is_number(raw) => Id::Token(raw.into()),
                _ => Id::Null,
            }
        } else {
            Id::Null
        };
        Call {
            id,
            notification: readable && r.id.seen == 0,
            operation: op,
            method: method.map(|method| (&*method).into()),
            well_formed: readable && task.is_some() && op.is_some_and(|op| r.in_order(op, is_0_3)),
            task,
            context: r.context(),
            is_a2a: readable
                && r.jsonrpc.text().as_deref() == Some("2.0")
                && (first.is_some() || !r.other_operations.is_empty()),
        }
    }

    fn http_call(&self, route: &Route) -> Call {
        let r = &self.reader;
        let task = match &route.task {
            Some(id) => {
                let mut json = Vec::with_capacity(id.len() + 2);
                crate::protocol::tree::write_string(id, &mut json);
                Some(Task {
                    json: String::from_utf8(json).ok().map(Into::into),
                    text: Some(id.as_str().into()),
                })
            }
            None if route.operation.is_send() => r.task_of(route.operation, false),
            None => None,
        };
        let body_in_order = self.empty
            || self.readable()
                && !r.has_tenant
                && !r.bad_double
                && !r.members.unknown
                && r.params_id.is_text_or_absent()
                && r.task_id.is_text_or_absent();
        Call {
            id: Id::Null,
            notification: false,
            operation: Some(route.operation),
            method: None,
            well_formed: task.is_some() && !route.has_tenant && self.query_in_order && body_in_order,
            task,
            context: r.context(),
            is_a2a: true,
        }
    }
}

impl Reader {
    /// The task that this operation's parameters name, if they do.
    fn task_of(&self, operation: Operation, is_0_3: bool) -> Option<Task> {
        let slot = if operation.is_send() {
            &self.message_task_id
        } else if operation.is_push() && (!is_0_3 || operation == Operation::CreatePushConfig) {
            &self.task_id
        } else if operation.names_task() {
            &self.params_id
        } else {
            return None;
        };
        if !slot.names() {
            return None;
        }
        if slot.seen > 1 || slot.too_long || !slot.complete {
            return Some(Task { json: None, text: None });
        }
        let raw = std::str::from_utf8(&slot.raw).ok();
        if slot.kind == Some(Kind::Number) {
            return Some(Task {
                json: raw.filter(|r| is_number(r)).map(|r| format!("\"{r}\"").into()),
                text: raw.map(Into::into),
            });
        }
        let (text, odd) = decode_string(&slot.raw);
        let json = raw.filter(|raw| is_text(raw) && !odd).map(Into::into);
        Some(Task { json, text: Some((&*text).into()) })
    }

    fn context(&self) -> Option<Text> {
        [&self.message_context_id, &self.context_id]
            .into_iter()
            .filter(|slot| slot.seen == 1)
            .find_map(Slot::text)
            .map(|text| (&*text).into())
    }

    /// O-3: ids non-empty strings, `historyLength` absent or an integer of at least 0, nothing unknown,
    /// no tenant.
    fn in_order(&self, operation: Operation, is_0_3: bool) -> bool {
        use Operation::{
            CancelTask, CreatePushConfig, DeletePushConfig, GetPushConfig, GetTask, ListPushConfigs,
            SubscribeToTask,
        };
        let m = self.members;
        let absent = |slot: &Slot| slot.seen == 0;
        let given = |slot: &Slot| slot.seen > 0 && slot.is_text_or_absent();
        if self.has_tenant || m.unknown || self.bad_double || !self.params_is_object {
            return false;
        }
        let history = absent(&self.history_length) || operation == GetTask && is_count(&self.history_length);
        let only = |page: bool, push: bool, metadata: bool| {
            (page || !m.page) && (push || !m.push) && (metadata || !m.metadata) && (push || !m.push_object)
        };
        history
            && match (operation, is_0_3) {
                (GetTask | CancelTask | SubscribeToTask, _) => {
                    let metadata = is_0_3 || operation == CancelTask;
                    given(&self.params_id)
                        && absent(&self.task_id)
                        && absent(&self.push_config_id)
                        && only(false, false, metadata)
                }
                (CreatePushConfig, false) => {
                    given(&self.task_id)
                        && self.params_id.is_text_or_absent()
                        && absent(&self.push_config_id)
                        && !m.push_object
                        && only(false, true, false)
                }
                (GetPushConfig | DeletePushConfig, false) => {
                    given(&self.task_id)
                        && given(&self.params_id)
                        && absent(&self.push_config_id)
                        && only(false, false, false)
                }
                (ListPushConfigs, false) => {
                    given(&self.task_id)
                        && absent(&self.params_id)
                        && absent(&self.push_config_id)
                        && only(true, false, false)
                }
                (CreatePushConfig, true) => given(&self.task_id) && !m.push && only(false, true, true),
                (GetPushConfig | DeletePushConfig | ListPushConfigs, true) => {
                    given(&self.params_id)
                        && absent(&self.task_id)
                        && self.push_config_id.is_text_or_absent()
                        && only(false, false, true)
                }
                _ => false,
            }
    }
}

/// A member's name as hosts read it that match names without case, Go's two odd letters included.
fn without_case(name: &[u8]) -> String {
    let fold = |c: char| match c {
        '\u{17f}' => 's',
        '\u{212a}' => 'k',
        c => c.to_ascii_lowercase(),
    };
    String::from_utf8_lossy(name).chars().map(fold).collect()
}

/// The operation a method member names, and whether by its 0.3 name.
fn operation(slot: &Slot) -> (Option<Operation>, bool) {
    let Some(name) = slot.text() else { return (None, false) };
    match Operation::from_method(&name) {
        Some(op) => (Some(op), false),
        None => (Operation::from_method_0_3(&name), true),
    }
}

/// Strings with bare control characters are read but cannot be echoed.
fn is_text(raw: &str) -> bool {
    raw.bytes().all(|b| b >= 0x20)
}

/// `NaN` and its like are read but cannot be echoed.
fn is_number(raw: &str) -> bool {
    raw.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'-' | b'+' | b'.' | b'e' | b'E'))
}

/// An integer of at least 0.
fn is_count(slot: &Slot) -> bool {
    slot.kind == Some(Kind::Number)
        && std::str::from_utf8(&slot.raw)
            .ok()
            .and_then(crate::protocol::json_rpc::integral)
            .is_some_and(|n| n >= 0)
}

/// Whether an HTTP+JSON query holds only what the operation knows, in order (O-3).
#[must_use]
pub fn query_in_order(query: Option<&str>, operation: Operation) -> bool {
    query.unwrap_or_default().split('&').filter(|p| !p.is_empty()).all(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        match name {
            _ if name.eq_ignore_ascii_case("a2a-version") => true,
            "historyLength" => {
                operation == Operation::GetTask
                    && !value.is_empty()
                    && value.bytes().all(|b| b.is_ascii_digit())
            }
            "pageSize" => {
                operation == Operation::ListPushConfigs && value.bytes().all(|b| b.is_ascii_digit())
            }
            "pageToken" => operation == Operation::ListPushConfigs,
            _ => false,
        }
    })
}
