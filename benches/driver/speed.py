"""CPU time per request, in interleaved rounds; and of the rules alone, without a socket."""

import dataclasses
import shlex
import statistics
import subprocess

from . import contenders as others
from .processes import Failed, say
from .report import Section, at_most, dots
from .stage import turned


@dataclasses.dataclass
class Case:
    """One kind of request whose CPU time is compared."""

    key: str
    title: str
    # What a2a-errata must answer, so that nothing else is measured by mistake.
    status: int
    requests: int


CASES = [
    Case("small", "300-byte success", 200, 8000),
    Case("large", "64 KiB success", 200, 5000),
    Case("fault", "rewritten error: JSON-RPC, legacy data", 200, 8000),
    Case("error", "rewritten error: 403 envelope to O-1", 200, 8000),
]


@dataclasses.dataclass
class Bound:
    """One's CPU time as a ratio of another's, where both run."""

    other: str
    small: float
    large: float
    # Of both rewritten errors.
    error: float
    aim: bool = False
    one: str = "a2a-errata"

    def of(self, case):
        return {"small": self.small, "large": self.large}.get(case.key, self.error)


BOUNDS = [
    Bound("bare", 1.10, 1.03, 1.25),
    Bound("stock", 0.95, 1.03, 1.10),
    Bound("stock", 0.80, 0.95, 0.90, aim=True),
    Bound("envoy+lua", 0.50, 0.80, 0.35),
    Bound("nginx+lua", 1.25, 1.25, 1.00, aim=True),
    # No more, but for what two runs of the same differ by.
    Bound("a2a-errata", 1.02, 1.02, 1.02, one="observe"),
]
# Requests of a round are fewer for those that take ten times as long.
SLOW = {"node": 8, "node+js": 8}


def measure(stage):
    say("speed: CPU time per request, interleaved with bare and with stock Pingora")
    contenders = [stage.errata(), stage.bare(), stage.bare("stock")]
    for extra in stage.options.extra:
        name, _, command = extra.partition("=")
        binary, *flags = shlex.split(command)
        contenders.append(stage.errata(name, binary=binary, flags=flags))
    if stage.options.contenders == "all":
        contenders += others.all_of(stage)
    cases = [case for case in CASES if case.key in (stage.options.case or case.key)]
    results = rounds(stage, contenders, cases)
    for contender in contenders:
        contender.end()
    note = f"Noise: bare Pingora differs from itself by {noise(results):.1f} % (median) from round to round."
    plots = {
        "ratios": dots("CPU time over bare Pingora's, per pair (red: bound)",
                       [(case.title, ratios(results[case.key], "a2a-errata"), BOUNDS[0].of(case)) for case in cases], "x"),
        "cpu": dots("CPU microseconds per request, per round",
                    [(f"{case.key}: {name}", [one["cpu_us"] for one in of_one], None)
                     for case in cases for name, of_one in results[case.key].items()], "", 0),
    }
    verdicts = []
    for bound in BOUNDS:
        for case in cases:
            if {bound.one, bound.other} <= results[case.key].keys():
                found = ratios(results[case.key], bound.one, bound.other)
                title = f"CPU, {case.title}: {bound.one} to {bound.other}"
                verdicts.append(at_most(title, statistics.median(found), bound.of(case), "x", 3, bound.aim, found))
    head = ["case", "proxy", "CPU us/request", "min .. max", "x bare", "requests/s", "p50 us", "p99 us"]
    return [Section("Speed", head, rows(results, cases), note, plots, verdicts)]


def rounds(stage, contenders, cases):
    """Each contender once per round and case, the order turned every time."""
    results = {case.key: {proxy.name: [] for proxy in contenders} for case in cases}
    for case in cases:
        for proxy in contenders:  # connections, caches and the allocator get warm
            said = stage.load(proxy, f"/{case.key}", 1500 // SLOW.get(proxy.name, 1))
            if proxy.name == "a2a-errata" and said["status"] != case.status:
                raise Failed(f"{proxy.name} answers /{case.key} with {said['status']:.0f}")
    number = stage.options.rounds or (5 if stage.options.quick else 20)
    for turn in range(number):
        for case in cases:
            requests = case.requests // (2 if stage.options.quick else 1)
            for proxy in turned(contenders, turn):
                said = stage.load(proxy, f"/{case.key}", requests // SLOW.get(proxy.name, 1))
                results[case.key][proxy.name].append(said)
        say(f"  round {turn + 1} of {number}")
    return results


def ratios(results, name, other="bare"):
    return [one["cpu_us"] / another["cpu_us"] for one, another in zip(results[name], results[other])]


def noise(results):
    """How much bare Pingora differs from itself from one round to the next: the median distance, in
    percent. What is smaller than this says nothing in a single pair."""
    steps = []
    for of_one in results.values():
        values = [one["cpu_us"] for one in of_one["bare"]]
        steps += [abs(b / a - 1) for a, b in zip(values, values[1:])]
    return statistics.median(steps) * 100 if steps else 0.0


def rows(results, cases):
    found = []
    for case in cases:
        for name, of_one in results[case.key].items():
            median = {key: statistics.median(one[key] for one in of_one) for key in of_one[0]}
            ratio = "1" if name == "bare" else f"{statistics.median(ratios(results[case.key], name)):.3f}"
            cpu = [one["cpu_us"] for one in of_one]
            found.append([case.title, name, f"{median['cpu_us']:.1f}", f"{min(cpu):.1f} .. {max(cpu):.1f}", ratio,
                          f"{median['per_s']:.0f}", f"{median['p50_us']:.0f}", f"{median['p99_us']:.0f}"])
    return found


def measure_rules(stage):
    """Nanoseconds of one exchange without a socket, by kind."""
    say("the rules alone")
    command = [stage.found["bench"], "rules"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=120, check=True)
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    # The least: nothing makes a computation faster than it is, and much makes it slower.
    least = {name: float(numbers[0]) for name, *numbers in lines}
    # A whole piece at a time comes from the network; none of it but the first 4 KiB is looked at.
    factor = least["success 1 MiB"] / least["success 4 KiB"]
    verdict = at_most("classifying 1 MiB over 4 KiB", factor, 1.5, "x")
    return [Section("The rules alone", ["one exchange", "ns (least)", "median", "most"], lines, verdicts=[verdict])]
