#!/usr/bin/env python3
"""Runs every test there is and ends with a table: what ran, how long it took, what passed, what is pending.

Usage:  tests/run_all.py       (`make test`; one step after the other, a failed one does not stop the others)

Steps: cargo's tests, each fuzz target for FUZZ_SECONDS (60), one release build, and against it the black-box cases,
`explain` on each of them, the dashboards with a real Prometheus, the status page in Chromium, what deploy/ says and does,
the interop run with real SDKs, and `probe` against those. When TEST_SUMMARY is set, the closing line is written there too.
"""
import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BINARY = "target/release/a2a-errata"
CARGO = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored")
PLAIN = re.compile(r"^(\d+) passed, (\d+) failed(?:, (\d+) skipped)?$")

# title, command, seconds it may take, whether it needs the binary
STEPS = (
    ("unit and integration", ["cargo", "test", "--locked", "--no-fail-fast"], 2400, False),
    # What is known must hold. What chance finds beside it is told and kept: it says nothing about the change that was made,
    # and the next run may not meet it. `make fuzz` fails by it.
    ("fuzzing", [sys.executable, "fuzz/run", "--seed", "1", "--known"], 2400, False),
    ("release build", ["cargo", "build", "--release", "--locked", "--bin", "a2a-errata"], 2400, False),
    ("black box", [sys.executable, "tests/black_box/check.py", "--bin", BINARY], 1200, True),
    ("black box, explained", [sys.executable, "tests/black_box/explain.py", "--bin", BINARY], 600, True),
    ("dashboards", [sys.executable, "tests/operate/dashboards.py", "--bin", BINARY], 1200, True),
    ("status page", [sys.executable, "tests/operate/page.py", "--bin", BINARY], 600, True),
    ("deploy, the files", [sys.executable, "tests/operate/manifests.py", "--bin", BINARY], 900, True),
    ("deploy, the image", [sys.executable, "tests/operate/image.py", "--bin", BINARY], 300, True),
    ("deploy, the unit", [sys.executable, "tests/operate/unit.py", "--bin", BINARY], 300, True),
    ("interop", [sys.executable, "tests/interop/run.py", "--bin", BINARY], 1200, True),
    ("interop, probed", [sys.executable, "tests/interop/probe.py", "--bin", BINARY], 600, True),
)


class Step:
    def __init__(self, title, command, limit):
        self.title, self.command, self.limit = title, command, limit
        self.passed = self.failed = self.pending = 0
        self.seconds, self.outcome = 0, "not run"

    def run(self):
        print(f"\n---- {self.title}: {' '.join(self.command).replace(sys.executable, 'python3')}", flush=True)
        began = time.monotonic()
        process = subprocess.Popen(self.command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   errors="replace", text=True, start_new_session=True)
        signal.signal(signal.SIGALRM, lambda *_: end_group(process))
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: (end_group(process), sys.exit(1)))
        signal.alarm(self.limit)
        try:
            for line in process.stdout:
                sys.stdout.write(line)
                sys.stdout.flush()
                self.count(line.rstrip("\n"))
            code = process.wait()
        finally:
            signal.alarm(0)
        self.seconds = time.monotonic() - began
        self.outcome = "ok" if code == 0 and not self.failed else "FAILED"
        if code and not self.failed:
            self.failed = 1

    def count(self, line):
        found = CARGO.match(line) or PLAIN.match(line)
        if found:
            passed, failed, pending = (int(n or 0) for n in found.groups())
            self.passed, self.failed, self.pending = \
                self.passed + passed, self.failed + failed, self.pending + pending


def end_group(process):
    """Ends a step with all it started: it leads a process group of its own."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)


def main():
    steps = []
    for title, command, limit, needs_binary in STEPS:
        step = Step(title, command, limit)
        if needs_binary and not built(steps):
            step.failed, step.outcome = 1, "FAILED: no binary"
        else:
            step.run()
        steps.append(step)
    print_table(steps)
    passed, failed, pending = (sum(getattr(s, what) for s in steps) for what in ("passed", "failed", "pending"))
    closing = f"{passed} passed, {failed} failed" + (f", {pending} skipped" if pending else "")
    print(closing)
    if summary := os.environ.get("TEST_SUMMARY"):
        Path(summary).write_text(closing + "\n")
    return 1 if failed else 0


def built(steps):
    return any(step.title == "release build" and step.outcome == "ok" for step in steps)


def print_table(steps):
    colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    print(f"\n{'':24}{'passed':>8}{'failed':>8}{'pending':>9}{'seconds':>9}")
    for step in steps:
        outcome = f"\x1b[{32 if step.outcome == 'ok' else 31}m{step.outcome}\x1b[0m" if colour else step.outcome
        print(f"{step.title:24}{step.passed:>8}{step.failed:>8}{step.pending:>9}{step.seconds:>9.0f}  {outcome}")
    print()


if __name__ == "__main__":
    sys.exit(main())
