//! The model host: a small A2A 1.0 host that answers every error as RFC 0211 asks, over both bindings, but for
//! the one thing that a [`Sabotage`] breaks. It is what a probe is tried on.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use super::server::{Called, Repertoire, Request, Said, Server};
use super::{Answer, Framing, INTERFACE, REST_INTERFACE};
use crate::normalize::Binding;
use crate::protocol::a2a::{A2aError, DOMAIN, OPENWOP_DOMAIN, Operation, Route};
use crate::protocol::google_rpc::{BAD_REQUEST, ERROR_INFO, QUOTA_FAILURE, RETRY_INFO, status_word};

/// A finished task of the caller's.
pub const OWN_TASK: &str = "t-4f1d9c02";
/// A task of somebody else's.
pub const THEIR_TASK: &str = "t-77ab03e1";
/// What `Authorization` has to be.
pub const CREDENTIAL: &str = "Bearer model";
/// Bytes of a body that are taken.
const BODY_LIMIT: usize = 1 << 20;
/// How much longer a look at who owns a task takes, where that shows.
const OWNER_LOOKUP: Duration = Duration::from_millis(8);

macro_rules! sabotages {
    ($($name:ident = $id:literal, $does:literal;)*) => {
        /// One thing that the model host does wrong.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Sabotage { $($name),* }
        impl Sabotage {
            pub const ALL: &'static [Self] = &[$(Self::$name),*];
            /// Its name on the command line.
            #[must_use]
            pub fn id(self) -> &'static str { match self { $(Self::$name => $id),* } }
            /// What is wrong then.
            #[must_use]
            pub fn does(self) -> &'static str { match self { $(Self::$name => $does),* } }
        }
    };
}

sabotages! {
    DataObject = "data-object", "GetTask: the details of \"not found\" are an object";
    DataEmpty = "data-empty", "GetTask: the details of \"not found\" are empty";
    ReasonSpelling = "reason-spelling", "GetTask: the reason is TaskNotFound";
    WrongDomain = "wrong-domain", "GetTask: the domain is not A2A's";
    CancelUnknown = "cancel-unknown", "CancelTask of an unknown task: -32602";
    ForeignStatus = "foreign-status", "somebody else's task is a 403 with an ETag";
    ForeignMetadata = "foreign-metadata", "somebody else's task has a scope in its metadata";
    ForeignHeader = "foreign-header", "somebody else's task has a header more";
    ForeignPhrase = "foreign-phrase", "somebody else's task has another reason phrase";
    ForeignFraming = "foreign-framing", "somebody else's task comes in chunks";
    ForeignOrder = "foreign-order", "somebody else's task has its headers in another order";
    ForeignSpelling = "foreign-spelling", "somebody else's task has a header written otherwise";
    ForeignTrailer = "foreign-trailer", "somebody else's task has a trailer";
    ForeignCut = "foreign-cut", "somebody else's task breaks off within its answer";
    ForeignTime = "foreign-time", "somebody else's task takes longer to be \"not found\"";
    CancelFinished = "cancel-finished", "CancelTask of a finished task succeeds";
    MalformedHtml = "malformed-html", "malformed JSON: a page with a stack";
    MalformedId = "malformed-id", "malformed JSON: an answer without an id, or without a message";
    MalformedCut = "malformed-cut", "malformed JSON: an answer shorter than its Content-Length";
    MalformedInternal = "malformed-internal", "malformed JSON: -32603, 500";
    NonObjectText = "non-object-text", "JSON that is no object: a line of text";
    UnknownMethodTask = "unknown-method-task", "an unknown method: TASK_NOT_FOUND, a Status without a word";
    ParamsReason = "params-reason", "invalid parameters: with an A2A reason, or details that are untyped";
    ContentTypeText = "content-type-text", "another Content-Type: 415 and a line of text";
    OversizedHtml = "oversized-html", "a body that is too large: nginx's page";
    CredentialJson = "credential-json", "no credential: a framework's JSON";
    VersionCode = "version-code", "another version: -32600, INVALID_REQUEST";
    VersionIgnored = "version-ignored", "another version: answered all the same";
    VersionsArray = "versions-array", "supportedVersions is an array";
    VersionsMore = "versions-more", "supportedVersions lists more than the card";
    PushInternal = "push-internal", "push operations: -32603";
    CardMethod = "card-method", "the extended card: -32601";
    StreamBare = "stream-bare", "SubscribeToTask: an event without details";
    IdDouble = "id-double", "ids go through a double";
    IdString = "id-string", "ids come back as strings";
    TwinReason = "twin-reason", "push operations over HTTP+JSON: another A2A reason than over JSON-RPC";
    IdNull = "id-null", "an unknown method: the id is null";
    Envelope = "envelope", "no credential: an OpenWOP envelope";
    MediaType = "media-type", "errors say text/plain";
    Charset = "charset", "errors say they are JSON in Latin-1";
    StatusOfError = "status-of-error", "errors over JSON-RPC leave with their HTTP status, over HTTP+JSON with 200";
    DebugInfo = "debug-info", "every A2A error has a DebugInfo";
    DetailOwner = "detail-owner", "every A2A error has a QuotaFailure that names somebody";
    DetailText = "detail-text", "every A2A error has a RetryInfo whose delay is a sentence";
    ExtraMember = "extra-member", "the error of an unknown method has a member more";
    NullDetails = "null-details", "the details of an unknown method's error are null";
    StatusWord = "status-word", "an unknown method over HTTP+JSON: UNKNOWN is the Status's word";
    MetadataNumber = "metadata-number", "metadata has a number";
    MetadataTask = "metadata-task", "an unknown task's taskId is another one";
    MessageOwner = "message-owner", "\"not found\" says whose the task is not";
    MessagePath = "message-path", "messages tell a file's path";
    Cookie = "cookie", "\"not found\" sets a cookie";
    OwnerHeader = "owner-header", "\"not found\" has a header Task-Owner";
}

