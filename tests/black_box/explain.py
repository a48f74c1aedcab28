#!/usr/bin/env python3
"""`explain` on every black-box case: the very answer that the proxy gives.

Usage:  explain.py --bin target/release/a2a-errata [--only TEXT] [-v]

Each case runs through a proxy as in run.py. What the scripted upstream wrote, byte for byte, and the request then go
to `a2a-errata explain --wire` with the same configuration. Its answer must be the proxy's: status, headers and body,
but for what belongs to the connection (Date, Connection, Keep-Alive, Transfer-Encoding). It must also hold what the
case expects. Cases that are about the connection are named below with the reason; one of them that comes out the same
all the same has to go from the list.
"""
import argparse
import asyncio
import base64
import json
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import run  # noqa: E402

OF_THE_CONNECTION = {"date", "connection", "keep-alive", "transfer-encoding"}

NO_ANSWER = "the host says nothing: there is no answer to explain"
STALLS = "the host stalls for longer than the proxy waits, and what was saved has no times"
REFUSED = "the proxy refuses the request before the host says anything"
NOT_APPLICABLE = {
    "fault-no-answer-at-all": NO_ANSWER,
    "fault-no-answer-reset-get-task": NO_ANSWER,
    "acc-fault-send-never-repeated": NO_ANSWER,
    "acc-fault-read-timeout-504": STALLS,
    "fault-connection-refused": NO_ANSWER,
    "fault-connection-refused-other-url": NO_ANSWER,
    "acc-fault-refused-get": NO_ANSWER,
    "fault-connection-refused-http-json": NO_ANSWER,
    "fault-bad-request-framing": REFUSED,
}


class Paper:
    """A writer that goes nowhere and keeps what it gets."""

    def __init__(self):
        self.bytes, self.transport = b"", self

    def write(self, data):
        self.bytes += data

    async def drain(self):
        pass

    def abort(self):
        pass


async def said_by(upstream, case):
    """What the scripted upstream writes for a case, byte for byte; nothing where it cannot be reached."""
    if "upstreams" in case.get("host", {}) or case["name"] == "fault-bad-request-framing":
        return b""
    script = {key: value for key, value in case["upstream"].items() if key != "gap_ms"}
    paper = Paper()
    await upstream.answer(script, paper, case.get("request", {}).get("method") == "HEAD")
    return paper.bytes


def request_bytes(case):
    """The case's request as run.py sends it, its transfer coding undone."""
    req = case.get("request", {})
    headers = {"host": "agent.example", "content-type": "application/json", "accept": "application/json",
               "a2a-version": "1.0", "x-case": case["name"], "connection": "close"}
    headers.update({k.lower(): v for k, v in req.get("headers", {}).items()})
    text = f"{req.get('method', 'POST')} {req.get('path', '/a2a')} HTTP/1.1\r\n"
    text += "".join(f"{k}: {v}\r\n" for k, v in headers.items() if v is not None and k != "transfer-encoding")
    return text.encode("latin-1") + b"\r\n" + run.body_of(req)


def explain(binary, folder, config, card, case, said):
    """What `explain` makes of the upstream's bytes, as a Response, or its complaint."""
    (folder / "answer").write_bytes(said)
    (folder / "request").write_bytes(request_bytes(case))
    (folder / "config.toml").write_text(config)
    command = [binary, "explain", str(folder / "answer"), "--wire", "--json", "--request", str(folder / "request"),
               "--config", str(folder / "config.toml")]
    if card is not None:
        (folder / "card.json").write_text(json.dumps(card.get("json", card) if "path" in card else card))
        command += ["--card", str(folder / "card.json")]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
    if done.returncode not in (0, 1):
        return None, f"exit {done.returncode}: {done.stderr.decode('utf-8', 'replace')[:400]}"
    told = json.loads(done.stdout)
    answer = told["answer"]
    body = base64.b64decode(answer["bodyBase64"]) if "bodyBase64" in answer else answer["body"].encode()
    rewritten = told["verdict"] not in ("passed", "conformant")
    if rewritten != (done.returncode == 1):
        return None, f"exit {done.returncode} on {told['verdict']}"
    headers = [(name, value) for name, value in answer["headers"]]
    return run.Response(answer["status"], "", headers, body, answer["complete"]), None


