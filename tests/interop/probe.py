#!/usr/bin/env python3
"""`probe` against servers built with real SDKs: what it says of each, as JSON and as a table.

Usage:  probe.py --bin target/release/a2a-errata [--only TEXT] [--markdown]

Hosts: a2a-sdk 1.3.0, 1.0.0 and 0.3.26, @a2a-js/sdk 1.3.0 and 0.3.14, each with tasks of two users, told apart by their
owner's token. What is expected of each stands in EXPECTED: the checks that fail, by interface, each with a part of the
reason. Exit 0 when it is so.
The SDKs are installed below target/interop, as for run.py.
"""
import argparse
import json
import subprocess
import sys
import urllib.request
from pathlib import Path

import environment
from processes import Processes

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
V1 = {"message": {"messageId": "m-1", "role": "ROLE_USER", "parts": [{"text": "hello"}]}}
V0_3 = {"message": {"messageId": "m-1", "role": "user", "kind": "message", "parts": [{"kind": "text", "text": "hello"}]}}

ABSENT = "error.data is absent, no ErrorInfo"
NO_STATUS = "with a JSON object, no google.rpc.Status"
BARE_JSON_RPC = dict.fromkeys(["unknown-task", "unknown-cancel", "cancel-finished"], ABSENT)
BARE_LATER = dict.fromkeys(["push-operations", "extended-card", "stream-error"], ABSENT)
DOUBLES = {"id-echo": "9007199254740993 comes back as 9007199254740992; "}
EXPRESS = {"oversized-body": "HTTP 413 with HTML, no JSON"}
EXPECTED = {
    # -32602 carries INVALID_PARAMS of A2A's domain, and metadata an array: read by hand, RFC 0211 §A says neither.
    "python-1.3.0 /scoped": {
        "invalid-params": "-32602 carries an A2A reason",
        "metadata": "metadata.errors is [{",
    },
    # Starlette answers a method that no route has.
    "python-1.3.0 /rest-scoped": {"unknown-method": "HTTP 405 with text, no JSON"},
    # -32602 as above; Express answers a body past its limit; ids are doubles.
    "js-1.3.0 /scoped": {
        "non-object-json": "the body []: -32602 carries an A2A reason",
        "invalid-params": "-32602 carries an A2A reason",
        **EXPRESS,
        **DOUBLES,
    },
    "js-1.3.0 /rest-scoped": {"unknown-method": "HTTP 404 with HTML, no JSON", **EXPRESS},
    # No details at all, or what a validator said.
    "python-1.0.0 /scoped": {
        **BARE_JSON_RPC,
        "non-object-json": 'error.data is "[] value is not accepted"',
        "invalid-params": 'error.data is {"errors":[{',
        "wrong-content-type": ABSENT,
        "bad-version": ABSENT,
        **BARE_LATER,
    },
    "python-1.0.0 /rest-scoped": {
        "cancel-finished": "409 TASK_NOT_CANCELABLE instead of 400 TASK_NOT_CANCELABLE",
        "unknown-method": "HTTP 405 with text, no JSON",
        "invalid-params": "500 for GetTask with invalid parameters instead of 400",
        "http-status": "HTTP 409 with 409 TASK_NOT_CANCELABLE where it is 400",
        "members": 'status is "UNIMPLEMENTED" where 400 has FAILED_PRECONDITION',
        "messages": 'a message with a crash: "unknown exception"',
    },
    "python-0.3.26 /scoped": {
        **BARE_JSON_RPC,
        "malformed-json": "the id is absent instead of null",
        "non-object-json": 'the body []: error.data has an entry without @type: {"type":"model_type"',
        "invalid-params": 'error.data has an entry without @type: {"type":"missing"',
        "wrong-content-type": ABSENT,
        "bad-version": "answers A2A-Version 99.0 as if it offered it",
        **BARE_LATER,
        "extended-card": "-32603 instead of EXTENDED_AGENT_CARD_NOT_CONFIGURED",
        "details": 'a detail without @type: {"type":"model_type"',
    },
    "js-0.3.14 /scoped": {
        **BARE_JSON_RPC,
        "invalid-params": ABSENT,
        **EXPRESS,
        "bad-version": "answers A2A-Version 99.0 as if it offered it",
        **BARE_LATER,
        **DOUBLES,
        "http-status": "malformed JSON: HTTP 400 with -32700: clients read a JSON-RPC error at 200",
    },
    # Its errors are JSON-RPC's without JSON-RPC: nothing is a Status.
    "js-0.3.14 /rest-scoped": {
        "unknown-task": NO_STATUS,
        "unknown-cancel": NO_STATUS,
        "cancel-finished": NO_STATUS,
        "malformed-json": NO_STATUS,
        "non-object-json": NO_STATUS,
        "unknown-method": "HTTP 404 with HTML, no JSON",
        "invalid-params": NO_STATUS,
        "wrong-content-type": NO_STATUS,
        **EXPRESS,
        "bad-version": NO_STATUS,
        "push-operations": NO_STATUS,
        "extended-card": "HTTP 404 with HTML, no JSON",
        "stream-error": NO_STATUS,
    },
}


