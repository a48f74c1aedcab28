#!/usr/bin/env python3
"""Runs every black-box case and knows which ones still wait for a feature.

Usage:  check.py --bin target/release/a2a-errata [--only TEXT] [--timeout S]

pending.txt names the waiting cases, one `name: reason` a line. Fails when a case that is not pending fails, and when
a pending one passes: then its line has to go. run.py is a copy that is replaced from time to time, so everything about
pending cases is here. Where the place the copies come from is at hand, says whether they are still the same.
"""
import argparse
import filecmp
import json
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parent.parent.parent / "shared" / "blackbox"
VERDICT = re.compile(r"^(ok  |FAIL) (.*?)  \[[^\]]*\]$")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True, help="the a2a-errata binary")
    parser.add_argument("--only", default="", help="only cases with this text in their name")
    parser.add_argument("--timeout", type=int, default=900, help="seconds for the cases that must pass (900)")
    options = parser.parse_args()
    warn_about_copies()
    cases = {case["name"]: case for file in sorted((HERE / "cases").glob("*.json"))
             for case in json.loads(file.read_text())}
    pending = read_pending(cases)
    chosen = [name for name in cases if options.only in name]
    if not chosen:
        return end(f"no case has {options.only!r} in its name", 0, 1, 0)
    required = [name for name in chosen if name not in pending]
    waiting = [name for name in chosen if name in pending]

    verdicts, output = run(options.bin, with_references(cases, required), options.timeout)
    failed = [name for name in required if verdicts.get(name) != "ok"]
    print("\n".join(lines_about(output, failed)) or "", end="\n" if failed else "")
    for name in failed:
        if name not in verdicts:
            print(f"FAIL {name}\n    never ran: the runner ended before it")
    if any(name not in verdicts for name in failed):
        print(output[-3000:])

    # Each on its own: an unknown key in one configuration must not keep the others from being tried.
    with ThreadPoolExecutor(2) as pool:
        tried = list(pool.map(lambda name: run(options.bin, with_references(cases, [name]), 60)[0].get(name), waiting))
    for name, verdict in zip(waiting, tried):
        if verdict == "ok":
            failed.append(name)
            print(f"FAIL {name}\n    passes now: take it out of {HERE.name}/pending.txt")
        else:
            print(f"pending {name}: {pending[name]}")
    print(f"{len(required)} cases ran, {len(waiting)} are pending")
    return end(None, len(chosen) - len(failed) - sum(verdict != "ok" for verdict in tried), len(failed),
               sum(verdict != "ok" for verdict in tried))


def end(complaint, passed, failed, pending):
    if complaint:
        print(complaint, file=sys.stderr)
    print(f"{passed} passed, {failed} failed" + (f", {pending} skipped" if pending else ""))
    return 1 if failed else 0


def read_pending(cases):
    pending = {}
    path = HERE / "pending.txt"
    for number, line in enumerate(path.read_text().splitlines() if path.exists() else [], 1):
        if not line.strip() or line.startswith("#"):
            continue
        name, _, reason = (part.strip() for part in line.partition(":"))
        if name not in cases:
            raise SystemExit(f"{path}:{number}: there is no case named {name!r}")
        if not reason:
            raise SystemExit(f"{path}:{number}: say what {name} waits for: `{name}: reason`")
        pending[name] = reason
    return pending


def with_references(cases, names):
    """The cases in their own order, with those that they are compared to."""
    wanted, todo = set(), list(names)
    while todo:
        name = todo.pop()
        if name not in wanted:
            wanted.add(name)
            todo += filter(None, [cases[name]["expect"].get("same_as")])
    return [case for name, case in cases.items() if name in wanted]


def run(binary, cases, timeout):
    """Each case's verdict by name, and all that the runner printed."""
    if not cases:
        return {}, ""
    with tempfile.TemporaryDirectory(prefix="black-box-") as folder:
        file = Path(folder) / "cases.json"
        file.write_text(json.dumps(cases, ensure_ascii=False))
        runner = subprocess.Popen([sys.executable, str(HERE / "run.py"), "--bin", binary, "--cases", str(file), "-v"],
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        try:
            output = runner.communicate(timeout=timeout)[0].decode("utf-8", "replace")
        except subprocess.TimeoutExpired:
            # A polite end first: it lets the runner end the proxy that it started.
            runner.send_signal(2)
            try:
                output = runner.communicate(timeout=10)[0].decode("utf-8", "replace")
            except subprocess.TimeoutExpired:
                runner.kill()
                output = runner.communicate()[0].decode("utf-8", "replace")
            output += f"\nnot done within {timeout} s"
    found = (VERDICT.match(line) for line in output.splitlines())
    return {match[2]: match[1].strip() for match in found if match}, output


def lines_about(output, names):
    """What the runner said about some cases: the verdict and the indented lines below it."""
    wanted = False
    for line in output.splitlines():
        match = VERDICT.match(line)
        if match:
            wanted = match[2] in names
        elif not line.startswith("    "):
            wanted = False
        if wanted:
            yield line


def warn_about_copies():
    if not SOURCE.is_dir():
        return
    for file in sorted(SOURCE.rglob("*")):
        copy = HERE / file.relative_to(SOURCE)
        if file.is_file() and not (copy.is_file() and filecmp.cmp(file, copy, shallow=False)):
            root = HERE.parent.parent
            print(f"warning: {copy.relative_to(root)} differs from {os.path.relpath(file, root)}")


if __name__ == "__main__":
    sys.exit(main())
