"""Calls a host or the proxy without any SDK and judges the raw bytes of the answer."""
import http.client
import json
from collections import namedtuple

TIMEOUT_S = 30
ERROR_INFO = "type.googleapis.com/google.rpc.ErrorInfo"
REASONS = {-32001: "TASK_NOT_FOUND", -32002: "TASK_NOT_CANCELABLE", -32003: "PUSH_NOTIFICATION_NOT_SUPPORTED",
           -32004: "UNSUPPORTED_OPERATION", -32005: "CONTENT_TYPE_NOT_SUPPORTED", -32006: "INVALID_AGENT_RESPONSE",
           -32007: "EXTENDED_AGENT_CARD_NOT_CONFIGURED", -32008: "EXTENSION_SUPPORT_REQUIRED",
           -32009: "VERSION_NOT_SUPPORTED"}

Answer = namedtuple("Answer", "status headers body")

# What a call is named at each protocol version.
METHODS = {
    "1.0": {"get": "GetTask", "cancel": "CancelTask", "subscribe": "SubscribeToTask", "send": "SendMessage",
            "stream": "SendStreamingMessage", "push_list": "ListTaskPushNotificationConfigs"},
    "0.3": {"get": "tasks/get", "cancel": "tasks/cancel", "subscribe": "tasks/resubscribe", "send": "message/send",
            "stream": "message/stream", "push_list": "tasks/pushNotificationConfig/list"},
}
STREAMS = ("subscribe", "stream")


# One request: path is what follows the interface's own.
Request = namedtuple("Request", "method path body", defaults=("",))


def send(port, interface, request, token=None, version="1.0", accept="application/json"):
    """One request on a connection of its own. `version` None sends no A2A-Version."""
    headers = {"Accept": accept}
    if request.method == "POST":
        headers["Content-Type"] = "application/json"
    if token:
        headers["Authorization"] = f"Bearer {token}"
    if version:
        headers["A2A-Version"] = version
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)
    try:
        connection.request(request.method, f"/{interface}{request.path}", request.body or None, headers)
        response = connection.getresponse()
        return Answer(response.status, response.getheaders(), response.read())
    finally:
        connection.close()


def call(protocol, op, task=None, request_id=1):
    """An operation on a task over JSON-RPC."""
    if op in ("send", "stream"):
        params = {"message": message(protocol, task)}
    else:
        params = {"taskId" if op == "push_list" and protocol == "1.0" else "id": task}
    return Request("POST", "", json.dumps(
        {"jsonrpc": "2.0", "id": request_id, "method": METHODS[protocol][op], "params": params}))


def rest_call(op, task=None):
    """The same operation over HTTP+JSON at 1.0."""
    if op in ("send", "stream"):
        return Request("POST", f"/message:{op}", json.dumps({"message": message("1.0", task)}))
    return {"get": Request("GET", f"/tasks/{task}"),
            "cancel": Request("POST", f"/tasks/{task}:cancel", "{}"),
            "subscribe": Request("POST", f"/tasks/{task}:subscribe", "{}"),
            "push_list": Request("GET", f"/tasks/{task}/pushNotificationConfigs")}[op]


def message(protocol, task):
    part, role = ({"text": "hello"}, "ROLE_USER") if protocol == "1.0" else ({"kind": "text", "text": "hello"}, "user")
    return {"messageId": "m-1", "role": role, "parts": [part], **({"taskId": task} if task else {})}


def accept(op):
    return "text/event-stream" if op in STREAMS else "application/json"


def comparable(answer, request_id, task):
    """Status, headers and body, with everything that a request may rightly influence taken out."""
    headers = sorted((name, value) for name, value in answer.headers if name.lower() not in ("date", "content-length"))
    framed = any(name.lower() == "content-length" for name, _ in answer.headers)
    body = answer.body.replace(json.dumps(request_id).encode(), b"<id>").replace(task.encode(), b"<task>")
    return answer.status, headers, framed, body


def difference(one, other):
    """In words, where two comparable answers part; None when they are the same."""
    for what, a, b in zip(("status", "headers", "Content-Length", "body"), one, other):
        if a != b:
            return f"{what}: unknown {shorten(a)}, foreign {shorten(b)}"
    return None


def shorten(value):
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    text = " ".join(text.split())
    return text if len(text) <= 160 else text[:157] + "..."