/// The running host; it stops when this is dropped.
#[derive(Debug)]
pub struct ModelHost {
    server: Server,
    model: Arc<Model>,
}

impl ModelHost {
    /// Starts on a free port of 127.0.0.1.
    ///
    /// # Errors
    /// When no port can be bound.
    pub async fn start(sabotage: Option<Sabotage>) -> io::Result<Self> {
        let model = Arc::new(Model { sabotage, created: AtomicUsize::new(0), asked: AtomicUsize::new(0) });
        Ok(Self { server: Server::start(model.clone()).await?, model })
    }

    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.server.address
    }

    /// How many tasks were created.
    #[must_use]
    pub fn created(&self) -> usize {
        self.model.created.load(Ordering::Relaxed)
    }

    /// How many requests were answered.
    #[must_use]
    pub fn asked(&self) -> usize {
        self.model.asked.load(Ordering::Relaxed)
    }
}

#[derive(Debug)]
struct Model {
    sabotage: Option<Sabotage>,
    created: AtomicUsize,
    asked: AtomicUsize,
}

/// An error before it is written in a binding.
struct Problem {
    /// JSON-RPC's code.
    code: i64,
    http: u16,
    word: &'static str,
    message: String,
    details: Value,
    /// On JSON-RPC the HTTP status is kept, too.
    refuses: bool,
    headers: Vec<(&'static str, &'static str)>,
}

fn info(reason: &str, domain: &str, metadata: Value) -> Value {
    let mut info = json!({"@type": ERROR_INFO, "reason": reason, "domain": domain});
    if let (Some(info), false) = (info.as_object_mut(), metadata.is_null()) {
        info.insert("metadata".to_owned(), metadata);
    }
    info
}

impl Problem {
    fn a2a(error: A2aError, metadata: Value) -> Self {
        Self {
            code: error.code(),
            http: error.http_status(),
            word: error.status_word(),
            message: error.message().to_owned(),
            details: json!([info(error.reason(), DOMAIN, metadata)]),
            refuses: false,
            headers: Vec::new(),
        }
    }

