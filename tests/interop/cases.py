"""What is tried: the hosts, the calls that the client libraries make, and what their callers must see.

README.md says what each host can and cannot show. A host's answers differ with the way its owner guards tasks,
so every guard is an interface of its own.
"""
from dataclasses import dataclass, field

from wire import Request

OWNER, CALLER = "robin-of-acme", "alice-of-zeta"
UNKNOWN = "00000000-1111-4222-8333-444444444444"


@dataclass(frozen=True)
class Kind:
    """One outcome, and how each SDK tells its caller about it."""
    name: str
    code: int
    python: str
    js: str
    http: int = 200
    # The status on the HTTP+JSON binding.
    rest: int = 400
    # What the error's data must hold where the SDK hands it to its caller.
    metadata: tuple = ()

    def raised_by(self, client):
        """The class that the client raises; empty for a result."""
        if client in ("python", "js") or not self.code:
            return getattr(self, client.removesuffix("-0.3"))
        if client == "python-0.3":
            return "A2AClientJSONRPCError"
        return JS_0_3_ERRORS.get(self.code, "JSONRPCTransportError")


JS_0_3_ERRORS = {-32001: "TaskNotFoundJSONRPCError", -32002: "TaskNotCancelableJSONRPCError",
                 -32003: "PushNotificationNotSupportedJSONRPCError"}


RESULT = Kind("result", 0, "", "")
NOT_FOUND = Kind("TASK_NOT_FOUND", -32001, "TaskNotFoundError", "TaskNotFoundError", rest=404, metadata=("taskId",))
NOT_CANCELABLE = Kind("TASK_NOT_CANCELABLE", -32002, "TaskNotCancelableError", "TaskNotCancelableError")
NO_PUSH = Kind("PUSH_NOTIFICATION_NOT_SUPPORTED", -32003, "PushNotificationNotSupportedError",
               "PushNotificationNotSupportedError")
NO_CARD = Kind("EXTENDED_AGENT_CARD_NOT_CONFIGURED", -32007, "ExtendedAgentCardNotConfiguredError",
               "ExtendedAgentCardNotConfiguredError")
BAD_VERSION = Kind("VERSION_NOT_SUPPORTED", -32009, "VersionNotSupportedError", "VersionNotSupportedError",
                   metadata=("supportedVersions",))
UNSUPPORTED = Kind("UNSUPPORTED_OPERATION", -32004, "UnsupportedOperationError", "UnsupportedOperationError")
NO_METHOD = Kind("-32601", -32601, "MethodNotFoundError", "RequestMalformedError")
BAD_PARAMS = Kind("-32602", -32602, "InvalidParamsError", "RequestMalformedError")
INTERNAL = Kind("-32603", -32603, "InternalError", "JsonRpcTransportError")


def http_error(status, code, rest=False):
    """A refusal that stays an HTTP status: Python tells the status, JavaScript the JSON-RPC code."""
    js = "A2AError" if rest else ERRORS_BY_CODE[code]
    return Kind(f"HTTP {status}", code, "A2AClientError", js, http=status, rest=status)


ERRORS_BY_CODE = {-32000: "JsonRpcTransportError", -32600: "RequestMalformedError", -32603: "JsonRpcTransportError"}


@dataclass(frozen=True)
class Call:
    """One call of a client library."""
    name: str
    op: str
    expect: Kind
    task: str = ""
    guard: str = "scoped"
    protocol: str = ""
    options: dict = field(default_factory=dict)
    # Of a stream that is read to its end: how many events come before the error or the end.
    events: int | None = None


@dataclass(frozen=True)
class Host:
    name: str
    title: str
    protocol: str
    guards: tuple
    # Operations on which a guard's refusal of a foreign task differs from "unknown" in a way that no proxy may undo.
    told_apart: dict
    calls: tuple
    malformed: tuple
    malformed_rest: tuple = ()
    normalize_0_3: bool = False
    clients: tuple = ("python", "js")
    # Interfaces that no task is made on.
    more: tuple = ()
    # Which program it is, when another host is the same one.
    program: str = ""
    # The proxy is told nothing but where the host is: `run --upstream`.
    only_upstream: bool = False
    # What it says is scripted: it keeps no tasks.
    scripted: bool = False

    def calls_of(self, client):
        """What a client can be asked to do: those of 0.3 know no other protocol, and are told where the host is."""
        return [call for call in self.calls if client in ("python", "js")
                or (call.protocol in ("", "0.3") and "discover" not in call.options and not over_rest(call.guard))]

    @property
    def has_card(self):
        return any("discover" in call.options for call in self.calls)


CLIENTS_0_3 = ("python", "js", "python-0.3", "js-0.3")


