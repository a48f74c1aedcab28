//! A2A v1.0.1: the nine errors, the operations, and the routes of the HTTP+JSON binding.

use std::borrow::Cow;
use std::fmt::Write as _;

/// The domain of an A2A reason.
pub const DOMAIN: &str = "a2a-protocol.org";
/// The domain of a reason that came from OpenWOP or from a refusal.
pub const OPENWOP_DOMAIN: &str = "openwop.dev";

/// The errors of A2A §3.3.2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum A2aError {
    TaskNotFound,
    TaskNotCancelable,
    PushNotificationNotSupported,
    UnsupportedOperation,
    ContentTypeNotSupported,
    InvalidAgentResponse,
    ExtendedAgentCardNotConfigured,
    ExtensionSupportRequired,
    VersionNotSupported,
}

impl A2aError {
    pub const ALL: [Self; 9] = [
        Self::TaskNotFound,
        Self::TaskNotCancelable,
        Self::PushNotificationNotSupported,
        Self::UnsupportedOperation,
        Self::ContentTypeNotSupported,
        Self::InvalidAgentResponse,
        Self::ExtendedAgentCardNotConfigured,
        Self::ExtensionSupportRequired,
        Self::VersionNotSupported,
    ];

    /// The JSON-RPC code (A2A §9.5).
    #[must_use]
    pub fn code(self) -> i64 {
        -32001 - self as i64
    }

    #[must_use]
    pub fn from_code(code: i64) -> Option<Self> {
        Self::ALL.into_iter().find(|e| e.code() == code)
    }

    /// The name the specification gives it (A2A §3.3.2).
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::TaskNotFound => "TaskNotFoundError",
            Self::TaskNotCancelable => "TaskNotCancelableError",
            Self::PushNotificationNotSupported => "PushNotificationNotSupportedError",
            Self::UnsupportedOperation => "UnsupportedOperationError",
            Self::ContentTypeNotSupported => "ContentTypeNotSupportedError",
            Self::InvalidAgentResponse => "InvalidAgentResponseError",
            Self::ExtendedAgentCardNotConfigured => "ExtendedAgentCardNotConfiguredError",
            Self::ExtensionSupportRequired => "ExtensionSupportRequiredError",
            Self::VersionNotSupported => "VersionNotSupportedError",
        }
    }

    /// The ErrorInfo reason (RFC 0211 §A).
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Self::TaskNotFound => "TASK_NOT_FOUND",
            Self::TaskNotCancelable => "TASK_NOT_CANCELABLE",
            Self::PushNotificationNotSupported => "PUSH_NOTIFICATION_NOT_SUPPORTED",
            Self::UnsupportedOperation => "UNSUPPORTED_OPERATION",
            Self::ContentTypeNotSupported => "CONTENT_TYPE_NOT_SUPPORTED",
            Self::InvalidAgentResponse => "INVALID_AGENT_RESPONSE",
            Self::ExtendedAgentCardNotConfigured => "EXTENDED_AGENT_CARD_NOT_CONFIGURED",
            Self::ExtensionSupportRequired => "EXTENSION_SUPPORT_REQUIRED",
            Self::VersionNotSupported => "VERSION_NOT_SUPPORTED",
        }
    }

    /// From a reason in any spelling hosts use: `TaskNotFoundError`, `taskNotFound`, `task-not-found` (F-2).
    #[must_use]
    pub fn from_reason(spelling: &str) -> Option<Self> {
        Self::from_folded(&fold(spelling))
    }

    /// The same from what [`fold`] makes of it.
    #[must_use]
    pub fn from_folded(folded: &str) -> Option<Self> {
        let name = folded.strip_suffix("error").unwrap_or(folded);
        Self::ALL.into_iter().find(|error| folded_bytes(error.reason()).eq(name.bytes()))
    }

    /// The HTTP status of the HTTP+JSON binding (A2A §5.4).
    #[must_use]
    pub fn http_status(self) -> u16 {
        match self {
            Self::TaskNotFound => 404,
            Self::InvalidAgentResponse => 500,
            _ => 400,
        }
    }

    /// The google.rpc.Code of the HTTP+JSON binding (A2A §5.4).
    #[must_use]
    pub fn status_word(self) -> &'static str {
        match self {
            Self::TaskNotFound => "NOT_FOUND",
            Self::ContentTypeNotSupported => "INVALID_ARGUMENT",
            Self::InvalidAgentResponse => "INTERNAL",
            _ => "FAILED_PRECONDITION",
        }
    }

    /// The canonical text (D-1).
    #[must_use]
    pub fn message(self) -> &'static str {
        match self {
            Self::TaskNotFound => "Task not found",
            Self::TaskNotCancelable => "Task cannot be canceled",
            Self::PushNotificationNotSupported => "Push notifications are not supported",
            Self::UnsupportedOperation => "This operation is not supported",
            Self::ContentTypeNotSupported => "Incompatible content types",
            Self::InvalidAgentResponse => "Invalid agent response",
            Self::ExtendedAgentCardNotConfigured => "Extended agent card is not configured",
            Self::ExtensionSupportRequired => "Extension support required",
            Self::VersionNotSupported => "Protocol version is not supported",
        }
    }
}

