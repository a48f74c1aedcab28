#!/usr/bin/env python3
"""The status page in headless Chromium: numbers without JavaScript, light and dark, keyboard, screen reader.

Usage:  tests/operate/page.py [--bin target/release/a2a-errata] [--keep target/ci]      (`make test-page`)

Needs `chromium` and `chromedriver` (Debian packages `chromium`, `chromium-driver`). The screenshots stay in --keep.
"""
import argparse
import base64
import json
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from pathlib import Path

from stage import ROOT, Checks, ProcessError, Stage, free_port, wait_for_port

# Ratios that WCAG 2.2 AA asks for: 1.4.3 for text, 1.4.11 for what is drawn.
TEXT_CONTRAST, DRAWN_CONTRAST = 4.5, 3.0

# Every text's contrast with what is painted behind it, and every bar's.
CONTRAST = """
const parse = c => { const m = c.match(/[\\d.]+/g).map(Number); return m.length < 4 ? [...m, 1] : m; };
const lum = ([r, g, b]) => { const f = v => { v /= 255; return v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; };
  return .2126 * f(r) + .7152 * f(g) + .0722 * f(b); };
const ratio = (a, b) => { const [x, y] = [lum(a), lum(b)].sort((p, q) => q - p); return (x + .05) / (y + .05); };
const behind = e => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c[3] > 0) return c; }
  return [255, 255, 255, 1]; };
const bad = [];
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
let texts = 0, bars = 0;
while (walker.nextNode()) {
  const node = walker.currentNode, e = node.parentElement;
  if (!node.textContent.trim() || e.closest('title, .sr, .skip')) continue;
  texts++;
  const found = ratio(parse(getComputedStyle(e).color), behind(e));
  if (found < arguments[0]) bad.push(`${node.textContent.trim().slice(0, 40)}: ${found.toFixed(2)}`);
}
for (const bar of document.querySelectorAll('svg rect')) {
  bars++;
  const found = ratio(parse(getComputedStyle(bar).fill), behind(bar.closest('article')));
  if (found < arguments[1]) bad.push(`bar ${bar.className.baseVal}: ${found.toFixed(2)}`);
}
return {texts, bars, bad: [...new Set(bad)], wide: document.documentElement.scrollWidth - innerWidth,
        page: getComputedStyle(document.body).backgroundColor};
"""

FOCUSED = """
const e = document.activeElement, s = getComputedStyle(e);
return {tag: e.tagName, text: e.textContent.trim().slice(0, 40), href: e.getAttribute('href'),
        outline: parseFloat(s.outlineWidth) * (s.outlineStyle !== 'none'), left: e.getBoundingClientRect().left};
"""


