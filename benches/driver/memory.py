"""Peak memory of what is long, and of what has to be held."""

from .processes import MIB, say
from .report import Section, Verdict, dots

INTAKE = 4 * MIB  # the default of `intake_bytes`
HELD = 200
HUGE = 256 * MIB

CASES = [
    # Title, path, requests, connections, bytes of a request, bound in bytes.
    ("256 MiB success", f"/result/{HUGE}", 1, 1, 0, 64 * MIB),
    ("256 MiB request", "/small", 1, 1, HUGE, 64 * MIB),
    (f"{HELD} held errors of 1 MiB", f"/held/{HELD}", HELD, HELD, 0, HELD * INTAKE + 64 * MIB),
]


def measure(stage):
    say("memory: peak RSS")
    rows, verdicts, dotted = [], [], []
    for title, path, requests, connections, request_bytes, bound in CASES:
        peaks = []
        for proxy in (stage.errata("memory", paths=[path]), stage.bare()):
            stage.load(proxy, "/small", 200, 4)
            before = proxy.rss()
            proxy.forget_peak()
            stage.load(proxy, path, requests, connections, request_bytes)
            peaks += [before, proxy.rss("VmHWM")]
            proxy.end()
        rows.append([title, *(f"{bytes_ / MIB:.1f}" for bytes_ in (peaks[1], peaks[0], peaks[3], bound))])
        measured = f"{peaks[1] / MIB:.1f} MiB"
        verdicts.append(Verdict(f"peak RSS, {title}", measured, f"< {bound / MIB:.0f} MiB", peaks[1] < bound))
        dotted.append((title, [peaks[1] / MIB], bound / MIB))
        say(f"  {title}")
    plots = {"memory": dots("Peak RSS in MiB (red: bound)", dotted, "", 0)}
    head = ["case", "a2a-errata MiB", "before MiB", "bare MiB", "bound MiB"]
    return [Section("Memory", head, rows, plots=plots, verdicts=verdicts)]