def json_object(answer):
    """The object in the answer's body, in either framing; None when there is none."""
    body = answer.body
    if dict((n.lower(), v) for n, v in answer.headers).get("content-type", "").startswith("text/event-stream"):
        body = b"\n".join(line[5:].strip() for line in body.splitlines() if line.startswith(b"data:"))
    try:
        response = json.loads(body)
    except ValueError:
        return None
    return response if isinstance(response, dict) else None


def problems(answer, status, code, request_id):
    """What is wrong with an error answer, by the rules a strict client checks. Empty when nothing is."""
    found = []
    if answer.status != status:
        found.append(f"status {answer.status}")
    response = json_object(answer)
    if response is None or not isinstance(response.get("error"), dict):
        return found + [f"no JSON-RPC error: {shorten(answer.body)}"]
    error = response["error"]
    if set(response) != {"jsonrpc", "id", "error"} or response["jsonrpc"] != "2.0":
        found.append(f"members {sorted(response)}")
    if response.get("id") != request_id or type(response.get("id")) is not type(request_id):
        found.append(f"id {response.get('id')!r}")
    if error.get("code") != code or not isinstance(error.get("code"), int):
        found.append(f"code {error.get('code')!r}")
    if not isinstance(error.get("message"), str) or not error["message"]:
        found.append("no message")
    if "data" in error:
        found += data_problems(error["data"])
    infos = [entry for entry in error.get("data") or [] if isinstance(entry, dict) and entry.get("@type") == ERROR_INFO]
    if code in REASONS:
        if len(infos) != 1 or error["data"][0] != infos[0]:
            found.append(f"{len(infos)} ErrorInfo")
        elif (infos[0].get("reason"), infos[0].get("domain")) != (REASONS[code], "a2a-protocol.org"):
            found.append(f"reason {infos[0].get('reason')} of {infos[0].get('domain')}")
    return found


def not_found_problems(answer, rest, request_id, task):
    """What keeps an answer from being the one fixed answer about a task that the caller may not know of (O-1)."""
    found = status_problems(answer, 404, "TASK_NOT_FOUND") if rest else problems(answer, 200, -32001, request_id)
    if found:
        return found
    error = json_object(answer)["error"]
    details = error["details" if rest else "data"]
    if error["message"] != "Task not found":
        found.append(f"message {error['message']!r}")
    if len(details) != 1 or details[0].get("metadata") != {"taskId": task}:
        found.append(f"details {shorten(details)}")
    return found


def status_problems(answer, status, reason):
    """What is wrong with an HTTP+JSON error answer (E-4). Empty when nothing is."""
    found = [] if answer.status == status else [f"status {answer.status}"]
    kind = dict((name.lower(), value) for name, value in answer.headers).get("content-type", "")
    if kind.split(";")[0] != "application/json":
        found.append(f"content type {kind!r}")
    body = json_object(answer)
    error = body.get("error") if body else None
    if not isinstance(error, dict) or set(body) != {"error"}:
        return found + [f"no Status: {shorten(answer.body)}"]
    if error.get("code") != status or error.get("status") != STATUS_WORDS[reason]:
        found.append(f"code {error.get('code')}, status {error.get('status')}")
    if not isinstance(error.get("message"), str) or not error["message"]:
        found.append("no message")
    found += data_problems(error.get("details"))
    if not found and error["details"][0].get("reason") != reason:
        found.append(f"reason {error['details'][0].get('reason')}")
    return found


STATUS_WORDS = {"TASK_NOT_FOUND": "NOT_FOUND", "VERSION_NOT_SUPPORTED": "FAILED_PRECONDITION",
                "INVALID_REQUEST": "INVALID_ARGUMENT", "INVALID_PARAMS": "INVALID_ARGUMENT",
                "TASK_NOT_CANCELABLE": "FAILED_PRECONDITION"}


def data_problems(data):
    if not isinstance(data, list) or not data:
        return [f"data {shorten(data)}"]
    if not all(isinstance(entry, dict) and str(entry.get("@type", "")).startswith("type.googleapis.com/")
               for entry in data):
        return [f"untyped data {shorten(data)}"]
    maps = [entry["metadata"] for entry in data if "metadata" in entry]
    if not all(isinstance(one, dict) and all(isinstance(value, str) for value in one.values()) for one in maps):
        return [f"metadata {shorten(maps)}"]
    return []