/// A name without case and punctuation, so that every spelling of it is one.
#[must_use]
pub fn fold(name: &str) -> String {
    let mut folded = name.to_owned();
    folded.retain(|c| c.is_ascii_alphanumeric());
    folded.make_ascii_lowercase();
    folded
}

fn folded_bytes(name: &str) -> impl Iterator<Item = u8> {
    name.bytes().filter(u8::is_ascii_alphanumeric).map(|byte| byte.to_ascii_lowercase())
}

/// What a request asks for, in either binding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    SendMessage,
    SendStreamingMessage,
    GetTask,
    ListTasks,
    CancelTask,
    SubscribeToTask,
    CreatePushConfig,
    GetPushConfig,
    ListPushConfigs,
    DeletePushConfig,
    GetExtendedAgentCard,
}

impl Operation {
    pub const ALL: [Self; 11] = [
        Self::SendMessage,
        Self::SendStreamingMessage,
        Self::GetTask,
        Self::ListTasks,
        Self::CancelTask,
        Self::SubscribeToTask,
        Self::CreatePushConfig,
        Self::GetPushConfig,
        Self::ListPushConfigs,
        Self::DeletePushConfig,
        Self::GetExtendedAgentCard,
    ];

    /// From a JSON-RPC method name of protocol 1.0.
    #[must_use]
    pub fn from_method(name: &str) -> Option<Self> {
        Some(match name {
            "SendMessage" => Self::SendMessage,
            "SendStreamingMessage" => Self::SendStreamingMessage,
            "GetTask" => Self::GetTask,
            "ListTasks" => Self::ListTasks,
            "CancelTask" => Self::CancelTask,
            "SubscribeToTask" => Self::SubscribeToTask,
            "CreateTaskPushNotificationConfig" => Self::CreatePushConfig,
            "GetTaskPushNotificationConfig" => Self::GetPushConfig,
            "ListTaskPushNotificationConfigs" => Self::ListPushConfigs,
            "DeleteTaskPushNotificationConfig" => Self::DeletePushConfig,
            "GetExtendedAgentCard" => Self::GetExtendedAgentCard,
            _ => return None,
        })
    }

    /// From a JSON-RPC method name of protocol 0.3.
    #[must_use]
    pub fn from_method_0_3(name: &str) -> Option<Self> {
        Some(match name {
            "message/send" => Self::SendMessage,
            "message/stream" => Self::SendStreamingMessage,
            "tasks/get" => Self::GetTask,
            "tasks/list" => Self::ListTasks,
            "tasks/cancel" => Self::CancelTask,
            "tasks/resubscribe" => Self::SubscribeToTask,
            "tasks/pushNotificationConfig/set" => Self::CreatePushConfig,
            "tasks/pushNotificationConfig/get" => Self::GetPushConfig,
            "tasks/pushNotificationConfig/list" => Self::ListPushConfigs,
            "tasks/pushNotificationConfig/delete" => Self::DeletePushConfig,
            "agent/getAuthenticatedExtendedCard" => Self::GetExtendedAgentCard,
            _ => return None,
        })
    }

