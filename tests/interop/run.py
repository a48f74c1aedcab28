#!/usr/bin/env python3
"""Real A2A client libraries in front, real legacy hosts behind, the proxy between them.

Usage:  run.py --bin target/release/a2a-errata [--only TEXT] [--compare [FILE]] [--timeout S] [-v]
        run.py --direct [--only TEXT]      the same calls without the proxy, to see what is repaired

Each client must raise the typed error that a conformant host would have caused, and what a caller learns about
somebody else's task must equal, byte for byte, what it learns about a task that does not exist. README.md says
what each combination can and cannot show. Needs only the standard library: SDKs are installed below
target/interop, everything runs on free ports of 127.0.0.1, and only what was started is ended, by its pid.
"""
import argparse
import os
import signal
import sys
import time
from collections import namedtuple
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatchcase
from pathlib import Path

import environment
import wire
from cases import CALLER, ENVELOPES, HOSTS, OWNER, RESULT, STREAMS, UNKNOWN, over_rest
from processes import ProcessError, Processes

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
COMPARED = ("get", "cancel", "subscribe", "send", "stream", "push_list")

# One judged answer. `who` is a client or "wire"; `fault` says what is wrong with it, None when nothing is.
Check = namedtuple("Check", "host title who case expected got fault")


class Ran:
    """The hosts that run, and the tasks that they keep for their owner."""

    def __init__(self, host, port):
        self.host, self.port = host, port
        self.tasks = {}

    def unknown(self):
        return "t-unknown" if self.host is ENVELOPES else UNKNOWN

    def foreign(self, guard):
        return "t-forbidden" if self.host is ENVELOPES else self.tasks[guard, OWNER]