def visible(response):
    headers = sorted((k, v) for k, v in response.headers if k not in OF_THE_CONNECTION)
    return response.status, headers, response.body, response.complete


def differences(proxied, explained):
    """In words, how the two answers differ."""
    bad = []
    a, b = visible(proxied), visible(explained)
    if a[0] != b[0]:
        bad.append(f"status {b[0]}, the proxy's is {a[0]}")
    if a[1] != b[1]:
        bad.append(f"headers {[h for h in b[1] if h not in a[1]]}, the proxy's {[h for h in a[1] if h not in b[1]]}")
    if a[3] != b[3]:
        bad.append(f"complete: {b[3]}, the proxy's: {a[3]}")
    elif a[2] != b[2] and (a[3] or not b[2].startswith(a[2])):  # what is cut off may be cut off earlier
        bad.append(f"body {b[2][:300]!r}, the proxy's {a[2][:300]!r}")
    return bad


async def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("-v", action="store_true")
    options = parser.parse_args()
    cases = [case for file in sorted((HERE / "cases").glob("*.json")) for case in json.loads(file.read_text())]
    unknown = set(NOT_APPLICABLE) - {case["name"] for case in cases}
    if unknown:
        raise SystemExit(f"there are no cases named {sorted(unknown)}")
    cases = [case for case in cases if options.only in case["name"]]
    upstream = run.Upstream()
    await upstream.start()
    upstream.cases = {case["name"]: case for case in cases}
    groups = {}
    for case in cases:
        groups.setdefault(json.dumps([case.get(k) for k in ("interfaces", "host", "top", "card")]), []).append(case)
    failed, skipped = 0, 0
    proxied, explained = {}, {}
    with tempfile.TemporaryDirectory(prefix="explain-") as folder:
        for group in groups.values():
            card = upstream.card = group[0].get("card")
            port, admin = run.free_port(), run.free_port()
            config = run.config(group[0], port, admin, upstream.port)
            proxy = await asyncio.to_thread(run.start, options.bin, config, port)
            if card is not None:
                await asyncio.to_thread(run.wait_ready, proxy, admin)
            try:
                for case in group:
                    name = case["name"]
                    bad = await one(options.bin, Path(folder), config, card, port, case, upstream, proxied, explained)
                    why = NOT_APPLICABLE.get(name)
                    if why and not bad:
                        bad = ["comes out the same now: take it out of NOT_APPLICABLE"]
                    elif why:
                        skipped += 1
                        print(f"not applicable {name}: {why}")
                        bad = []
                    failed += bool(bad)
                    if bad or options.v:
                        print(("FAIL " if bad else "ok   ") + name)
                        for line in bad:
                            print("    " + line)
            finally:
                proxy.send_signal(signal.SIGTERM)
                try:
                    proxy.wait(3)
                except subprocess.TimeoutExpired:
                    proxy.kill()
    print(f"{len(cases) - failed - skipped} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    return 1 if failed else 0


async def one(binary, folder, config, card, port, case, upstream, proxied, explained):
    try:
        seen = await run.exchange(port, case)
    except (asyncio.TimeoutError, OSError) as error:
        return [f"the proxy gave no answer: {type(error).__name__}"]
    said = await said_by(upstream, case)
    told, complaint = await asyncio.to_thread(explain, binary, folder, config, card, case, said)
    if complaint:
        return [complaint]
    bad = differences(seen, told)
    # What the case expects of the proxy, held against what `explain` says.
    results = {name: (other, response) for name, (other, response) in explained.items()}
    expected = run.check(case, seen, upstream, proxied)
    if not expected:
        bad += run.check(case, told, upstream, results)
    proxied[case["name"]] = (case, seen)
    explained[case["name"]] = (case, told)
    return bad


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