def over_rest(interface):
    """Whether an interface speaks HTTP+JSON."""
    return interface.startswith("rest-")


def guarded(guards, told_apart):
    """The calls that every guard of a host gets: the owner's own task, one nobody has, one somebody else has."""
    for guard in guards:
        yield Call("own task", "get", RESULT, "own", guard)
        for op in ("get", "cancel", "subscribe", "send", "stream"):
            yield Call(f"{op}: unknown task", op, NOT_FOUND, "unknown", guard)
            yield Call(f"{op}: foreign task", op, told_apart.get((guard, op), NOT_FOUND), "foreign", guard)


# A client that knows only an address, and a proxy that knows only the host's: both go by the agent card.
BY_CARD = (Call("own task, found by the agent card", "get", RESULT, "own", options={"discover": True}),
           Call("unknown task, found by the agent card", "get", NOT_FOUND, "unknown", options={"discover": True}),
           Call("foreign task, found by the agent card", "get", NOT_FOUND, "foreign", options={"discover": True}))

GUARDS_1_0 = ("scoped", "text", "object", "guard", "rest-scoped", "rest-text", "rest-object", "rest-guard")
# DefaultRequestHandler 1.0.0 turns the store's "invalid params" into "not cancelable" on CancelTask, and -32602 on
# SendMessage is the sender's own mistake as far as a proxy can know.
PYTHON_1_0_APART = {(prefix + guard, op): kind for prefix in ("", "rest-") for (guard, op), kind in {
    ("text", "cancel"): NOT_CANCELABLE, ("object", "cancel"): NOT_CANCELABLE,
    ("text", "send"): BAD_PARAMS, ("object", "send"): BAD_PARAMS,
    ("text", "stream"): BAD_PARAMS, ("object", "stream"): BAD_PARAMS,
    ("guard", "push_list"): NO_PUSH}.items()}
LEGACY_APART = {("object", "send"): BAD_PARAMS, ("object", "stream"): BAD_PARAMS}
# The middleware refuses before the SDK could say that it has no push notifications. On streams this SDK writes
# `event: error`, which stays (S-3), and with which the 0.3 layer of the Python client does not read the code.
BAD_PARAMS_EVENT = Kind("-32602", -32602, "A2AClientError", "RequestMalformedError")
JS_APART = {("object", "send"): BAD_PARAMS, ("object", "stream"): BAD_PARAMS_EVENT, ("guard", "push_list"): NO_PUSH}

PARSE_ERROR = '{"jsonrpc":"2.0","id":7,"method":'
STRING_DATA = '{"jsonrpc":"2.0","id":7,"method":"GetTask","params":{"id":5}}'

# name, body, version, status, code, id, texts that must not come through
RAW_1_0 = (
    ("malformed JSON", PARSE_ERROR, "1.0", 200, -32700, None, ("Expecting", "line 1")),
    ("params of a wrong type (string data)", STRING_DATA, "1.0", 200, -32602, 7, ("Failed to parse", "a2a.")),
    ("unknown method", '{"jsonrpc":"2.0","id":"u","method":"NoSuchMethod","params":{}}', "1.0", 200, -32601, "u", ()),
    ("unsupported version 99.0",
     '{"jsonrpc":"2.0","id":7,"method":"GetTask","params":{"id":"t"}}', "99.0", 200, -32009, 7, ()),
    ("id of 2^53+1", '{"jsonrpc":"2.0","id":9007199254740993,"method":"NoSuchMethod"}', "1.0", 200, -32601,
     9007199254740993, ()),
)
# name, request, version, status, reason, texts that must not come through
RAW_REST = (
    ("malformed JSON", Request("POST", "/message:send", '{"message":'), "1.0", 400, "INVALID_REQUEST",
     ("Expecting", "line 1")),
    ("unsupported version 99.0", Request("GET", "/tasks/t-1"), "99.0", 400, "VERSION_NOT_SUPPORTED", ()),
)
RAW_0_3 = (
    ("malformed JSON", PARSE_ERROR, "0.3", 200, -32700, None, ("Expecting", "line 1")),
    ("unknown method", '{"jsonrpc":"2.0","id":"u","method":"tasks/none","params":{}}', "0.3", 200, -32601, "u", ()),
)
RAW_PYTHON_0_3 = RAW_0_3 + (
    ("missing params (pydantic data)", '{"jsonrpc":"2.0","id":7,"method":"tasks/get","params":{"secret":"hunter2"}}',
     "0.3", 200, -32602, 7, ("hunter2", "errors.pydantic.dev")),
)