    /// The JSON-RPC method of protocol 1.0.
    #[must_use]
    pub fn method(self) -> &'static str {
        match self {
            Self::SendMessage => "SendMessage",
            Self::SendStreamingMessage => "SendStreamingMessage",
            Self::GetTask => "GetTask",
            Self::ListTasks => "ListTasks",
            Self::CancelTask => "CancelTask",
            Self::SubscribeToTask => "SubscribeToTask",
            Self::CreatePushConfig => "CreateTaskPushNotificationConfig",
            Self::GetPushConfig => "GetTaskPushNotificationConfig",
            Self::ListPushConfigs => "ListTaskPushNotificationConfigs",
            Self::DeletePushConfig => "DeleteTaskPushNotificationConfig",
            Self::GetExtendedAgentCard => "GetExtendedAgentCard",
        }
    }

    /// The JSON-RPC method of protocol 0.3.
    #[must_use]
    pub fn method_0_3(self) -> &'static str {
        match self {
            Self::SendMessage => "message/send",
            Self::SendStreamingMessage => "message/stream",
            Self::GetTask => "tasks/get",
            Self::ListTasks => "tasks/list",
            Self::CancelTask => "tasks/cancel",
            Self::SubscribeToTask => "tasks/resubscribe",
            Self::CreatePushConfig => "tasks/pushNotificationConfig/set",
            Self::GetPushConfig => "tasks/pushNotificationConfig/get",
            Self::ListPushConfigs => "tasks/pushNotificationConfig/list",
            Self::DeletePushConfig => "tasks/pushNotificationConfig/delete",
            Self::GetExtendedAgentCard => "agent/getAuthenticatedExtendedCard",
        }
    }

    /// Method and path below the base of an HTTP+JSON interface; only the operations that name a task
    /// or a config use them.
    #[must_use]
    pub fn route(self, task: &str, config: &str) -> (http::Method, String) {
        use http::Method;
        let task = percent_encode(task);
        let push = format!("/tasks/{task}/pushNotificationConfigs");
        let one = format!("{push}/{}", percent_encode(config));
        match self {
            Self::SendMessage => (Method::POST, "/message:send".to_owned()),
            Self::SendStreamingMessage => (Method::POST, "/message:stream".to_owned()),
            Self::GetTask => (Method::GET, format!("/tasks/{task}")),
            Self::ListTasks => (Method::GET, "/tasks".to_owned()),
            Self::CancelTask => (Method::POST, format!("/tasks/{task}:cancel")),
            Self::SubscribeToTask => (Method::POST, format!("/tasks/{task}:subscribe")),
            Self::CreatePushConfig => (Method::POST, push),
            Self::ListPushConfigs => (Method::GET, push),
            Self::GetPushConfig => (Method::GET, one),
            Self::DeletePushConfig => (Method::DELETE, one),
            Self::GetExtendedAgentCard => (Method::GET, "/extendedAgentCard".to_owned()),
        }
    }

    /// Answered by a stream when the client accepts one.
    #[must_use]
    pub fn is_stream(self) -> bool {
        matches!(self, Self::SendStreamingMessage | Self::SubscribeToTask)
    }

    #[must_use]
    pub fn is_push(self) -> bool {
        matches!(
            self,
            Self::CreatePushConfig | Self::GetPushConfig | Self::ListPushConfigs | Self::DeletePushConfig
        )
    }

    #[must_use]
    pub fn is_send(self) -> bool {
        matches!(self, Self::SendMessage | Self::SendStreamingMessage)
    }

    /// Always names a task, if its request is in order; a message may.
    #[must_use]
    pub fn names_task(self) -> bool {
        self.is_push() || matches!(self, Self::GetTask | Self::CancelTask | Self::SubscribeToTask)
    }
}

/// A path below an HTTP+JSON interface's base that is an A2A route (I-2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    pub operation: Operation,
    /// The percent-decoded `{id}`.
    pub task: Option<String>,
    /// The percent-decoded `{configId}`.
    pub config: Option<String>,
    /// There is a `/{tenant}` before the route.
    pub has_tenant: bool,
}

impl Route {
    /// From what follows the base path. `get` tells the listing of push configs from their creation.
    #[must_use]
    pub fn parse(below: &str, method: &http::Method) -> Option<Self> {
        let segments: Vec<String> = below.strip_prefix('/')?.split('/').map(percent_decode).collect();
        let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
        Self::of_any(&segments, method).or_else(|| Self::parse_loosely(below, method))
    }

    /// A path that is a route only for hosts that decode before they route, ignore case, or tidy up
    /// slashes and dots. Where it names a task it must not be a way around O-1.
    fn parse_loosely(below: &str, method: &http::Method) -> Option<Self> {
        let decoded = percent_decode(below);
        let segments = tidy(&decoded);
        let plain: Vec<String> = segments.iter().map(|s| Self::without_case(s)).collect();
        let plain: Vec<&str> = plain.iter().map(String::as_str).collect();
        Self::of_any(&plain, method).filter(|route| route.task.is_some() || route.operation.is_send())
    }

