"""A scripted OpenWOP host: whatever goes wrong is told in the OpenWOP error envelope, never in JSON-RPC.

Plain asyncio, HTTP/1.1 with keep-alive. The last part of the addressed task's id, or else of the context's id,
names the refusal (see REFUSALS); a call without the bearer token `good` gets 401 and a challenge. Everything
else succeeds. Prints `listening PORT` once it accepts connections.
"""
import asyncio
import json

CHALLENGE = ("WWW-Authenticate", 'Bearer realm="openwop", error="invalid_token"')
PRIVATE = [("X-Workspace", "ws-9"), ("Set-Cookie", "ow_sid=1")]

# name: (status, envelope, extra headers)
REFUSALS = {
    "forbidden": (403, {"error": "forbidden_tenant", "message": "principal cannot operate under tenant 'acme'",
                        "details": {"tenantId": "acme"}}, PRIVATE),
    "scope": (403, {"error": "forbidden", "message": "missing scope", "details": {"requiredScope": "runs:write"}},
              [("WWW-Authenticate", 'Bearer error="insufficient_scope", scope="runs:write"')]),
    "unknown": (404, {"error": "run_not_found", "message": "run not found"}, []),
    "terminal": (409, {"error": "run_terminal", "message": "run acme/5d2f is completed",
                       "details": {"runId": "acme/5d2f", "status": "completed"}}, []),
    "capability": (501, {"error": "capability_required", "message": "push notifications need a capability",
                         "details": {"capability": "push"}}, []),
    "invalid": (400, {"error": "validation_error", "message": "params do not validate"}, []),
    "large": (413, {"error": "payload_too_large", "message": "body over 4194304 bytes"}, []),
    "rate": (429, {"error": "rate_limited", "message": "Request denied by rate limit.",
                   "details": {"scope": "tenant", "retryAfterMs": 2000}}, [("Retry-After", "2")]),
    "crash": (500, {"error": "internal_error", "message": "ENOENT: '/srv/data/tenants/acme/runs/9c1.json'"}, []),
    "version": (400, {"error": "protocol_version_unsupported", "message": "unsupported protocol version",
                      "details": {"supportedVersions": ["1.0"]}}, []),
}


def answer(headers, body):
    """(status, content, headers) for one call."""
    try:
        call = json.loads(body)
        params = call.get("params") or {}
    except (ValueError, AttributeError):
        return 500, REFUSALS["crash"][1], []
    if headers.get("authorization") != "Bearer good":
        return 401, {"error": "unauthenticated", "message": "OIDC token rejected.",
                     "details": {"reason": "verification_failed"}}, [CHALLENGE] + PRIVATE
    if headers.get("a2a-version") not in ("1.0", "1.0.0"):
        return REFUSALS["version"]
    message = params.get("message") or {}
    addressed = params.get("taskId") or params.get("id") or message.get("taskId") or message.get("contextId") \
        or params.get("contextId") or ""
    name = addressed.rsplit("-", 1)[-1]
    if name in REFUSALS:
        return REFUSALS[name]
    task = {"id": addressed or "t-1", "contextId": "c-1", "status": {"state": "TASK_STATE_COMPLETED"}}
    result = {"task": task} if call.get("method") == "SendMessage" else task
    return 200, {"jsonrpc": "2.0", "id": call.get("id"), "result": result}, []


async def serve(reader, writer):
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            headers = {name.strip().lower(): value.strip() for name, _, value in
                       (line.partition(":") for line in head[1:] if line)}
            if headers.get("transfer-encoding", "").lower() == "chunked":
                body = b""
                while size := int(await reader.readline(), 16):
                    body += await reader.readexactly(size)
                    await reader.readline()
                await reader.readline()
            else:
                body = await reader.readexactly(int(headers.get("content-length", 0)))
            status, content, extra = answer(headers, body)
            raw = json.dumps(content, separators=(",", ":")).encode()
            lines = [f"HTTP/1.1 {status} Scripted", "Content-Type: application/json; charset=utf-8",
                     f"Content-Length: {len(raw)}"] + [f"{name}: {value}" for name, value in extra]
            writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + raw)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(f"listening {server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
