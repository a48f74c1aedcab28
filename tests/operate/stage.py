"""A stage for whatever looks at a running proxy: hosts with every kind of fault, the proxy before them, traffic.

Everything is on 127.0.0.1, on ports chosen at run time, and ends with the stage.
"""
import contextlib
import http.client
import itertools
import json
import socket
import ssl
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "interop"))
from processes import ProcessError, Processes, free_port, wait_for_port  # noqa: E402, F401

ERROR_INFO = "type.googleapis.com/google.rpc.ErrorInfo"


class Checks:
    """Counts what holds and says what does not."""

    def __init__(self):
        self.passed, self.failures = 0, []

    def check(self, good, says):
        if good:
            self.passed += 1
        else:
            self.failures.append(says)
            print(f"FAILED: {says}")

    def close(self, skipped=0):
        """The closing line, and the process's exit code."""
        print(f"{self.passed} passed, {len(self.failures)} failed" + (f", {skipped} skipped" if skipped else ""))
        return 1 if self.failures else 0


def rpc_error(code, message, **more):
    return json.dumps({"jsonrpc": "2.0", "id": 7, "error": {"code": code, "message": message, **more}})


def right(code, reason, message):
    info = {"@type": ERROR_INFO, "reason": reason, "domain": "a2a-protocol.org"}
    return rpc_error(code, message, data=[info])


# method of the call, status, content type, body of the host's answer
FAULTS = (
    ("SendMessage", 200, "application/json", json.dumps({"jsonrpc": "2.0", "id": 7, "result": {"message": {}}})),
    ("SendMessage", 200, "application/json", json.dumps({"jsonrpc": "2.0", "id": 7, "result": {"message": {}}})),
    ("SendMessage", 200, "application/json", json.dumps({"jsonrpc": "2.0", "id": 7, "result": {"message": {}}})),
    ("GetTask", 403, "application/json", json.dumps({"error": "run_forbidden", "message": "run belongs to acme"})),
    ("GetTask", 200, "application/json", rpc_error(-32001, "no task of acme")),
    ("CancelTask", 200, "application/json", rpc_error(-32002, "at /srv/app.py", data={"trace": "x", "tenant": "a"})),
    ("SendMessage", 200, "application/json", right(-32004, "UNSUPPORTED_OPERATION", "This operation is not supported")),
    ("SendMessage", 422, "application/json", json.dumps({"detail": [{"loc": ["body"], "msg": "bad", "input": "x"}]})),
    ("SendMessage", 500, "text/html", "<h1>Internal Server Error</h1>"),
    ("SendMessage", 401, "application/json", json.dumps({"error": "unauthenticated", "message": "who?"})),
    ("SendMessage", 200, "application/json", rpc_error(-32003, "x" * 20000)),
    ("SendStreamingMessage", 200, "text/event-stream",
     'data: {"jsonrpc":"2.0","id":7,"result":{}}\n\ndata: ' + rpc_error(-32603, "at /srv") + "\n\n"),
)