    fn rpc(code: i64, http: u16, message: &str, details: Value) -> Self {
        Self {
            code,
            http,
            word: status_word(http),
            message: message.to_owned(),
            details,
            refuses: false,
            headers: Vec::new(),
        }
    }

    fn refusal(code: i64, http: u16, message: &str, reason: &str) -> Self {
        let details = json!([info(reason, OPENWOP_DOMAIN, Value::Null)]);
        Self { refuses: true, ..Self::rpc(code, http, message, details) }
    }

    fn not_found(task: &str) -> Self {
        Self::a2a(A2aError::TaskNotFound, json!({"taskId": task}))
    }

    fn write(&self, model: &Model, binding: Binding) -> Answer {
        let has = |sabotage| model.sabotage == Some(sabotage);
        let message = if has(Sabotage::MessagePath) {
            format!("{} (open /srv/agent/tasks.db)", self.message)
        } else if has(Sabotage::MessageOwner) && self.code == A2aError::TaskNotFound.code() {
            "Task not found, or you are not the owner".to_owned()
        } else {
            self.message.clone()
        };
        let mut details = self.details.clone();
        if let (true, Some(list)) = (has(Sabotage::DebugInfo), details.as_array_mut()) {
            list.push(json!({"@type": "type.googleapis.com/google.rpc.DebugInfo", "detail": "model.rs"}));
        }
        let is_a2a = A2aError::from_code(self.code).is_some();
        let more = match model.sabotage {
            Some(Sabotage::DetailOwner) if is_a2a => Some(
                json!({"@type": QUOTA_FAILURE, "violations": [{"subject": "bob@acme.corp", "description": "Used up"}]}),
            ),
            Some(Sabotage::DetailText) if is_a2a => {
                Some(json!({"@type": RETRY_INFO, "retryDelay": "ask bob"}))
            }
            _ => None,
        };
        if let (Some(more), Some(list)) = (more, details.as_array_mut()) {
            list.push(more);
        }
        if let (true, Some(metadata)) = (has(Sabotage::MetadataNumber), details.pointer_mut("/0/metadata")) {
            *metadata = json!({"attempt": 3});
        }
        let no_method = self.code == -32601;
        let keep_null = no_method && has(Sabotage::NullDetails);
        let more = no_method && has(Sabotage::ExtraMember);
        let word = if no_method && has(Sabotage::StatusWord) { "UNKNOWN" } else { self.word };
        if keep_null {
            details = Value::Null;
        }
        let (status, body) = match binding {
            Binding::JsonRpc => {
                let mut error = json!({"code": self.code, "message": message});
                if let (Some(error), true) = (error.as_object_mut(), keep_null || !details.is_null()) {
                    error.insert("data".to_owned(), details);
                }
                if let (Some(error), true) = (error.as_object_mut(), more) {
                    error.insert("method".to_owned(), json!("x"));
                }
                let status = if self.refuses || has(Sabotage::StatusOfError) { self.http } else { 200 };
                (status, format!(r#"{{"jsonrpc":"2.0","id":$ID,"error":{error}}}"#))
            }
            Binding::HttpJson => {
                let mut error = json!({"code": self.http, "status": word, "message": message});
                if let (Some(error), true) = (error.as_object_mut(), keep_null || !details.is_null()) {
                    error.insert("details".to_owned(), details);
                }
                if let (Some(error), true) = (error.as_object_mut(), more) {
                    error.insert("method".to_owned(), json!("x"));
                }
                let status = if has(Sabotage::StatusOfError) { 200 } else { self.http };
                (status, json!({"error": error}).to_string())
            }
        };
        let media = match model.sabotage {
            Some(Sabotage::MediaType) => "text/plain",
            Some(Sabotage::Charset) => "application/json; charset=iso-8859-1",
            _ => "application/json",
        };
        let mut answer = Answer::new(status, media, body);
        for (name, value) in &self.headers {
            answer = answer.header(name, value);
        }
        if has(Sabotage::Cookie) && self.code == A2aError::TaskNotFound.code() {
            answer = answer.header("set-cookie", "s=1");
        }
        if has(Sabotage::OwnerHeader) && self.code == A2aError::TaskNotFound.code() {
            answer = answer.header("task-owner", "acme");
        }
        answer
    }
}

/// What a request is about, once it could be read.
struct Asked<'a> {
    binding: Binding,
    operation: Operation,
    task: &'a str,
    streams: bool,
}

impl Repertoire for Model {
    fn answer(&self, request: &Request, called: &Called) -> Said {
        self.asked.fetch_add(1, Ordering::Relaxed);
        if (request.method.as_str(), request.path.as_str()) == ("GET", "/.well-known/agent-card.json") {
            return card(request).into();
        }
        let below = request.path.strip_prefix(REST_INTERFACE).filter(|below| below.starts_with('/'));
        let answered = match below {
            _ if request.path == INTERFACE => self.json_rpc(request, called),
            Some(below) => self.http_json(request, below),
            None => Ok(Answer::new(404, "text/plain", "no such page").into()),
        };
        let binding = if below.is_some() { Binding::HttpJson } else { Binding::JsonRpc };
        answered.unwrap_or_else(|problem| {
            let mut answer = problem.write(self, binding);
            answer.body = self.with_id(&answer.body, called);
            answer.into()
        })
    }
}

fn card(request: &Request) -> Answer {
    let host = request.header("host").unwrap_or("localhost");
    let interface = |path: &str, binding: Binding| json!({"url": format!("http://{host}{path}"), "protocolBinding": binding.as_str(), "protocolVersion": "1.0"});
    let card = json!({
        "name": "Model",
        "supportedInterfaces": [
            interface(INTERFACE, Binding::JsonRpc),
            interface(REST_INTERFACE, Binding::HttpJson),
        ],
        "capabilities": {"streaming": true, "pushNotifications": false},
    });
    Answer::json(200, card.to_string())
}

impl Model {
    fn has(&self, sabotage: Sabotage) -> bool {
        self.sabotage == Some(sabotage)
    }

