#!/usr/bin/env python3
"""The dashboards against real things: rules by promtool, and every query by a Prometheus that scrapes a busy proxy.

Usage:  tests/operate/dashboards.py [--bin target/release/a2a-errata]      (`make test-dashboards`)

Needs `prometheus` and `promtool` (Debian package `prometheus`), and `openssl`.
"""
import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

from stage import ROOT, Checks, ProcessError, Stage, free_port, wait_for_port

BOARD, RULES = ROOT / "dashboards" / "grafana.json", ROOT / "dashboards" / "rules.yml"
RUNBOOK = ROOT / "docs" / "runbook.md"
PATIENCE_S = 60
# What the traffic of the stage must set off, at the latest once their `for` is over: pending is enough.
EXPECTED = {"A2aErrataOverflow", "A2aErrataHostNotReady", "A2aErrataUpstreamFailing", "A2aErrataUpstreamUnhealthy",
            "A2aErrataOwn5xx", "A2aErrataCertificateEndsSoon", "A2aErrataLimitReached"}
# And what it counts, by a label: these are there from the start, but as 0.
COUNTED = {
    ("a2a_errata_limits_reached_total", "limit"): {"request_header_bytes", "request_headers_ms"},
    ("a2a_errata_tls_handshakes_total", "result"): {"done", "failed", "not_tls"},
    ("a2a_errata_tls_handshake_failures_total", "cause"): {"refused_by_client", "not_tls", "closed"},
}
METRIC = re.compile(r"\ba2a_errata_[a-z0-9_]+")


def promtool(checks):
    for arguments in (["check", "rules", RULES], ["test", "rules", RULES.with_name("rules_test.yml")]):
        done = subprocess.run(["promtool", *map(str, arguments)], capture_output=True, text=True, timeout=480)
        checks.check(done.returncode == 0, f"promtool {arguments[0]} {arguments[1]}:\n{done.stdout}{done.stderr}")


def runbook(checks):
    """Every alert has its section, and every section its alert."""
    linked = set(re.findall(r"runbook_url: docs/runbook\.md#(\S+)", RULES.read_text()))
    alerts = {name.lower() for name in re.findall(r"- alert: (\S+)", RULES.read_text())}
    sections = {title.lower() for title in re.findall(r"^## (A2aErrata\S+)", RUNBOOK.read_text(), re.M)}
    checks.check(linked == alerts, f"alerts and links differ: {sorted(linked ^ alerts)}")
    checks.check(sections == alerts, f"alerts and sections of docs/runbook.md differ: {sorted(sections ^ alerts)}")


def board_shape(checks, board):
    """What Grafana relies on: ids that are unique, a grid without overlaps, known variables and types."""
    panels = board["panels"]
    checks.check(len({p["id"] for p in panels}) == len(panels), "panel ids are not unique")
    taken = set()
    for panel in panels:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        checks.check(at["x"] + at["w"] <= 24 and not cells & taken, f"{panel['title']}: its place is taken")
        taken |= cells
        if panel["type"] != "row":
            checks.check(bool(panel["description"]) and bool(panel["targets"]), f"{panel['title']}: says too little")
            checks.check(panel["datasource"]["uid"] == "${datasource}", f"{panel['title']}: a fixed data source")
    names = [variable["name"] for variable in board["templating"]["list"]]
    checks.check(names == ["datasource", "host", "interface"], f"the variables are {names}")
    checks.check(board["schemaVersion"] >= 36 and board["uid"] == "a2a-errata", "version or uid of the board")