class Host:
    """Says what the request asks it to say: the how manieth of FAULTS."""

    def __init__(self):
        host = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                self.say(200, "application/json", host.card())

            def do_POST(self):
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                _, status, kind, body = FAULTS[int(self.headers.get("X-Fault", 0))]
                self.say(status, kind, body)

            def say(self, status, kind, body):
                data = body.encode()
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("X-Tenant", "acme")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def card(self):
        url = f"http://127.0.0.1:{self.port}/a2a"
        return json.dumps({"name": "support", "signatures": [{"protected": "x", "signature": "y"}],
                           "supportedInterfaces": [
                               {"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}]})

    def close(self):
        self.server.shutdown()
        self.server.server_close()


class Stage:
    """Over TLS, with a certificate that ends in a week: `billing` with an enforced and an observed interface and an address
    where nobody is, `support` with a card, `down` that is gone, `waiting`
    whose card cannot be read. Use as a context manager."""

    def __init__(self, binary, work):
        self.binary, self.work = Path(binary).resolve(), Path(work)
        self.stack = contextlib.ExitStack()
        self.turns = itertools.count()
        self.stopping = threading.Event()

    def __enter__(self):
        self.processes = self.stack.enter_context(Processes(self.work))
        billing, support = Host(), Host()
        for host in (billing, support):
            self.stack.callback(host.close)
        self.listen, self.admin = free_port(), free_port()
        cert, key = self.work / "tls.crt", self.work / "tls.key"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                        "-days", "7", "-subj", "/CN=stage", "-addext", "subjectAltName=DNS:billing.example",
                        "-keyout", key, "-out", cert], check=True, capture_output=True, timeout=60)
        self.tls = ssl.create_default_context(cafile=cert)
        self.tls.check_hostname = False
        config = self.work / "stage.toml"
        config.write_text(f"""
[listen]
address = "127.0.0.1:{self.listen}"
tls = {{ cert = "{cert}", key = "{key}" }}
[admin]
address = "127.0.0.1:{self.admin}"
[timeouts]
request_headers_ms = 1000
[[hosts]]
name = "billing"
upstreams = ["127.0.0.1:{billing.port}", "127.0.0.1:{free_port()}"]
health = {{ interval_ms = 500 }}
authorities = ["billing.example"]
response_cap_bytes = 4096
intake_bytes = 16384
[[hosts.interfaces]]
path = "/a2a"
binding = "JSONRPC"
[[hosts.interfaces]]
path = "/next"
binding = "JSONRPC"
mode = "observe"
[[hosts]]
name = "support"
upstreams = ["127.0.0.1:{support.port}"]
authorities = ["support.example"]
public_url = "https://support.example"
card = {{ refresh_s = 1 }}
[[hosts]]
name = "down"
upstreams = ["127.0.0.1:{free_port()}"]
authorities = ["down.example"]
[[hosts.interfaces]]
path = "/a2a"
[[hosts]]
name = "waiting"
upstreams = ["127.0.0.1:{free_port()}"]
""")
        process, log = self.processes.start("proxy", [self.binary, "run", "--config", config, "--log-format", "json"],
                                            None)
        wait_for_port(self.listen, process, "the proxy", log)
        wait_for_port(self.admin, process, "the admin listener", log)
        return self

    def __exit__(self, *_):
        self.stopping.set()
        self.stack.close()

    def call(self, authority, path, fault):
        method = FAULTS[fault][0]
        params = {"id": "t-1"} if method in ("GetTask", "CancelTask") else {"message": {"parts": [{"text": "hi"}]}}
        body = json.dumps({"jsonrpc": "2.0", "id": 7, "method": method, "params": params})
        connection = http.client.HTTPSConnection("127.0.0.1", self.listen, timeout=10, context=self.tls)
        try:
            connection.request("POST", path, body, {"Host": authority, "A2A-Version": "1.0", "X-Fault": str(fault),
                                                    "Content-Type": "application/json",
                                                    "Accept": "application/json, text/event-stream"})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def round(self):
        """Every fault on every interface, once."""
        for fault in range(len(FAULTS)):
            for authority, path in (("billing.example", "/a2a"), ("billing.example", "/next"),
                                    ("support.example", "/a2a")):
                self.call(authority, path, fault)
        self.call("down.example", "/a2a", 0)
        connection = http.client.HTTPSConnection("127.0.0.1", self.listen, timeout=10, context=self.tls)
        connection.request("GET", "/.well-known/agent-card.json", headers={"Host": "support.example"})
        connection.getresponse().read()
        connection.close()
        self.misbehave()

    def misbehave(self):
        """What reaches a limit, and handshakes that come to nothing."""
        head = b"GET / HTTP/1.1\r\nHost: billing.example\r\n"
        self.say_over_tls(head + b"Cookie: " + b"c" * 70_000 + b"\r\n\r\n")
        self.say_over_tls(head)
        strict = ssl.create_default_context()
        for handshake in (lambda s: strict.wrap_socket(s, server_hostname="billing.example"),
                          lambda s: s.sendall(b"GET / HTTP/1.1\r\n\r\n") or s.recv(100),
                          lambda s: s.sendall(b"\x16\x03\x01")):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.listen), 10) as plain:
                handshake(plain)

    def say_over_tls(self, text):
        """Until the proxy has had enough of it."""
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.listen), 10) as plain, \
                self.tls.wrap_socket(plain) as secure:
            secure.sendall(text)
            while secure.recv(1000):
                pass

    def keep_going(self):
        """Rounds in a thread until the stage ends."""
        def rounds():
            while not self.stopping.is_set():
                with contextlib.suppress(OSError, http.client.HTTPException):
                    self.round()
                self.stopping.wait(0.2)
        threading.Thread(target=rounds, daemon=True).start()

    def page(self, path):
        connection = http.client.HTTPConnection("127.0.0.1", self.admin, timeout=10)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read().decode()
        finally:
            connection.close()
