"""Whether a crowd is borne: many streams open at once, and calls at a steady rate beside them, for minutes."""

import subprocess
import time

from .processes import MIB, Failed, open_files, say
from .report import Section, Verdict, dots
from .stage import parsed

STREAMS, OF_A_CONNECTION, EVERY = 10_000, 100, 20
RATE, CONNECTIONS, SECONDS = 500, 16, 600
# Descriptors that the proxy and the host have open besides the streams'.
SPARE = 400


def measure(stage):
    seconds = stage.options.crowd_seconds
    streams = 500 if stage.options.quick else STREAMS
    # Clients of HTTP/2 share connections; the host has one for each stream.
    needed = streams + streams // OF_A_CONNECTION + SPARE
    if open_files() < needed:
        raise Failed(f"{streams} streams need {needed} open files, and the hard limit (ulimit -Hn) is {open_files()}")
    say(f"crowd: {streams} streams with an event every {EVERY} s, {RATE} calls/s, {seconds} s")
    path = f"/ticks/{EVERY}"
    proxy = stage.errata("crowd", paths=[path], flags=["--log-level", "error"])
    stage.load(proxy, "/small", 400, 8)
    samples = [(0, proxy.settled_rss() / MIB, proxy.descriptors())]
    crowd = stage.talking("crowd", proxy, path, streams, streams // OF_A_CONNECTION)
    opened = parsed(crowd.stdout.readline())
    say(f"  {opened['open']:.0f} streams are open")
    began, cpu = time.monotonic(), proxy.cpu()
    calls = stage.talking("steady", proxy, "/small", RATE, seconds, CONNECTIONS)
    while calls.poll() is None:
        samples.append((time.monotonic() - began, proxy.rss() / MIB, proxy.descriptors()))
        if len(samples) % 12 == 0:
            say(f"  {samples[-1][0]:.0f} s: {samples[-1][1]:.0f} MiB, {samples[-1][2]} descriptors")
        try:
            calls.wait(max(1, seconds / 120))
        except subprocess.TimeoutExpired:
            pass
    said, cpu = parsed(calls.stdout.read()), proxy.cpu() - cpu
    crowd.stdin.close()
    ended = parsed(crowd.stdout.read())
    proxy.end()
    under_way = samples[2:] or samples
    least, most = min(one[1] for one in under_way), max(one[1] for one in under_way)
    rows = [
        ["streams", f"{opened['open']:.0f} open, {ended['cut']:.0f} cut, {ended['events']:.0f} events"],
        ["calls", f"{said['requests']:.0f}, {said['failed']:.0f} failed; {said['p50_us']:.0f} us at the median, "
                  f"{said['p99_us']:.0f} at the 99th percentile, {said['max_us']:.0f} at most"],
        ["RSS", f"{samples[0][1]:.0f} MiB before, {least:.0f} to {most:.0f} MiB during"],
        ["descriptors", f"{samples[0][2]} before, {max(one[2] for one in under_way)} at most"],
        ["CPU", f"{cpu / (time.monotonic() - began) * 100:.0f} % of a core"],
    ]
    wrong = opened["failed"] + ended["cut"] + said["failed"]
    verdicts = [Verdict(f"{streams} streams and {RATE} calls/s for {seconds} s, failures", f"{wrong:.0f}", "0", wrong == 0)]
    plots = {"crowd": dots("RSS in MiB, each sample", [("RSS", [one[1] for one in under_way], None)], "", 0)}
    note = f"HTTP/2 clients, {OF_A_CONNECTION} streams a connection; calls over {CONNECTIONS} kept HTTP/1.1 connections."
    return [Section("A crowd", ["", ""], rows, note, plots, verdicts)]