class Prometheus:
    def __init__(self, stage):
        self.port = free_port()
        work = stage.work
        config = work / "prometheus.yml"
        config.write_text(json.dumps({
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(RULES)],
            "scrape_configs": [{"job_name": "a2a-errata", "static_configs": [
                {"targets": [f"127.0.0.1:{stage.admin}"]}]}],
        }))
        process, log = stage.processes.start("prometheus", [
            "prometheus", f"--config.file={config}", f"--storage.tsdb.path={work / 'tsdb'}",
            f"--web.listen-address=127.0.0.1:{self.port}"], None)
        wait_for_port(self.port, process, "Prometheus", log)

    def get(self, path, **parameters):
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            return {"error": error.read().decode(), "result": []}

    def query(self, text):
        return self.get("query", query=text)["result"]

    def eventually(self, find):
        """What `find` gives once it gives something."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            found = find()
            if found or time.monotonic() > deadline:
                return found
            time.sleep(0.5)


def filled(expression):
    """A query of the board as Grafana would send it, for all hosts and interfaces and a short time."""
    for name, value in (("$__rate_interval", "30s"), ("$__range", "1h"), ("$host", ".*"), ("$interface", ".*")):
        expression = expression.replace(name, value)
    return expression


def queries(checks, prometheus, board):
    targets = [(panel["title"], target["expr"]) for panel in board["panels"] for target in panel.get("targets", ())]
    for title, expression in targets:
        query = filled(expression)
        found = prometheus.eventually(lambda query=query: [
            series for series in prometheus.query(query) if series["value"][1] != "NaN"])
        checks.check(found, f"board, {title}: no data for {query}")
    for variable in board["templating"]["list"][1:]:
        selector, label = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["definition"]).groups()
        values = prometheus.get(f"label/{label}/values", **{"match[]": filled(selector)})
        checks.check(len(values) > 1, f"variable {variable['name']}: {values}")
    return len(targets)


def counted(checks, prometheus):
    """The traffic does reach limits and fail handshakes, so that their panels have more than zeros to draw."""
    for (metric, label), expected in COUNTED.items():
        def seen(metric=metric, label=label, expected=expected):
            values = {series["metric"][label] for series in prometheus.query(f"{metric} > 0")}
            return values if expected <= values else None
        checks.check(prometheus.eventually(seen), f"{metric}: not all of {sorted(expected)} are above 0")


def rules(checks, prometheus):
    def healthy():
        groups = prometheus.get("rules")["groups"]
        every = [rule for group in groups for rule in group["rules"]]
        return every if every and all(rule["health"] == "ok" for rule in every) else None

    every = prometheus.eventually(healthy) or []
    checks.check(every, "a rule is not healthy")
    for rule in every:
        if rule["type"] == "recording":
            found = prometheus.eventually(lambda name=rule["name"]: prometheus.query(name))
            checks.check(found, f"rule {rule['name']}: no data")
        else:
            # An alert that is silent has no data by intent; what it looks at has.
            for metric in sorted(set(METRIC.findall(rule["query"]))):
                checks.check(prometheus.query(metric), f"alert {rule['name']}: no series {metric}")
    def active():
        names = {alert["labels"]["alertname"] for alert in prometheus.get("alerts")["alerts"]}
        return names if EXPECTED <= names else None
    names = prometheus.eventually(active)
    checks.check(names, f"of {sorted(EXPECTED)}, some alerts do not see what they are for")
    checks.check(names and "A2aErrataAbsent" not in names, "A2aErrataAbsent although the proxy is scraped")


def exposition(checks, stage):
    """promtool's word on the format, and on names and help texts."""
    _, _, text = stage.page("/metrics")
    done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, timeout=60)
    checks.check(done.returncode == 0, f"promtool check metrics: {done.stdout}{done.stderr}")


def report(checks, stage, prometheus):
    """`a2a-errata report` of the proxy, and as Prometheus remembers it: the same hosts, still needed."""
    base = f"http://127.0.0.1:{prometheus.port}"
    for source in ([f"127.0.0.1:{stage.admin}"], ["--prometheus", base],
                   [f"127.0.0.1:{stage.admin}", "--prometheus", base]):
        done = subprocess.run([stage.binary, "report", "--json", *source], capture_output=True, text=True, timeout=60)
        checks.check(done.returncode == 1, f"report {source}: exit {done.returncode}, {done.stderr}")
        hosts = {host["name"]: host for host in json.loads(done.stdout or "{}").get("hosts", [])}
        checks.check(set(hosts) == {"billing", "support", "down", "waiting"}, f"report {source}: {sorted(hosts)}")
        interfaces = {one["interface"]: one for one in hosts.get("billing", {}).get("interfaces", [])}
        rewritten = interfaces.get("/a2a", {})
        checks.check(rewritten.get("responses", {}).get("rewritten", 0) > 0 and rewritten.get("last_repair")
                     and rewritten.get("rules") and not rewritten["removal"]["can_go"], f"report {source}: {rewritten}")
        checks.check(interfaces.get("/next", {}).get("mode") == "observe", f"report {source}: the mode of /next")
        checks.check(hosts.get("waiting", {"ready": 1})["ready"] is False, f"report {source}: waiting is ready")
    for bad in (f"127.0.0.1:{free_port()}", base):
        done = subprocess.run([stage.binary, "report", bad], capture_output=True, text=True, timeout=60)
        checks.check(done.returncode == 2 and done.stderr.count("\n") == 1, f"report {bad}: {done}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default=ROOT / "target" / "release" / "a2a-errata")
    binary = parser.parse_args().bin
    checks, board = Checks(), json.loads(BOARD.read_text())
    promtool(checks)
    runbook(checks)
    board_shape(checks, board)
    with tempfile.TemporaryDirectory(prefix="a2a-errata-dashboards-") as work, Stage(binary, Path(work)) as stage:
        stage.round()
        prometheus = Prometheus(stage)
        stage.keep_going()
        number = queries(checks, prometheus, board)
        counted(checks, prometheus)
        rules(checks, prometheus)
        exposition(checks, stage)
        report(checks, stage, prometheus)
    print(f"{number} queries of the board, all rules, promtool, runbook, report")
    return checks.close()


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ProcessError as error:
        print(f"{error}\n0 passed, 1 failed")
        sys.exit(1)