def hosts(work):
    say = print if sys.stdout.isatty() else (lambda *_: None)
    python = [HERE / "hosts" / "python_1_0.py", HERE / "hosts" / "python_0_3.py"]
    js = [HERE / "hosts" / "js_1_0.mjs", HERE / "hosts" / "js_0_3.mjs"]
    return {
        "python-1.3.0": lambda: [environment.python(work, "client", say), python[0]],
        "js-1.3.0": lambda: ["node", environment.node(work, "host", js[0], say)],
        "python-1.0.0": lambda: [environment.python(work, "host-1.0.0", say), python[0]],
        "python-0.3.26": lambda: [environment.python(work, "host-0.3.26", say), python[1]],
        "js-0.3.14": lambda: ["node", environment.node(work, "legacy_host", js[1], say)],
    }


def seed(port, path, user, is_0_3, rest):
    """A finished task of this user's."""
    method, params = ("message/send", V0_3) if is_0_3 else ("SendMessage", V1)
    body = params if rest else {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    headers = {"content-type": "application/json", "authorization": f"Bearer {user}"}
    if not is_0_3:
        headers["a2a-version"] = "1.0"
    route = ("/v1" if is_0_3 else "") + "/message:send" if rest else ""
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}{route}", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=20) as answer:
        told = json.load(answer)
    result = told if rest else told["result"]
    return result.get("task", result)["id"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("--markdown", action="store_true", help="print every verdict as a table")
    parser.add_argument("--work", default=str(ROOT / "target/interop"))
    options = parser.parse_args()
    work = Path(options.work)
    work.mkdir(parents=True, exist_ok=True)
    environment.install_system_packages(lambda *_: None)
    passed = failed = 0
    for name, command in hosts(work).items():
        if options.only not in name:
            continue
        with Processes(work) as processes:
            port = processes.host(f"probed-{name}", command())
            is_0_3 = "-0.3" in name
            for path in ("/scoped", "/rest-scoped"):
                if name == "python-0.3.26" and path != "/scoped":
                    continue
                rest = path != "/scoped"
                # Both bindings of a JavaScript host share a store, and 0.3 has no one way to write a message over REST.
                shared = name.startswith("js")
                own, foreign = (seed(port, "/scoped" if shared else path, user, is_0_3, rest and not shared)
                                for user in ("alice", "bob"))
                done = subprocess.run(
                    [options.bin, "probe", f"http://127.0.0.1:{port}{path}", "--bearer", "alice", "--task", own,
                     "--foreign-task", foreign, "--rps", "200", "--json"],
                    stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
                where = f"{name} {path}"
                if done.returncode not in (0, 1):
                    print(f"FAIL {where}\n    {done.stderr.strip()}")
                    failed += 1
                    continue
                findings = json.loads(done.stdout)["interfaces"][0]["findings"]
                red = {f["check"]: f["reason"] for f in findings if f["verdict"] == "fail"}
                if options.markdown:
                    print(f"\n### {where}\n\n| check | verdict | what was seen |\n|---|---|---|")
                    for f in findings:
                        notes = "".join(f" ({note})" for note in f["notes"])
                        print(f"| `{f['check']}` | {f['verdict']} | {(f['reason'] + notes).replace('|', chr(92) + '|')} |")
                wanted = EXPECTED.get(where, {})
                if list(red) == list(wanted) and all(wanted[check] in why for check, why in red.items()):
                    passed += 1
                else:
                    failed += 1
                    print(f"FAIL {where}")
                    for check in {**wanted, **red}:
                        if check not in red or check not in wanted or wanted[check] not in red[check]:
                            print(f"    {check}: {red.get(check, '(not red)')}\n        wanted: {wanted.get(check, '(not red)')}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