    /// The id as it is sent back; the server fills in what is left.
    fn with_id(&self, body: &[u8], called: &Called) -> Vec<u8> {
        let id = match called.id.parse::<f64>() {
            _ if self.has(Sabotage::IdNull) && called.method == "ProbeNoSuchMethod" => "null".to_owned(),
            _ if called.method != Operation::GetTask.method() => return body.to_vec(),
            Ok(number) if self.has(Sabotage::IdDouble) => json!(number).to_string(),
            Ok(_) if self.has(Sabotage::IdString) => format!("\"{}\"", called.id),
            _ => return body.to_vec(),
        };
        String::from_utf8_lossy(body).replace("$ID", &id).into_bytes()
    }

    /// What is refused before anything is read, in either binding.
    fn refuse(&self, request: &Request) -> Result<(), Box<Problem>> {
        if request.header("authorization") != Some(CREDENTIAL) {
            let mut problem = Problem::refusal(-32000, 401, "Authentication required", "UNAUTHENTICATED");
            problem.headers.push(("www-authenticate", "Bearer realm=\"model\""));
            return Err(Box::new(problem));
        }
        if request.body.len() > BODY_LIMIT {
            return Err(Box::new(Problem::refusal(-32600, 413, "Payload too large", "PAYLOAD_TOO_LARGE")));
        }
        let media = request.header("content-type").unwrap_or("application/json");
        if !media.starts_with("application/json") {
            let metadata = json!({"mediaType": "text/plain"});
            return Err(Box::new(Problem::a2a(A2aError::ContentTypeNotSupported, metadata)));
        }
        if request.header("a2a-version") != Some("1.0") && !self.has(Sabotage::VersionIgnored) {
            if self.has(Sabotage::VersionCode) {
                return Err(Box::new(Problem::rpc(-32600, 400, "Invalid request", Value::Null)));
            }
            let listed = match self.sabotage {
                Some(Sabotage::VersionsArray) => json!(["1.0"]),
                Some(Sabotage::VersionsMore) => json!("1.0,0.3"),
                _ => json!("1.0"),
            };
            let metadata = json!({"supportedVersions": listed});
            return Err(Box::new(Problem::a2a(A2aError::VersionNotSupported, metadata)));
        }
        Ok(())
    }