NO_ROUTE = Kind("METHOD_NOT_FOUND", -32601, "MethodNotFoundError", "A2AError", rest=404)
# What a 0.3 host says by itself; and what 0.3 clients on HTTP+JSON hand out in any case, no data.
PLAIN_NOT_FOUND = Kind("TASK_NOT_FOUND", -32001, "TaskNotFoundError", "TaskNotFoundError", rest=404)
PLAIN_NOT_FOUND_REST = Kind("TASK_NOT_FOUND", -32001, "MethodNotFoundError", "TaskNotFoundError", rest=404)
TWO_1_0 = ("scoped", "rest-scoped")

# Nothing is configured: `run --upstream`, and the interfaces of both bindings come from the agent card.
ONLY_UPSTREAM = (
    Host("python-1.0.0-bare", "a2a-sdk 1.0.0, the proxy told only --upstream", "1.0", TWO_1_0, {},
         (*guarded(TWO_1_0, {}),
          *(Call(name, op, expect, task, guard, options=options) for guard in TWO_1_0 for name, op, expect, task, options in (
              ("cancel a finished task", "cancel", NOT_CANCELABLE, "own", {}),
              ("unsupported version 9.9", "get", BAD_VERSION, "own", {"version": "9.9"}),
              ("push config unsupported", "push", NO_PUSH, "own", {}),
              ("extended card not configured", "card", NO_CARD, "", {}))),
          *BY_CARD), RAW_1_0, RAW_REST, program="python-1.0.0", only_upstream=True),
    # A 0.3 host as it is: what its 0.3 callers get passes untouched, what a 1.0 caller gets is in shape.
    Host("js-0.3.14-bare", "@a2a-js/sdk 0.3.14, the proxy told only --upstream", "0.3", ("scoped",),
         {("scoped", op): None for op in ("get", "cancel", "subscribe", "send", "stream", "push_list")},
         (Call("own task", "get", RESULT, "own"),
          *(Call(f"{op}: unknown task", op, PLAIN_NOT_FOUND, "unknown") for op in ("get", "cancel", "send")),
          Call("cancel a finished task", "cancel", NOT_CANCELABLE, "own"),
          Call("push config unsupported", "push", NO_PUSH, "own"),
          Call("own task, found by the agent card", "get", RESULT, "own", options={"discover": True}),
          Call("get: unknown task", "get", PLAIN_NOT_FOUND_REST, "unknown", "rest-scoped"),
          *(Call(f"{op}: a 1.0 call to a 0.3 host", op, NO_METHOD, "own", protocol="1.0")
            for op in ("get", "send", "stream", "subscribe"))),
         (), program="js-0.3.14", only_upstream=True, more=("rest-scoped",)),
)

HOSTS = (
    Host("python-1.0.0", "a2a-sdk 1.0.0", "1.0", GUARDS_1_0, PYTHON_1_0_APART,
         (*guarded(GUARDS_1_0, PYTHON_1_0_APART),
          Call("cancel a finished task", "cancel", NOT_CANCELABLE, "own"),
          Call("unsupported version 9.9", "get", BAD_VERSION, "own", options={"version": "9.9"}),
          Call("invalid params (object data)", "get", BAD_PARAMS, "empty"),
          Call("push config unsupported", "push", NO_PUSH, "own"),
          Call("extended card not configured", "card", NO_CARD),
          Call("cancel a finished task", "cancel", NOT_CANCELABLE, "own", "rest-scoped"),
          Call("unsupported version 9.9", "get", BAD_VERSION, "own", "rest-scoped", options={"version": "9.9"}),
          Call("push config unsupported", "push", NO_PUSH, "own", "rest-scoped"),
          Call("extended card not configured", "card", NO_CARD, "", "rest-scoped"),
          *BY_CARD,
          Call("0.3 call to a 1.0 host", "get", NO_METHOD, "own", protocol="0.3")), RAW_1_0, RAW_REST),
    Host("python-0.3.26", "a2a-sdk 0.3.26", "0.3", ("scoped", "object", "guard"), LEGACY_APART,
         (*guarded(("scoped", "object", "guard"), LEGACY_APART),
          Call("cancel a finished task", "cancel", NOT_CANCELABLE, "own"),
          Call("push config unsupported (the host says -32603)", "push", INTERNAL, "own"),
          *BY_CARD,
          Call("1.0 call to a 0.3 host", "get", NO_METHOD, "own", protocol="1.0")), RAW_PYTHON_0_3,
         normalize_0_3=True, clients=CLIENTS_0_3),
    Host("js-0.3.14", "@a2a-js/sdk 0.3.14", "0.3", ("scoped", "object", "guard"), JS_APART,
         (*guarded(("scoped", "object", "guard"), JS_APART),
          Call("cancel a finished task", "cancel", NOT_CANCELABLE, "own"),
          Call("push config unsupported", "push", NO_PUSH, "own"),
          Call("get: unknown task", "get", PLAIN_NOT_FOUND, "unknown", "rest-scoped"),
          Call("cancel: unknown task", "cancel", PLAIN_NOT_FOUND, "unknown", "rest-scoped"),
          *BY_CARD,
          Call("1.0 call to a 0.3 host", "get", NO_METHOD, "own", protocol="1.0")), RAW_0_3,
         normalize_0_3=True, clients=CLIENTS_0_3, more=("rest-scoped",)),
    *ONLY_UPSTREAM,
)