def main():
    options = arguments()
    started = time.monotonic()
    colour = Colour(sys.stdout.isatty() and "NO_COLOR" not in os.environ)
    say = lambda text: print(f"[{time.monotonic() - started:5.1f} s] {text}", flush=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended from outside"))
    signal.signal(signal.SIGALRM, lambda *_: sys.exit(f"not done within {options.timeout} s"))
    signal.alarm(options.timeout)
    hosts = [*HOSTS, ENVELOPES, STREAMS]
    try:
        work = Path(options.work)
        work.mkdir(parents=True, exist_ok=True)
        environment.install_system_packages(say)
        with Processes(work) as processes:
            ran = start_hosts(processes, work, hosts, say)
            clients = {
                "python": [environment.python(work, "client", say), HERE / "clients/python_client.py"],
                "js": ["node", environment.node(work, "client", HERE / "clients/js_client.mjs", say)],
                "python-0.3": [environment.python(work, "host-0.3.26", say), HERE / "clients/python_client_0_3.py"],
                "js-0.3": ["node", environment.node(work, "legacy_host", HERE / "clients/js_client_0_3.mjs", say)],
            }
            seed(ran)
            say("each owner has a task on every host")
            direct = proxied = None
            if options.direct or options.compare is not None:
                ports = {r.host.name: (r.port, r.port) for r in ran}
                direct = check_all(processes, ran, ports, clients, options.only, "without the proxy", say)
            if not options.direct:
                ports = start_proxies(processes, Path(options.bin), ran, say)
                proxied = check_all(processes, ran, ports, clients, options.only, "through the proxy", say)
    except (environment.SetupError, ProcessError) as error:
        print(f"interop: {error}", file=sys.stderr)
        print("0 passed, 1 failed")
        return 1
    checks = proxied or direct or []
    print_table(checks, colour, options.verbose)
    if options.compare is not None:
        compare(direct, proxied, options.compare)
    wrong = [check for check in checks if check.fault is not None]
    if options.direct:
        print(f"\nwithout the proxy {len(checks) - len(wrong)} of {len(checks)} are as they should be")
        return 0
    if not checks:
        print(f"no case matches {options.only!r}", file=sys.stderr)
    waiting, outdated = sort_out_pending(checks, wrong)
    failed = len(wrong) - waiting + outdated
    print(f"{len(checks) - len(wrong)} passed, {failed} failed" + (f", {waiting} skipped" if waiting else ""))
    return 1 if failed or not checks else 0


def sort_out_pending(checks, wrong):
    """How many of the wrong checks wait for a feature, and how many lines of pending.txt are no longer needed."""
    waiting, outdated = set(), 0
    for line in (HERE / "pending.txt").read_text().splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        pattern, _, reason = (part.strip() for part in line.partition(" = "))
        meant = [check for check in checks if fnmatchcase(f"{check.host} {check.who} {check.case}", pattern)]
        still = [check for check in meant if check in wrong]
        waiting.update(still)
        if not reason:
            print(f"pending.txt: say what {pattern!r} waits for: `PATTERN = reason`")
            outdated += 1
        elif still:
            print(f"pending: {len(still)} of {pattern}: {reason}")
        elif meant:
            print(f"pending.txt: everything that {pattern!r} matches holds now: take the line out")
            outdated += 1
    return len(waiting), outdated


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", help="the a2a-errata binary")
    parser.add_argument("--only", default="", help="only what has this text in `host client case`")
    parser.add_argument("--direct", action="store_true", help="call the hosts without the proxy; informative, exits 0")
    parser.add_argument("--compare", nargs="?", const="-", metavar="FILE",
                        help="also write a Markdown table of both to FILE or standard output")
    parser.add_argument("--work", default=str(ROOT / "target/interop"), help="where SDKs and logs go")
    parser.add_argument("--timeout", type=int, default=900, help="seconds for everything (900)")
    parser.add_argument("-v", "--verbose", action="store_true", help="list what passed, too")
    options = parser.parse_args()
    if not options.direct and not options.bin:
        parser.error("--bin or --direct is needed")
    if options.direct and options.compare is not None:
        parser.error("--compare needs the proxy, and calls the hosts without it too")
    if options.bin and not os.access(options.bin, os.X_OK):
        parser.error(f"{options.bin} is no program: build it with `make build`")
    return options


def start_hosts(processes, work, hosts, say):
    commands = {
        "python-1.0.0": lambda: [environment.python(work, "host-1.0.0", say), HERE / "hosts/python_1_0.py"],
        "python-0.3.26": lambda: [environment.python(work, "host-0.3.26", say), HERE / "hosts/python_0_3.py"],
        "js-0.3.14": lambda: ["node", environment.node(work, "legacy_host", HERE / "hosts/js_0_3.mjs", say)],
        "openwop": lambda: [sys.executable, HERE / "hosts/openwop.py"],
        "streams": lambda: [sys.executable, HERE / "hosts/streams.py"],
    }
    ran = []
    for host in hosts:
        port = processes.host(host.name, commands[host.program or host.name]())
        say(f"{host.title} listens on {port}")
        ran.append(Ran(host, port))
    return ran


def start_proxies(processes, binary, ran, say):
    """By host the port of the proxy that is told its interfaces, and of the one that reads them in the agent card."""
    ports = {}
    for r in ran:
        if r.host.only_upstream:
            port = processes.bare_proxy(r.host.name, binary, r.port)
            ports[r.host.name] = port, port
            continue
        interfaces = [(f"/{guard}", "HTTP+JSON" if over_rest(guard) else "JSONRPC", [r.host.protocol])
                      for guard in r.host.guards + r.host.more]
        told = processes.proxy(r.host.name, binary, r.port, interfaces, r.host.normalize_0_3)
        by_card = processes.proxy(f"{r.host.name}-by-card", binary, r.port, [], r.host.normalize_0_3) \
            if r.host.has_card else None
        ports[r.host.name] = told, by_card
    say(f"{sum(port is not None for both in ports.values() for port in set(both))} proxies listen")
    return ports


def seed(ran):
    """Lets the owner send a message to every interface, so that a finished task of theirs exists."""
    for r in ran:
        if r.host.scripted:
            continue
        for guard in r.host.guards:
            for user in (OWNER, CALLER):
                request = wire.rest_call("send") if over_rest(guard) else wire.call(r.host.protocol, "send")
                answer = wire.send(r.port, guard, request, user, r.host.protocol)
                body = wire.json_object(answer) or {}
                result = body.get("result") or body
                task = result.get("task", result).get("id")
                if not task:
                    raise ProcessError(f"{r.host.name}/{guard} made no task: {wire.shorten(answer.body)}")
                r.tasks[guard, user] = task


def check_all(processes, ran, ports, clients, only, how, say):
    checks = []
    for r in ran:
        port, card_port = ports[r.host.name]
        wanted = {client: [call for call in r.host.calls_of(client) if only in f"{r.host.name} {client} {label(call)}"]
                  for client in r.host.clients}
        with ThreadPoolExecutor(2) as pool:
            seen = pool.map(lambda client: ask(processes, client, clients[client], [
                described(r, port, card_port, call) for call in wanted[client]]), wanted)
            for client, outcomes in zip(wanted, seen):
                checks += [judge(r.host, client, call, outcome) for call, outcome in zip(wanted[client], outcomes)]
        checks += [check for check in raw_checks(r, port)
                   if only in f"{check.host} wire {check.case}"]
        mine = [check for check in checks if check.host == r.host.name]
        say(f"{r.host.title} {how}: {sum(c.fault is None for c in mine)} of {len(mine)} as they should be")
    return checks


def ask(processes, client, command, calls):
    return processes.client(client, command, calls) if calls else []


def label(call):
    return f"{call.guard}: {call.name}"


def described(ran, port, card_port, call):
    """The call as the client programs read it."""
    options = call.options
    if "discover" in options:
        options = {**options, "discover": f"http://127.0.0.1:{card_port}"}
    tasks = {"own": ran.tasks.get((call.guard, CALLER)), "foreign": ran.tasks.get((call.guard, OWNER)),
             "unknown": UNKNOWN, "empty": ""}
    return {"url": f"http://127.0.0.1:{port}/{call.guard}", "protocol": call.protocol or ran.host.protocol,
            "binding": "HTTP+JSON" if over_rest(call.guard) else "JSONRPC", "op": call.op,
            "task": tasks.get(call.task, call.task), "token": CALLER, **options}


def judge(host, client, call, seen):
    expect = call.expect
    wanted = expect.raised_by(client) or "result"
    got = seen.get("class") or "result"
    # Over JSON-RPC a status tells something only where it is no 200.
    status = expect.rest if over_rest(call.guard) else expect.http
    status_shows = expect is not RESULT and status != 200 and not call.events
    faults = []
    if got != wanted:
        faults.append(f"{got}: {seen.get('message', '')}")
    elif expect is not RESULT:
        if client != "python" and not over_rest(call.guard) and seen["code"] != expect.code:
            faults.append(f"code {seen['code']}")
        if status_shows and seen.get("http_status") != status:
            faults.append(f"HTTP {seen.get('http_status')}")
        if expect.http == 429 and seen["retry_after"] != "2":
            faults.append("Retry-After lost")
        faults += metadata_faults(client, call, host, seen["data"])
        if OWNER in str(seen):
            faults.append("tells whose it is")
    if call.events is not None and seen.get("events") != call.events:
        faults.append(f"{seen.get('events')} events, not {call.events}")
    shown = f"{wanted} {status}" if status_shows else wanted
    got_shown = f"{got} {seen.get('http_status')}" if status_shows or seen.get("http_status") not in (None, 200) else got
    return Check(host.name, host.title, client, label(call), shown, got_shown, "; ".join(faults) or None)


def metadata_faults(client, call, host, data):
    """Error data that the SDK hands to its caller must hold what is promised. Python's 0.3 layer hands out none."""
    protocol = call.protocol or host.protocol
    if not call.expect.metadata or (client == "python" and protocol == "0.3"):
        return []
    if client != "python" and not over_rest(call.guard):
        data = data[0].get("metadata") if isinstance(data, list) and data and isinstance(data[0], dict) else None
    return [f"no {key} in its data" for key in call.expect.metadata if not isinstance(data, dict) or key not in data]


def raw_checks(ran, port):
    """What needs bytes rather than a library: equality of unknown and foreign, and requests no library would send."""
    host = ran.host
    for guard, op in ((guard, op) for guard in host.guards for op in COMPARED):
        if (guard, op) in host.told_apart:
            continue
        rest = over_rest(guard)
        differences, faults = [], []
        # Both types of id, one of them beyond what floating point can hold. HTTP+JSON has none.
        for request_id in (None,) if rest else (9007199254740993, "r-1"):
            pair = []
            for task in (ran.unknown(), ran.foreign(guard)):
                request = wire.rest_call(op, task) if rest else wire.call(host.protocol, op, task, request_id)
                answer = wire.send(port, guard, request, "good" if host is ENVELOPES else CALLER, host.protocol,
                                   wire.accept(op))
                pair.append(wire.comparable(answer, request_id, task))
                faults += wire.not_found_problems(answer, rest, request_id, task)
            differences.append(wire.difference(*pair))
        fault = next(filter(None, differences), None)
        yield Check(host.name, host.title, "wire", f"{guard}: {op}: unknown = foreign", "equal bytes",
                    "differ" if fault else "equal bytes", fault)
        # Where push notifications are unsupported that is said first, of any task.
        if op != "push_list" or host is ENVELOPES:
            yield Check(host.name, host.title, "wire", f"{guard}: {op}: the fixed answer", "TASK_NOT_FOUND",
                        "other" if faults else "TASK_NOT_FOUND", "; ".join(dict.fromkeys(faults)) or None)
    for name, body, version, status, code, request_id, secrets in host.malformed:
        guard = host.guards[0]
        answer = wire.send(port, guard, wire.Request("POST", "", body), CALLER, version)
        faults = wire.problems(answer, status, code, request_id) + told(answer, secrets)
        error = (wire.json_object(answer) or {}).get("error")
        got = error.get("code") if isinstance(error, dict) else "no JSON-RPC error"
        yield Check(host.name, host.title, "wire", f"{guard}: {name}", f"{code} HTTP {status}",
                    f"{got} HTTP {answer.status}", "; ".join(faults) or None)
    for name, request, version, status, reason, secrets in host.malformed_rest:
        guard = next(filter(over_rest, host.guards))
        answer = wire.send(port, guard, request, CALLER, version)
        faults = wire.status_problems(answer, status, reason) + told(answer, secrets)
        yield Check(host.name, host.title, "wire", f"{guard}: {name}", f"{reason} HTTP {status}",
                    f"{'other' if faults else reason} HTTP {answer.status}", "; ".join(faults) or None)


def told(answer, secrets):
    return [f"says {text!r}" for text in secrets if text.encode() in answer.body]


class Colour:
    def __init__(self, on):
        self.on = on

    def __call__(self, code, text):
        return f"\x1b[{code}m{text}\x1b[0m" if self.on else text


def rows(checks):
    """Checks by host and case, one column per client: (host title, case) -> {who: check}."""
    table = {}
    for check in checks:
        table.setdefault((check.title, check.case), {})[check.who] = check
    return table


def print_table(checks, colour, verbose):
    """Per host one table of cases and clients, and one of what was judged on the wire."""
    for title, part in sections(checks):
        table = rows(part)
        columns = list(dict.fromkeys(check.who for check in part))
        widths = {who: max([len(who)] + [len(table_cell(by_who[who])) for by_who in table.values() if who in by_who])
                  for who in columns}
        width = max(len(case) for _, case in table)
        print(f"\n{colour('1', title)}")
        print(f"  {'':{width}}  " + "  ".join(f"{who:{widths[who]}}" for who in columns).rstrip())
        for (_, case), by_who in table.items():
            cells = []
            for who in columns:
                check = by_who.get(who)
                text = f"{table_cell(check) if check else '':{widths[who]}}"
                cells.append(colour("32" if check.fault is None else "31", text) if check else text)
            print(f"  {case:{width}}  {'  '.join(cells)}".rstrip())
            for who, check in by_who.items():
                if check.fault and (verbose or check.got == check.expected or who == "wire"):
                    print(f"      {who}: {check.fault}")
    print()


def sections(checks):
    for title in dict.fromkeys(check.title for check in checks):
        for wire_part in (False, True):
            part = [check for check in checks if check.title == title and (check.who == "wire") == wire_part]
            if part:
                yield title + (", on the wire" if wire_part else ""), part


def table_cell(check):
    if check.fault is None:
        return f"✓ {check.got}"
    return f"✗ {check.got}" + ("" if check.got == check.expected else f", not {check.expected}")


def compare(direct, proxied, target):
    """Today against through the proxy, as Markdown: first how many answers are as they should be, then each."""
    after = rows(proxied)
    lines = ["", "| host | seen by | right directly | right through the proxy |", "|---|---|---|---|"]
    for title, who in dict.fromkeys((check.title, check.who) for check in direct):
        counts = [f"{sum(check.fault is None for check in part)} of {len(part)}" for part in (
            [check for check in checks if (check.title, check.who) == (title, who)] for checks in (direct, proxied))]
        lines.append(f"| {title} | {who} | {' | '.join(counts)} |")
    previous = None
    for key, before in rows(direct).items():
        title, case = key
        if title != previous:
            lines += ["", f"### {title}", "", "| case | seen by | directly | through the proxy |", "|---|---|---|---|"]
            previous = title
        for who, check in before.items():
            lines.append(f"| {case} | {who} | {cell(check)} | {cell(after[key][who])} |")
    text = "\n".join(lines[1:]) + "\n"
    if target == "-":
        print(text)
    else:
        Path(target).write_text(text)
        print(f"written: {target}")


def cell(check):
    if check.fault is None:
        return f"{check.got} ✓"
    # A wrong outcome speaks for itself; a right one with something missing needs the reason.
    return f"{check.got} ✗" + (f" ({check.fault.replace('|', '/')})" if check.got == check.expected else "")


if __name__ == "__main__":
    sys.exit(main())
