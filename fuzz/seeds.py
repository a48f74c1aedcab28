#!/usr/bin/env python3
"""Makes the first inputs of every fuzz target from the black-box cases and the configurations of the project.

Usage:  seeds.py FOLDER        one folder a target is filled below FOLDER; what is there already stays

A file bears the hash of its contents, as libFuzzer names its own. Cases longer than LONGEST are left out.
"""
import base64
import hashlib
import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CASES = ROOT / "tests" / "black_box" / "cases"
LONGEST = 6000
RECORD = b"\x1e"
# Which status and which call, as src/fuzzing/envelope.rs reads them.
ENVELOPE_WAYS = (b"  ", b'"!', b"$%")
# As the fuzz targets read them: src/fuzzing/case.rs.
KNOBS = 12


def main():
    folder = Path(sys.argv[1])
    count = 0
    for target, seed in seeds():
        place = folder / target
        place.mkdir(parents=True, exist_ok=True)
        if len(seed) <= LONGEST:
            (place / hashlib.sha1(seed).hexdigest()).write_bytes(seed)
            count += 1
    print(f"{count} seeds below {folder}")


def seeds():
    for file in sorted(CASES.glob("*.json")):
        for case in json.loads(file.read_text()):
            yield from of_case(case)
    for file in sorted((ROOT / "config").glob("*.toml")):
        yield "config", file.read_bytes()
    for card in CARDS:
        lines = "https://agents.example/billing\n10.0.0.5:9000\nbilling.internal"
        yield "card", f"{lines}\n\n{json.dumps(card)}".encode()
        yield "card", f"{lines}\n\n{json.dumps(card, indent=1)}".encode()


def of_case(case):
    request, upstream = case.get("request", {}), case.get("upstream", {})
    asked, answered = body(request), body(upstream)
    heads = request_head(case, request), answer_head(upstream)
    if RECORD in asked or not upstream:
        return
    knobs = bytearray(KNOBS)
    host = case.get("host") or {}
    knobs[0] = (1 if host.get("normalize_0_3") else 0) | (2 if (host.get("cap") or {}).get("success") else 0) \
        | (8 if host.get("response_cap_bytes") else 0)
    if upstream.get("gzip"):
        knobs[2] = 5
    whole = bytes(knobs) + RECORD.join([heads[0], asked, heads[1], answered])
    is_stream = "event-stream" in heads[1].decode() or "ndjson" in heads[1].decode()
    yield ("sse" if is_stream else "exchange"), whole
    if asked:
        yield "request", bytes(knobs) + RECORD.join([heads[0], asked])
        yield "scan", asked
    if answered and not is_stream:
        yield "scan", answered
        for way in ENVELOPE_WAYS:
            yield "envelope", way + answered
    if card := case.get("card"):
        yield "card", b"https://agents.example\n127.0.0.1:9000\n\n" + json.dumps(card).encode()


def request_head(case, request):
    path = request.get("path", "/a2a")
    interfaces = case.get("interfaces") or [{"path": "/a2a", "binding": "JSONRPC", "versions": ["1.0"]}]
    bare = path.split("?")[0]
    chosen = next((i for i in interfaces if i["path"] == bare), None) \
        or next((i for i in interfaces if bare.startswith(i["path"].rstrip("/") + "/")), interfaces[0])
    lines = [f'{chosen["binding"]} {chosen["path"]} {",".join(chosen.get("versions", ["1.0"]))}',
             f'{request.get("method", "POST")} {path}']
    headers = {"content-type": "application/json", "accept": "application/json", "a2a-version": "1.0"}
    headers |= request.get("headers") or {}
    lines += [f"{name}: {value}" for name, value in headers.items() if value is not None]
    return "\n".join(lines).encode()


def answer_head(upstream):
    headers = {"content-type": "application/json"} | (upstream.get("headers") or {})
    lines = [str(upstream.get("status", 200))]
    for name, values in headers.items():
        lines += [f"{name}: {value}" for value in (values if isinstance(values, list) else [values])
                  if value is not None]
    return "\n".join(lines).encode()


def body(spec):
    if "parts" in spec:
        raw = b"".join(map(body, spec["parts"]))
    elif "json" in spec:
        raw = json.dumps(spec["json"], ensure_ascii=False, separators=(",", ":")).encode()
    elif "base64" in spec:
        raw = base64.b64decode(spec["base64"])
    else:
        raw = spec.get("text", "").encode("utf-8", "surrogatepass")
    return raw * spec.get("repeat", 1)


CARDS = [
    {"name": "x", "signatures": [{"protected": "e30", "signature": "AA"}], "supportedInterfaces": [
        {"url": "http://10.0.0.5:9000/a2a", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"},
        {"url": "https://billing.internal/rest/", "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0.1"},
        {"url": "agent.example:50051", "protocolBinding": "GRPC", "protocolVersion": "1.0"},
        {"url": "/relative?x=1", "protocolBinding": "JSONRPC", "protocolVersion": "0.3"}]},
    {"protocolVersion": "0.3.0", "url": "http://10.0.0.5:9000/", "preferredTransport": "JSONRPC",
     "additionalInterfaces": [{"url": "http://10.0.0.5:9000", "transport": "JSONRPC"},
                              {"url": "https://agents.example/billing/rest", "transport": "HTTP+JSON"}]},
    {"jsonrpc": "2.0", "id": 7, "result": {"name": "x", "url": "http://10.0.0.5:9000/a2a", "signatures": []}},
]


if __name__ == "__main__":
    main()