    /// A segment with the words of routes in it as A2A writes them, its id untouched.
    fn without_case(segment: &str) -> String {
        for word in ["message:send", "message:stream", "tasks", "pushNotificationConfigs"] {
            if segment.eq_ignore_ascii_case(word) {
                return word.to_owned();
            }
        }
        for verb in [":cancel", ":subscribe"] {
            let id = segment.len().checked_sub(verb.len()).and_then(|at| segment.split_at_checked(at));
            if let Some((id, end)) = id
                && end.eq_ignore_ascii_case(verb)
            {
                return [id, verb].concat();
            }
        }
        segment.to_owned()
    }

    fn of_any(segments: &[&str], method: &http::Method) -> Option<Self> {
        Self::of(segments, method, false).or_else(|| match segments.split_first() {
            // The routes of 0.3 begin with their version, which is no tenant.
            Some((&"v1", ["card"])) => Self::of(&["extendedAgentCard"], method, false),
            Some((tenant, rest)) if !tenant.is_empty() => Self::of(rest, method, *tenant != "v1"),
            _ => None,
        })
    }

    fn of(segments: &[&str], method: &http::Method, has_tenant: bool) -> Option<Self> {
        let plain = |operation| Some(Self { operation, task: None, config: None, has_tenant });
        let task = |operation, id: &str| {
            (!id.is_empty()).then(|| Self { operation, task: Some(id.to_owned()), config: None, has_tenant })
        };
        match segments {
            ["message:send"] => plain(Operation::SendMessage),
            ["message:stream"] => plain(Operation::SendStreamingMessage),
            ["tasks"] => plain(Operation::ListTasks),
            ["extendedAgentCard"] => plain(Operation::GetExtendedAgentCard),
            ["tasks", id] => {
                if let Some(id) = id.strip_suffix(":cancel") {
                    task(Operation::CancelTask, id)
                } else if let Some(id) = id.strip_suffix(":subscribe") {
                    task(Operation::SubscribeToTask, id)
                } else {
                    task(Operation::GetTask, id)
                }
            }
            ["tasks", id, "pushNotificationConfigs"] => {
                let creates = *method == http::Method::POST;
                task(if creates { Operation::CreatePushConfig } else { Operation::ListPushConfigs }, id)
            }
            ["tasks", id, "pushNotificationConfigs", config] if !config.is_empty() => {
                let deletes = *method == http::Method::DELETE;
                let operation = if deletes { Operation::DeletePushConfig } else { Operation::GetPushConfig };
                task(operation, id).map(|route| Self { config: Some((*config).to_owned()), ..route })
            }
            _ => None,
        }
    }
}

/// The segments of a path as lenient routers see them: without parameters (`;x=1`), empty and dot
/// segments.
#[must_use]
pub fn tidy(path: &str) -> Vec<&str> {
    let mut segments = Vec::new();
    for segment in path.split('/') {
        match segment.split(';').next().unwrap_or_default() {
            "" | "." => {}
            ".." => drop(segments.pop()),
            other => segments.push(other),
        }
    }
    segments
}

/// The path with needlessly encoded letters, digits and `-._~` decoded, as hosts read it: `/%61` is
/// `/a`, or the rules could be walked around (RFC 3986, 6.2.2.2).
#[must_use]
pub fn plain_path(path: &str) -> Cow<'_, str> {
    if !path.contains('%') {
        return path.into();
    }
    let mut plain = String::with_capacity(path.len());
    let mut rest = path;
    while let Some((before, after)) = rest.split_once('%') {
        plain.push_str(before);
        let decoded = after.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok()).map(char::from);
        match decoded {
            Some(letter) if letter.is_ascii_alphanumeric() || "-._~".contains(letter) => {
                plain.push(letter);
                rest = after.get(2..).unwrap_or_default();
            }
            _ => {
                plain.push('%');
                rest = after;
            }
        }
    }
    plain.push_str(rest);
    plain.into()
}

/// Text as one segment of a path.
#[must_use]
pub fn percent_encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing to a string does not fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

