"""A scripted host whose streams go wrong in every place: before the first event, between events, instead of a stream.

Plain asyncio. `/rpc` is JSON-RPC, `/rest-http` HTTP+JSON; what follows the dot in the message's context or in the
task's id names the script (see script()). Prints `listening PORT` once it accepts connections.
"""
import asyncio
import json

OWNER = "robin-of-acme"
CHALLENGE = ["WWW-Authenticate: Bearer realm=\"a\"", f"X-Tenant: {OWNER}"]
STATUS = {"code": 501, "status": "UNIMPLEMENTED", "message": f"at /srv/{OWNER}.py",
          "details": [{"reason": "UNSUPPORTED_OPERATION", "owner": OWNER}]}
FORBIDDEN = {"error": "run_forbidden", "message": f"the run belongs to {OWNER}", "details": {"owner": OWNER}}
NO_STREAMS = {"error": "capability_required", "message": f"streams are off for tenant {OWNER}"}
STALE = {"error": "unauthenticated", "message": f"token of {OWNER} expired"}


def script(name, rest, request_id):
    """(status, content type, more header lines, body) of one call."""
    def response(**members):
        return {"jsonrpc": "2.0", "id": request_id, **members}

    update = {"statusUpdate": {"taskId": "t-1", "contextId": "c-1", "status": {"state": "TASK_STATE_WORKING"}}}
    success = update if rest else response(result=update)
    refusal = {"error": STATUS} if rest else response(
        error={"code": -32004, "message": f"at /srv/{OWNER}.py", "data": {"owner": OWNER}})
    lost = {**refusal, **({} if rest else {"id": None})}
    gone = {"code": -32001, "message": f"{OWNER} has it"} if rest else response(
        error={"code": -32001, "message": f"{OWNER} has it", "data": f"owner: {OWNER}"})
    taken = {"error": {"code": 403, "status": "PERMISSION_DENIED", "message": OWNER}} if rest else response(
        error={"code": -31403, "message": OWNER})
    named = "event: error\n" if rest else ""
    event = lambda data, first="": f"{first}data: {json.dumps(data)}\n\n"
    streams = {
        "success": ": hello\n\n" + event(success, "id: 1\n") + event(success, "id: 2\n"),
        "success-crlf": (event(success) * 2).replace("\n", "\r\n"),
        "error-first": event(refusal, named),
        "error-middle": event(success) + event(refusal) + event(success),
        "error-middle-crlf": (event(success) + event(refusal, named)).replace("\n", "\r\n"),
        "error-lost-id": event(success) + event(lost, "id: 9\n"),
        "envelope-event": event(NO_STREAMS),
        "unauthenticated-event": event(STALE),
        "gone": event(gone, named),
        "foreign": event(FORBIDDEN),
        "foreign-later": event(success) + event(taken),
    }
    if name in streams:
        return 200, "text/event-stream", [], streams[name]
    return {
        "envelope": (422, "application/json", [], json.dumps(NO_STREAMS)),
        "html": (404, "text/html; charset=utf-8", [], f"<pre>Cannot POST /{OWNER}</pre>"),
        "unauthenticated": (401, "application/json", CHALLENGE, json.dumps(STALE)),
        "foreign-403": (403, "application/json", [f"X-Tenant: {OWNER}"], json.dumps({"detail": f"{OWNER}'s"})),
    }[name]


def asked(path, body):
    """(script, over HTTP+JSON, request id) of one request."""
    rest = path.startswith("/rest-http/")
    call = json.loads(body or b"{}")
    params = call if rest else call.get("params") or {}
    message = params.get("message") or {}
    addressed = message.get("contextId") or params.get("id") or path.rpartition("/tasks/")[2].partition(":")[0]
    return addressed.partition(".")[2], rest, call.get("id")


async def serve(reader, writer):
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            headers = {name.strip().lower(): value.strip() for name, _, value in
                       (line.partition(":") for line in head[1:] if line)}
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            status, kind, more, content = script(*asked(head[0].split()[1], body))
            lines = [f"HTTP/1.1 {status} Scripted", f"Content-Type: {kind}", "Transfer-Encoding: chunked", *more]
            writer.write("\r\n".join(lines).encode() + b"\r\n\r\n")
            # In pieces that end nowhere in particular.
            raw = content.encode()
            for piece in (raw[at:at + 50] for at in range(0, len(raw), 50)):
                writer.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
                await writer.drain()
            writer.write(b"0\r\n\r\n")
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