class Browser:
    """One headless Chromium, spoken to by the WebDriver protocol."""

    def __init__(self, port, profile, javascript=True):
        arguments = ["--headless=new", "--disable-gpu", "--no-sandbox", "--disable-dev-shm-usage",
                     "--hide-scrollbars", "--window-size=1280,900", f"--user-data-dir={profile}"]
        options = {"args": arguments, "binary": shutil.which("chromium")}
        if not javascript:
            options["prefs"] = {"profile.managed_default_content_settings.javascript": 2}
        self.base = f"http://127.0.0.1:{port}"
        made = self.ask("POST", "/session", {"capabilities": {"alwaysMatch": {
            "browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}}})
        self.base += f"/session/{made['sessionId']}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.ask("DELETE", "")

    def ask(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise ProcessError(f"chromedriver, {path}: {error.read().decode()[:400]}") from None

    def open(self, url):
        self.ask("POST", "/url", {"url": url})

    def run(self, script, *arguments):
        return self.ask("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def devtools(self, command, **parameters):
        return self.ask("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def key(self, value):
        self.ask("POST", "/actions", {"actions": [{"type": "key", "id": "keys", "actions": [
            {"type": "keyDown", "value": value}, {"type": "keyUp", "value": value}]}]})

    def tree(self):
        """What a screen reader is told: role and name of every node."""
        self.devtools("Accessibility.enable")
        nodes = self.devtools("Accessibility.getFullAXTree")["nodes"]
        value = lambda node, what: node.get(what, {}).get("value", "")  # noqa: E731
        return [(value(node, "role"), value(node, "name")) for node in nodes if not node.get("ignored")]


def without_javascript(checks, browser, url, report):
    """Every number of the report is on the page although no script may run."""
    browser.open(url)
    tree = browser.tree()
    names = {name for _, name in tree}
    roles = [role for role, _ in tree]
    for host in report["hosts"]:
        checks.check(("heading", host["name"]) in tree, f"no heading for {host['name']}")
        for interface in host["interfaces"]:
            for outcome in ("passed", "rewritten"):
                number = str(interface["responses"][outcome])
                checks.check(number in names, f"{host['name']} {interface['interface']}: {outcome} {number} is missing")
            for rule in interface["rules"]:
                checks.check(rule["rule"] in names and rule["says"] in names, f"rule {rule['rule']} is missing")
            for criterion in interface["removal"]["criteria"]:
                words = re.sub(r"\d+ \w+", "", criterion["says"]).strip()
                checks.check(any(words[:20] in re.sub(r"\d+ \w+", "", name) for name in names),
                             f"criterion {criterion['says']!r} is missing")
    checks.check(any(name.startswith("Answers per minute over the last hour") for role, name in tree
                     if role in ("image", "img", "graphics-document")), "the chart has no name")
    for role in ("main", "navigation", "banner", "contentinfo", "columnheader", "rowheader"):
        checks.check(role in roles, f"no {role}")
    # Tables are named by their captions.
    tables = [name for role, name in tree if role == "table"]
    checks.check(len(tables) > 5 and all(tables), f"tables without a caption: {tables}")


def looks(checks, browser, url, scheme, keep):
    browser.devtools("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    browser.open(url)
    found = browser.run(CONTRAST, TEXT_CONTRAST, DRAWN_CONTRAST)
    checks.check(found["texts"] > 50 and found["bars"] > 2, f"{scheme}: {found['texts']} texts, {found['bars']} bars")
    checks.check(not found["bad"], f"{scheme}: too little contrast: {found['bad']}")
    for width, name in ((1280, ""), (390, "-narrow")):
        browser.devtools("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        wide = browser.run(CONTRAST, 0, 0)["wide"]
        checks.check(wide <= 0, f"{scheme}, {width} wide: the page is {wide} pixels too wide")
        shot = browser.devtools("Page.captureScreenshot", captureBeyondViewport=True, format="png")
        (keep / f"status-page-{scheme}{name}.png").write_bytes(base64.b64decode(shot["data"]))
    browser.devtools("Emulation.clearDeviceMetricsOverride")
    return found["page"]


def keyboard(checks, browser, url):
    """Tab leads to everything there is to do, in order, and shows where it is."""
    browser.open(url)
    seen = []
    for _ in range(200):
        browser.key("\ue004")
        focus = browser.run(FOCUSED)
        if focus["tag"] == "BODY":
            break
        checks.check(focus["outline"] >= 1 and focus["left"] >= 0, f"focus is not to be seen: {focus}")
        seen.append(focus["text"])
    checks.check(seen[:1] == ["Skip to the hosts"], f"the first stop is {seen[:1]}")
    for name in ("Report (JSON)", "Configuration", "Metrics", "Numbers behind the chart"):
        checks.check(name in seen, f"{name} is not reached by the keyboard: {seen}")
    # What is folded opens by a key.
    browser.run("document.querySelector('summary').focus()")
    browser.key("\ue007")
    checks.check(browser.run("return document.querySelector('details').open"), "the numbers do not unfold by a key")


def links(checks, browser, stage, url):
    """Every link of the page leads somewhere."""
    browser.open(url)
    for target in browser.run("return [...document.querySelectorAll('a')].map(a => a.getAttribute('href'))"):
        if target.startswith("#"):
            there = browser.run("return !!document.getElementById(arguments[0])", target[1:])
        else:
            status = stage.page("/" + target if not target.startswith("?") else "/" + target)[0]
            there = status == 200 or target.startswith("readyz") and status == 503
        checks.check(there, f"the link {target} leads nowhere")
    broken = [entry["message"] for entry in browser.ask("POST", "/se/log", {"type": "browser"})
              if "favicon" not in entry["message"]]
    checks.check(not broken, f"the browser complains: {broken}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default=ROOT / "target" / "release" / "a2a-errata")
    parser.add_argument("--keep", default=ROOT / "target" / "ci", type=Path)
    arguments = parser.parse_args()
    arguments.keep.mkdir(parents=True, exist_ok=True)
    checks = Checks()
    with tempfile.TemporaryDirectory(prefix="a2a-errata-page-", ignore_cleanup_errors=True) as work, \
            Stage(arguments.bin, Path(work)) as stage:
        for _ in range(3):
            stage.round()
        url = f"http://127.0.0.1:{stage.admin}/"
        port = free_port()
        driver, log = stage.processes.start("chromedriver", ["chromedriver", f"--port={port}"], None)
        wait_for_port(port, driver, "chromedriver", log)
        report = json.loads(stage.page("/report")[2])
        with Browser(port, Path(work) / "silent", javascript=False) as browser:
            without_javascript(checks, browser, url, report)
        with Browser(port, Path(work) / "lively") as browser:
            backgrounds = {looks(checks, browser, url, scheme, arguments.keep) for scheme in ("light", "dark")}
            checks.check(len(backgrounds) == 2, f"light and dark are the same: {backgrounds}")
            keyboard(checks, browser, url)
            links(checks, browser, stage, url)
    print(f"screenshots: {', '.join(sorted(str(p) for p in arguments.keep.glob('status-page-*.png')))}")
    return checks.close()


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (ProcessError, subprocess.SubprocessError) as error:
        print(f"{error}\n0 passed, 1 failed")
        sys.exit(1)