    /// What stands in place of a refusal, where it is one of those that are broken.
    fn broken_refusal(&self, request: &Request) -> Option<Answer> {
        let anonymous = request.header("authorization").is_none();
        let large = request.body.len() > BODY_LIMIT;
        let text = request.header("content-type").is_some_and(|media| media.starts_with("text/"));
        match self.sabotage? {
            Sabotage::Envelope if anonymous => {
                Some(Answer::envelope(401, "unauthenticated", "Authentication required.", ""))
            }
            Sabotage::CredentialJson if anonymous => {
                Some(Answer::json(401, r#"{"detail":"Not authenticated"}"#))
            }
            Sabotage::OversizedHtml if large => {
                Some(Answer::new(413, "text/html", "<html>413 Request Entity Too Large</html>"))
            }
            Sabotage::ContentTypeText if text => {
                Some(Answer::new(415, "text/plain", "Unsupported Media Type"))
            }
            _ => None,
        }
    }

    fn read_object(&self, request: &Request) -> Result<Value, Result<Answer, Box<Problem>>> {
        match serde_json::from_slice::<Value>(&request.body) {
            Ok(value) if value.is_object() => Ok(value),
            Ok(_) if self.has(Sabotage::NonObjectText) => {
                Err(Ok(Answer::new(400, "text/plain", "Bad Request")))
            }
            Ok(_) => Err(Err(Box::new(Problem::rpc(-32600, 400, "Invalid request", Value::Null)))),
            Err(_) if self.has(Sabotage::MalformedHtml) => {
                Err(Ok(Answer::new(400, "text/html", "<html><pre>SyntaxError: Unexpected end</pre></html>")))
            }
            Err(_) if self.has(Sabotage::MalformedInternal) => {
                Err(Err(Box::new(Problem::rpc(-32603, 500, "Internal error", Value::Null))))
            }
            Err(_) if self.has(Sabotage::MalformedCut) => {
                let binding = if request.path == INTERFACE { Binding::JsonRpc } else { Binding::HttpJson };
                let whole =
                    Problem::rpc(-32700, 400, "Invalid JSON payload", Value::Null).write(self, binding);
                Err(Ok(whole.framing(Framing::LengthOff(9))))
            }
            Err(_) if self.has(Sabotage::MalformedId) => Err(Ok(if request.path == INTERFACE {
                Answer::json(200, r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"Invalid JSON"}}"#)
            } else {
                Answer::json(400, r#"{"error":{"code":400,"status":"INVALID_ARGUMENT","message":""}}"#)
            })),
            Err(_) => Err(Err(Box::new(Problem::rpc(-32700, 400, "Invalid JSON payload", Value::Null)))),
        }
    }

    fn invalid_params(&self, field: &str, binding: Binding) -> Box<Problem> {
        let violation = json!({"@type": BAD_REQUEST, "fieldViolations": [{"field": field, "description": "Invalid value"}]});
        let details = match binding {
            _ if !self.has(Sabotage::ParamsReason) => json!([violation]),
            Binding::JsonRpc => json!([info("INVALID_PARAMS", DOMAIN, Value::Null), violation]),
            Binding::HttpJson => json!({"field": field}),
        };
        Box::new(Problem::rpc(-32602, 400, "Invalid parameters", details))
    }

    fn json_rpc(&self, request: &Request, called: &Called) -> Result<Said, Box<Problem>> {
        if let Some(broken) = self.broken_refusal(request) {
            return Ok(broken.into());
        }
        self.refuse(request)?;
        let object = match self.read_object(request) {
            Ok(object) => object,
            Err(answered) => return answered.map(Into::into),
        };
        let Some(operation) = Operation::from_method(&called.method) else {
            return Err(Box::new(if self.has(Sabotage::UnknownMethodTask) {
                Problem::a2a(A2aError::TaskNotFound, Value::Null)
            } else {
                Problem::rpc(-32601, 404, "Method not found", Value::Null)
            }));
        };
        if operation.names_task() && called.task.is_empty() {
            return Err(self.invalid_params("id", Binding::JsonRpc));
        }
        if operation.is_send() && object.pointer("/params/message").is_none() {
            return Err(self.invalid_params("message", Binding::JsonRpc));
        }
        let streams = request.header("accept") == Some("text/event-stream");
        let asked = Asked { binding: Binding::JsonRpc, operation, task: &called.task, streams };
        let mut said = self.perform(&asked)?;
        said.answer.body = self.with_id(&said.answer.body, called);
        Ok(said)
    }

    fn http_json(&self, request: &Request, below: &str) -> Result<Said, Box<Problem>> {
        if let Some(broken) = self.broken_refusal(request) {
            return Ok(broken.into());
        }
        self.refuse(request)?;
        let method = http::Method::from_bytes(request.method.as_bytes()).unwrap_or_default();
        let route = Route::parse(below, &method).filter(|_| method != http::Method::PATCH);
        let Some(route) = route else {
            let mut problem = Problem::refusal(-32601, 405, "Method not found", "METHOD_NOT_FOUND");
            if self.has(Sabotage::UnknownMethodTask) {
                problem.message.clear();
            }
            return Err(Box::new(problem));
        };
        if method == http::Method::POST
            && let Err(answered) = self.read_object(request)
        {
            return answered.map(Into::into);
        }
        if request.query.contains("historyLength=abc") {
            return Err(self.invalid_params("historyLength", Binding::HttpJson));
        }
        let task = route.task.unwrap_or_default();
        let streams = request.header("accept") == Some("text/event-stream");
        let asked = Asked { binding: Binding::HttpJson, operation: route.operation, task: &task, streams };
        self.perform(&asked)
    }

    fn perform(&self, asked: &Asked<'_>) -> Result<Said, Box<Problem>> {
        let success = |result: Value| -> Said {
            match asked.binding {
                Binding::JsonRpc => Answer::result(&result.to_string()).into(),
                Binding::HttpJson => Answer::json(200, result.to_string()).into(),
            }
        };
        let done = json!({"id": OWN_TASK, "contextId": "c-1", "status": {"state": "TASK_STATE_COMPLETED"}});
        match asked.operation {
            Operation::SendMessage | Operation::SendStreamingMessage => {
                self.created.fetch_add(1, Ordering::Relaxed);
                Ok(success(json!({"task": done})))
            }
            Operation::ListTasks => Ok(success(json!({"tasks": [], "nextPageToken": ""}))),
            Operation::GetExtendedAgentCard if self.has(Sabotage::CardMethod) => {
                Err(Box::new(Problem::rpc(-32601, 404, "Method not found", Value::Null)))
            }
            Operation::GetExtendedAgentCard => {
                Err(Box::new(Problem::a2a(A2aError::ExtendedAgentCardNotConfigured, Value::Null)))
            }
            operation
                if operation.is_push()
                    && asked.binding == Binding::HttpJson
                    && self.has(Sabotage::TwinReason) =>
            {
                Err(Box::new(Problem::not_found(asked.task)))
            }
            operation if operation.is_push() => Err(Box::new(if self.has(Sabotage::PushInternal) {
                Problem::rpc(-32603, 500, "Internal error", Value::Null)
            } else {
                Problem::a2a(A2aError::PushNotificationNotSupported, Value::Null)
            })),
            Operation::GetTask if asked.task == OWN_TASK => Ok(success(done)),
            Operation::CancelTask if asked.task == OWN_TASK => {
                if self.has(Sabotage::CancelFinished) {
                    return Ok(success(done));
                }
                Err(Box::new(Problem::a2a(A2aError::TaskNotCancelable, Value::Null)))
            }
            Operation::SubscribeToTask if asked.task == OWN_TASK => {
                Err(Box::new(Problem::a2a(A2aError::UnsupportedOperation, Value::Null)))
            }
            _ => self.not_found(asked),
        }
    }

    /// A task that does not exist, and one that is somebody else's.
    fn not_found(&self, asked: &Asked<'_>) -> Result<Said, Box<Problem>> {
        let foreign = asked.task == THEIR_TASK;
        let get = asked.operation == Operation::GetTask;
        let mut problem = Problem::not_found(asked.task);
        let set = |problem: &mut Problem, pointer: &str, value: Value| {
            if let Some(place) = problem.details.pointer_mut(pointer) {
                *place = value;
            }
        };
        match self.sabotage {
            Some(Sabotage::DataObject) if get => {
                problem.details = json!({"reason": "TASK_NOT_FOUND", "domain": DOMAIN});
            }
            Some(Sabotage::DataEmpty) if get => problem.details = json!([]),
            Some(Sabotage::ReasonSpelling) if get => set(&mut problem, "/0/reason", json!("TaskNotFound")),
            Some(Sabotage::WrongDomain) if get => set(&mut problem, "/0/domain", json!("example.com")),
            Some(Sabotage::CancelUnknown) if asked.operation == Operation::CancelTask => {
                problem = Problem::rpc(-32602, 400, "Invalid parameters", Value::Null);
            }
            Some(Sabotage::ForeignMetadata) if foreign => {
                set(&mut problem, "/0/metadata", json!({"taskId": asked.task, "field": "tenant"}));
            }
            Some(Sabotage::ForeignHeader) if foreign => problem.headers.push(("vary", "authorization")),
            Some(Sabotage::ForeignStatus) if foreign => {
                problem = Problem::refusal(-32000, 403, "Forbidden", "PERMISSION_DENIED");
                problem.headers.push(("etag", "\"r-41\""));
            }
            Some(Sabotage::MetadataTask) if get => {
                set(&mut problem, "/0/metadata", json!({"taskId": OWN_TASK}));
            }
            Some(Sabotage::StreamBare) if asked.streams => {
                let event = match asked.binding {
                    Binding::JsonRpc => {
                        r#"{"jsonrpc":"2.0","id":$ID,"error":{"code":-32001,"message":"Task not found"}}"#
                    }
                    Binding::HttpJson => {
                        r#"{"error":{"code":404,"status":"NOT_FOUND","message":"Task not found"}}"#
                    }
                };
                return Ok(Answer::stream(format!("event: error\ndata: {event}\n\n")).into());
            }
            _ => {}
        }
        if foreign && self.has(Sabotage::ForeignTime) {
            let answer = problem.write(self, asked.binding);
            return Ok(Said { answer, after: OWNER_LOOKUP });
        }
        match self.on_the_wire(problem.write(self, asked.binding), foreign) {
            Some(answer) => Ok(answer.into()),
            None => Err(Box::new(problem)),
        }
    }

    /// "Not found" as it leaves where a sabotage is about how; a foreign task's otherwise than others.
    fn on_the_wire(&self, answer: Answer, foreign: bool) -> Option<Answer> {
        Some(match self.sabotage? {
            Sabotage::ForeignPhrase if foreign => Answer { phrase: "Hidden", ..answer },
            Sabotage::ForeignFraming if foreign => answer.framing(Framing::Chunked(64)),
            Sabotage::ForeignOrder => {
                let mut answer = answer.header("vary", "accept").header("cache-control", "no-store");
                if foreign {
                    answer.headers.reverse();
                }
                answer
            }
            Sabotage::ForeignSpelling => {
                answer.header(if foreign { "Cache-control" } else { "Cache-Control" }, "no-store")
            }
            Sabotage::ForeignTrailer => {
                let mut answer = answer.framing(Framing::Chunked(64));
                if foreign {
                    answer.trailers.push(("x-checked", "1"));
                }
                answer
            }
            Sabotage::ForeignCut if foreign => answer.framing(Framing::LengthOff(40)),
            _ => return None,
        })
    }
}
