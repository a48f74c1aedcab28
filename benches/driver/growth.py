"""What a request costs as what it does not concern grows: hosts, interfaces, the size of a result, and other
open streams."""

import statistics

from . import streams
from .processes import MIB, say
from .report import Section, Verdict, at_most, curves
from .stage import CONNECTIONS, Host, turned

REQUESTS = 5000


def hosts(number):
    """Told apart by authority; the last one is asked."""
    found = [Host(["/small"], f"h{n}", f'authorities = ["h{n}.example"]') for n in range(number)]
    return found, "/small", f"h{number - 1}.example"


def public_paths(number):
    """Told apart by the path of their public URL, below one authority."""
    found = [Host(["/small"], f"h{n}", f'public_url = "https://agents.example/h{n}"\nauthorities = ["h{n}.internal"]')
             for n in range(number)]
    return found, f"/h{number - 1}/small", "agents.example"


def interfaces(number):
    """Of one host; the last one is asked."""
    return [Host([f"/small/{n}" for n in range(number)])], f"/small/{number - 1}", None


TABLES = {
    "hosts by authority": (hosts, [1, 10, 100, 1000]),
    "hosts by public path": (public_paths, [1, 10, 100, 1000]),
    "interfaces": (interfaces, [1, 100, 1000, 10_000]),
}
SIZES = [1 << 10, 32 << 10, MIB, 16 * MIB, 100 * MIB]
OPEN = [10, 100, 1000, 10_000]


def measure(stage):
    return [routing(stage), results(stage), open_streams(stage)]


def routing(stage):
    """CPU time of a request, by how much there is to look it up in."""
    rows, series, verdicts = [], {}, []
    rounds = stage.options.rounds or (4 if stage.options.quick else 10)
    for title, (make, numbers) in TABLES.items():
        say(f"growth: {title}, {numbers[0]} to {numbers[-1]}")
        running = []
        for number in numbers:
            table, path, authority = make(number)
            proxy = stage.errata(f"growth-{number}", hosts=table)
            stage.load(proxy, path, 1500, host=authority)
            running.append((number, proxy, path, authority))
        costs = {number: [] for number in numbers}
        for turn in range(rounds):
            for number, proxy, path, authority in turned(running, turn):
                said = stage.load(proxy, path, REQUESTS, CONNECTIONS, host=authority)
                if said["status"] != 200:
                    raise AssertionError(said)
                costs[number].append(said["cpu_us"])
        for number, proxy, _, _ in running:
            rows.append([title, number, f"{statistics.median(costs[number]):.1f}",
                         f"{min(costs[number]):.1f} .. {max(costs[number]):.1f}", f"{proxy.rss() / MIB:.1f}"])
            proxy.end()
        series[title] = [(number, statistics.median(of_one)) for number, of_one in costs.items()]
        ratios = [most / least for most, least in zip(costs[numbers[-1]], costs[numbers[0]])]
        verdicts.append(at_most(f"CPU with {numbers[-1]} {title}, over {numbers[0]}", statistics.median(ratios), 1.1, "x", 3, spread=ratios))
    plots = {"routing": curves("CPU microseconds per request", series, "", lambda number: f"{number:,}")}
    head = ["what grows", "number", "CPU us/request", "min .. max", "RSS MiB"]
    return Section("Growth: hosts and interfaces", head, rows, "300-byte successes; the last one is asked.", plots, verdicts)


def results(stage):
    """Peak memory and CPU time, by the size of a result."""
    rows, peaks, costs = [], {}, {}
    say("growth: size of a result")
    for name, start in (("a2a-errata", lambda path: stage.errata("growth", paths=[path])), ("bare", lambda _: stage.bare())):
        for size in SIZES:
            path = f"/result/{size}"
            proxy = start(path)
            stage.load(proxy, "/small", 200, 4)
            proxy.forget_peak()
            requests = max(4, min(2000, 128 * MIB // size))
            said = stage.load(proxy, path, requests, 4)
            peak = proxy.rss("VmHWM")
            proxy.end()
            peaks.setdefault(name, []).append((size, peak / MIB))
            costs.setdefault(name, []).append((size, said["cpu_us"]))
            rows.append([size_of(size), name, f"{peak / MIB:.1f}", f"{said['cpu_us']:.0f}", f"{said['cpu_us'] * MIB / size:.0f}"])
    grown = peaks["a2a-errata"][-1][1] - peaks["a2a-errata"][0][1]
    title = f"peak RSS, results of {size_of(SIZES[-1])} over {size_of(SIZES[0])}"
    verdict = Verdict(title, f"{grown:.1f} MiB", "<= 8 MiB", grown <= 8)
    plots = {"results": curves("Peak RSS in MiB, by the size of a result", peaks, "", size_of)}
    head = ["result", "proxy", "peak RSS MiB", "CPU us/request", "CPU us/MiB"]
    return Section("Growth: size of a result", head, rows, "Four connections at a time.", plots, [verdict])


def open_streams(stage):
    """Memory of idle streams, by their number."""
    rows, series = [], {}
    numbers = sorted({streams.affordable(number) for number in OPEN})
    for number in numbers:
        say(f"growth: {number} open streams")
        for name, start in streams.starters(stage).items():
            kib = streams.per_stream(stage, start, number) / 1024
            series.setdefault(name, []).append((number, kib))
            rows.append([number, name, f"{kib:.1f}", f"{kib * number / 1024:.0f}"])
    plots = {"open": curves("KiB of RSS per idle stream, by their number", series, "", lambda number: f"{number:,}")}
    return Section("Growth: open streams", ["streams", "proxy", "KiB/stream", "all MiB"], rows, plots=plots)


def size_of(size):
    return f"{size // MIB} MiB" if size >= MIB else f"{size // 1024} KiB"