GOOD = {"token": "good"}
ENVELOPES = Host(
    "openwop", "OpenWOP envelopes", "1.0", ("a2a",), {},
    (Call("success", "get", RESULT, "t-own", "a2a", options=GOOD),
     Call("401", "get", http_error(401, -32000), "t-own", "a2a", options={"token": "stale"}),
     Call("401, the client re-authenticates", "get", RESULT, "t-own", "a2a",
          options={"token": "", "reauthenticate": True}),
     Call("401, then a task that is unknown", "get", NOT_FOUND, "t-unknown", "a2a",
          options={"token": "", "reauthenticate": True}),
     Call("401 on a stream", "stream", http_error(401, -32000), "t-own", "a2a", options={"token": "stale"}),
     Call("403 forbidden_tenant on a task", "get", NOT_FOUND, "t-forbidden", "a2a", options=GOOD),
     Call("403 insufficient_scope", "get", http_error(403, -32000), "t-scope", "a2a", options=GOOD),
     Call("403 on no task", "send", http_error(403, -32000), "", "a2a", options={**GOOD, "context": "c-forbidden"}),
     Call("404 run_not_found", "get", NOT_FOUND, "t-unknown", "a2a", options=GOOD),
     Call("409 run_terminal on cancel", "cancel", NOT_CANCELABLE, "t-terminal", "a2a", options=GOOD),
     Call("501 capability_required on push", "push", NO_PUSH, "t-capability", "a2a", options=GOOD),
     Call("400 validation_error", "send", BAD_PARAMS, "", "a2a", options={**GOOD, "context": "c-invalid"}),
     Call("413 payload_too_large", "send", http_error(413, -32600), "", "a2a", options={**GOOD, "context": "c-large"}),
     Call("429 rate_limited", "get", http_error(429, -32000), "t-rate", "a2a", options=GOOD),
     Call("500 internal_error", "get", http_error(500, -32603), "t-crash", "a2a", options=GOOD),
     Call("unsupported version 9.9", "get", BAD_VERSION, "t-own", "a2a", options={**GOOD, "version": "9.9"})),
    (("malformed JSON that the host calls a crash", PARSE_ERROR, "1.0", 500, -32603, None, ("ENOENT", "acme")),),
    scripted=True)


def scripted_streams():
    """Streams read to their end: on both bindings, with the error before, between and in place of the events."""
    for guard in ("rpc", "rest-http"):
        for name, expect, events in (
                ("success", RESULT, 2),
                ("success-crlf", RESULT, 2),
                ("error-first", UNSUPPORTED, 0),
                ("error-middle", UNSUPPORTED, 1),
                ("error-middle-crlf", UNSUPPORTED, 1),
                ("error-lost-id", UNSUPPORTED, 1),
                ("envelope", UNSUPPORTED, 0),
                ("envelope-event", UNSUPPORTED, 0),
                ("html", NO_ROUTE if over_rest(guard) else NO_METHOD, 0),
                ("unauthenticated", http_error(401, -32000, over_rest(guard)), 0),
                ("unauthenticated-event", http_error(401, -32000, over_rest(guard)), 0)):
            yield Call(f"stream: {name}", "stream_all", expect, "", guard, options={"context": f"c.{name}"}, events=events)
        for name, expect, events in (
                ("success", RESULT, 2),
                ("gone", NOT_FOUND, 0),
                ("foreign", NOT_FOUND, 0),
                ("foreign-403", NOT_FOUND, 0),
                ("foreign-later", NOT_FOUND, 1)):
            yield Call(f"subscribe: {name}", "subscribe_all", expect, f"t.{name}", guard, events=events)


STREAMS = Host("streams", "scripted streams", "1.0", ("rpc", "rest-http"),
               {(guard, op): None for guard in ("rpc", "rest-http")
                for op in ("get", "cancel", "subscribe", "send", "stream", "push_list")},
               tuple(scripted_streams()), (), scripted=True)
