"""User-space instructions of the rules, by valgrind: they do not depend on what else runs on the machine."""

import re
import shutil
import subprocess

from .processes import Failed, say
from .report import Section

HUNDRED = re.compile(r"stream of an event and 100 (\w+)")


def measure(stage):
    if not shutil.which("valgrind"):
        raise Failed("counting instructions needs valgrind, which is not installed (Debian: apt-get install valgrind)")
    say("instructions of one exchange, by valgrind")
    listed = subprocess.run([stage.found["bench"], "rules", "--list"], stdout=subprocess.PIPE, text=True, check=True)
    counts = {name: instructions(stage, name) for name in listed.stdout.splitlines()}
    rows = []
    for name, count in counts.items():
        many = HUNDRED.fullmatch(name)
        if many:  # the first event, the head and the request taken away
            name, count = f"one of 100 further {many[1]}", (count - counts["stream of an event"]) / 100
        rows.append([name, f"{count:.0f}"])
    return [Section("Instructions", ["one exchange", "instructions"], rows, "Counted in user space, the start of the process taken away.")]


def instructions(stage, kind):
    """Of one exchange: what more of them add, so that the start of the process does not count."""
    few, many = (2, 12) if HUNDRED.fullmatch(kind) else (20, 220)
    counted = (run(stage, kind, many) - run(stage, kind, few)) / (many - few)
    say(f"  {kind}: {counted:.0f}")
    return counted


def run(stage, kind, times):
    command = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null",
               stage.found["bench"], "rules", kind, str(times)]
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=120, check=False)
    found = re.search(r"I\s+refs:\s+([\d,]+)", done.stderr)
    if done.returncode != 0 or not found:
        raise Failed(f"valgrind, {kind}: {done.stderr[-300:]}")
    return int(found[1].replace(",", ""))
