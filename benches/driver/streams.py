"""What a stream costs: how much longer an event is on its way, and how much memory an idle one takes."""

import statistics

from .processes import Failed, open_files, say
from .report import Section, at_most, dots
from .stage import turned

STREAMS, RATE = 100, 50
# Events of each stream that are not counted: the first half second.
SKIPPED = RATE // 2
IDLE = 5000
# Descriptors that a process has open besides its streams'.
SPARE = 200


def measure(stage):
    return [latency(stage), memory(stage)]


def latency(stage):
    seconds = 1 if stage.options.quick else 3
    path = f"/events/{STREAMS}/{RATE}/{SKIPPED + RATE * seconds}"
    contenders = [stage.direct, stage.errata("a2a-errata", paths=[path]), stage.bare(), stage.bare("stock")]
    number = stage.options.rounds or (4 if stage.options.quick else 12)
    say(f"streams: latency of an event, {STREAMS} streams x {RATE} events/s")
    results = {proxy.name: [] for proxy in contenders}
    for turn in range(number):
        for proxy in turned(contenders, turn):
            before = proxy.cpu()
            said = stage.client("events", proxy, path, STREAMS, SKIPPED)
            if said["events"] != STREAMS * RATE * seconds:
                raise Failed(f"{proxy.name}: {said['events']:.0f} events came")
            said["cpu_us"] = (proxy.cpu() - before) * 1e6 / (said["events"] + STREAMS * SKIPPED)
            results[proxy.name].append(said)
        say(f"  round {turn + 1} of {number}")
    for proxy in contenders[1:]:
        proxy.end()

    def added(name, over, key):
        return [one[key] - other[key] for one, other in zip(results[name], results[over])]

    rows = []
    for name, of_one in results.items():
        median = {key: statistics.median(one[key] for one in of_one) for key in of_one[0]}
        over = "" if name == "direct" else f"{statistics.median(added(name, 'direct', 'p50_us')):.0f}"
        rows.append([name, f"{median['p50_us']:.0f}", over, f"{median['p99_us']:.0f}", f"{median['max_us']:.0f}",
                     "" if name == "direct" else f"{median['cpu_us']:.1f}"])
    over_bare = {key: added("a2a-errata", "bare", key) for key in ("p50_us", "p99_us")}
    ours = added("a2a-errata", "direct", "p50_us")
    ratios = {other: [one / another for one, another in zip(ours, added(other, "direct", "p50_us"))] for other in ("bare", "stock")}
    median = statistics.median
    verdicts = [
        at_most("stream event, median over bare", median(over_bare["p50_us"]), 100, " us", 0, spread=over_bare["p50_us"]),
        at_most("stream event, 99th percentile over bare", median(over_bare["p99_us"]), 1000, " us", 0, spread=over_bare["p99_us"]),
        *(at_most(f"stream event, added over direct, to {other}'s", median(found), 1.2, "x", spread=found)
          for other, found in ratios.items()),
        at_most("stream event, added over direct", median(ours), 60, " us", 0, aim=True, spread=ours),
    ]
    dotted = [(f"{name}: {key[:3]}", [one[key] for one in of_one], None)
              for key in ("p50_us", "p99_us") for name, of_one in results.items()]
    plots = {"events": dots("Microseconds from the host's write to the client's read, per round", dotted, "", 0)}
    head = ["through", "p50 us", "added", "p99 us", "most us", "CPU us/event"]
    note = f"{STREAMS} streams x {RATE} events/s, {seconds} s a round, {number} rounds; added: median of the pairs' distances."
    return Section("Stream events", head, rows, note, plots, verdicts)


def affordable(wanted):
    """As many streams as descriptors allow: a proxy needs two for each."""
    files = open_files()
    most = (files - SPARE) // 2
    if wanted > most:
        say(f"  {wanted} streams need {2 * wanted + SPARE} open files, and the hard limit (ulimit -Hn) is {files}: {most} streams it is")
    return min(wanted, most)


def per_stream(stage, start, number):
    """Bytes that each of so many open streams adds to a fresh process, which has served before."""
    proxy = start()
    stage.load(proxy, "/small", 400, 8)
    before = proxy.settled_rss()
    client = stage.open_streams(proxy, "/open", number)
    after = proxy.settled_rss()
    client.stdin.close()
    client.wait(30)
    proxy.end()
    return (after - before) / number


def starters(stage):
    return {"a2a-errata": lambda: stage.errata("idle", paths=["/open"]), "bare": stage.bare,
            "stock": lambda: stage.bare("stock")}


def memory(stage):
    number = affordable(stage.options.streams)
    say(f"streams: memory of {number} idle ones")
    rounds = 1 if stage.options.quick else 3
    results = {name: [] for name in starters(stage)}
    for turn in range(rounds):
        for name, start in turned(list(starters(stage).items()), turn):
            results[name].append(per_stream(stage, start, number) / 1024)
        say(f"  round {turn + 1} of {rounds}")
    ours, title = results["a2a-errata"], f"memory of {number} idle streams"
    ratios = {other: [one / another for one, another in zip(ours, results[other])] for other in ("bare", "stock")}
    verdicts = [
        *(at_most(f"{title}, over {other}", statistics.median(found), 1.05, "x", 3, spread=found) for other, found in ratios.items()),
        at_most(f"{title}, each", statistics.median(ours), 40, " KiB", 1, aim=True, spread=ours),
    ]
    rows = [[name, f"{statistics.median(of_one):.1f}", f"{min(of_one):.1f} .. {max(of_one):.1f}"] for name, of_one in results.items()]
    plots = {"idle": dots("KiB of RSS per idle stream, per round", [(name, of_one, None) for name, of_one in results.items()], "", 0)}
    return Section("Idle streams", ["proxy", "KiB/stream", "min .. max"], rows, f"{number} streams, each with one event sent.", plots, verdicts)