/// Undoes percent-encoding; what is not UTF-8 then becomes U+FFFD.
#[must_use]
pub fn percent_decode(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte == b'%'
            && let [high, low, after @ ..] = after
            && let (Some(high), Some(low)) = (char::from(*high).to_digit(16), char::from(*low).to_digit(16))
        {
            out.push(u8::try_from(high << 4 | low).unwrap_or(b'?'));
            rest = after;
        } else {
            out.push(byte);
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Method;

    #[test]
    fn the_table_is_the_facts() {
        let facts: serde_json::Value =
            serde_json::from_str(include_str!("../../tests/facts/a2a-errors.json")).unwrap();
        assert_eq!(facts["domain"], DOMAIN);
        assert_eq!(facts["refusal_domain"], OPENWOP_DOMAIN);
        let rows = facts["a2a"].as_array().unwrap();
        assert_eq!(rows.len(), A2aError::ALL.len());
        for (row, error) in rows.iter().zip(A2aError::ALL) {
            assert_eq!(row["code"].as_i64().unwrap(), error.code());
            assert_eq!(row["reason"], error.reason());
            assert_eq!(row["name"], error.name());
            assert_eq!(row["http_status"].as_u64().unwrap(), u64::from(error.http_status()));
            assert_eq!(row["rpc_status"], error.status_word());
            assert_eq!(row["message"], error.message());
            assert_eq!(A2aError::from_reason(row["name"].as_str().unwrap()), Some(error));
        }
    }

    #[test]
    fn f2_spellings_fold() {
        for spelling in
            ["TASK_NOT_FOUND", "TaskNotFoundError", "taskNotFound", "task-not-found", "task not found"]
        {
            assert_eq!(A2aError::from_reason(spelling), Some(A2aError::TaskNotFound), "{spelling}");
        }
        for spelling in ["", "Error", "NOT_FOUND", "TASK_NOT_FOUND_2", "UNKNOWN_ERROR"] {
            assert_eq!(A2aError::from_reason(spelling), None, "{spelling}");
        }
    }

    #[test]
    fn i2_routes() {
        let route = |method: Method, below: &str| Route::parse(below, &method);
        let get = |below| route(Method::GET, below);
        assert_eq!(get("/tasks").unwrap().operation, Operation::ListTasks);
        let r = get("/tasks/a%2Fb").unwrap();
        assert_eq!((r.operation, r.task.as_deref(), r.has_tenant), (Operation::GetTask, Some("a/b"), false));
        let r = route(Method::POST, "/acme/tasks/t-1:cancel").unwrap();
        assert_eq!(
            (r.operation, r.task.as_deref(), r.has_tenant),
            (Operation::CancelTask, Some("t-1"), true)
        );
        let r = get("/tasks/t%3Asubscribe").unwrap();
        assert_eq!((r.operation, r.task.as_deref()), (Operation::SubscribeToTask, Some("t")));
        let r = route(Method::DELETE, "/tasks/t/pushNotificationConfigs/p").unwrap();
        assert_eq!((r.operation, r.config.as_deref()), (Operation::DeletePushConfig, Some("p")));
        let r = get("/tasks%2Ft-1/").unwrap();
        assert_eq!((r.operation, r.task.as_deref()), (Operation::GetTask, Some("t-1")));
        let r = route(Method::POST, "/x/../Acme/TASKS//t-1:Cancel/").unwrap();
        assert_eq!(
            (r.operation, r.task.as_deref(), r.has_tenant),
            (Operation::CancelTask, Some("t-1"), true)
        );
        for none in ["", "/", "/healthz", "/tasks/", "/a/b/tasks", "/tasks/a/b", "/message:nope", "tasks"] {
            assert_eq!(get(none), None, "{none}");
        }
    }

    #[test]
    fn operations_are_written_as_they_are_read() {
        use Operation::*;
        for operation in [
            SendMessage,
            SendStreamingMessage,
            GetTask,
            ListTasks,
            CancelTask,
            SubscribeToTask,
            CreatePushConfig,
            GetPushConfig,
            ListPushConfigs,
            DeletePushConfig,
            GetExtendedAgentCard,
        ] {
            assert_eq!(Operation::from_method(operation.method()), Some(operation));
            assert_eq!(Operation::from_method_0_3(operation.method_0_3()), Some(operation));
            let (method, path) = operation.route("a/b é", "c:d");
            let route = Route::parse(&path, &method).unwrap();
            assert_eq!(route.operation, operation, "{path}");
            assert_eq!(route.task.as_deref(), operation.names_task().then_some("a/b é"), "{path}");
        }
    }

    #[test]
    fn only_needless_encoding_is_undone() {
        for (path, expected) in
            [("/a", "/a"), ("/%61%2f%7E%", "/a%2f~%"), ("/%zz%6", "/%zz%6"), ("%+1", "%+1")]
        {
            assert_eq!(plain_path(path), expected);
        }
    }
}
