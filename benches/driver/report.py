"""How a measurement is said: tables, verdicts, plots, and the report with all of them."""

import dataclasses
import math
import os
import pathlib
import re
import shlex
import statistics
import sys

from .processes import MIB


@dataclasses.dataclass
class Verdict:
    title: str
    measured: str
    bound: str
    holds: bool
    # A bound that is aimed at, but not promised: it fails nothing.
    aim: bool = False

    def word(self):
        if self.aim:
            return "reached" if self.holds else "not yet"
        return "holds" if self.holds else "MISSED"


def at_most(title, value, bound, unit, digits=2, aim=False, spread=()):
    """A verdict on a number; with the least and the most of what it is the median of."""
    number = lambda x: f"{x:.{digits}f}{unit}"
    measured = number(value) + (f" ({number(min(spread))} .. {number(max(spread))})" if spread else "")
    return Verdict(title, measured, f"<= {number(bound)}", value <= bound, aim)


@dataclasses.dataclass
class Section:
    """One measurement: a table, and what is said above it."""

    title: str
    head: list
    rows: list
    note: str = ""
    plots: dict = dataclasses.field(default_factory=dict)
    verdicts: list = dataclasses.field(default_factory=list)

    def lines(self, markdown=False):
        note = [self.note] if self.note else []
        between = [""] if note and markdown else []
        return [*note, *between, *table(self.head, self.rows, markdown)]


def colour(code, text):
    wanted = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    return f"\033[{code}m{text}\033[0m" if wanted else text


def table(head, rows, markdown=False):
    rows = [[str(cell) for cell in row] for row in rows]
    widths = [max(len(row[n]) for row in [head, *rows]) for n in range(len(head))]
    join = (lambda cells: "| " + " | ".join(cells) + " |") if markdown else "  ".join
    line = lambda row: join([cell.ljust(width) for cell, width in zip(row, widths)])
    rule = join(["-" * width for width in widths])
    return [line(head), rule, *map(line, rows)]


STYLE = """<style>text{font:12px system-ui,sans-serif;fill:#333}.s{fill:#777}.g{stroke:#ddd}.b{stroke:#c33;stroke-width:2}
.d{fill:#3b78c4;fill-opacity:.45}.m{stroke:#17406f;stroke-width:3}.l{fill:none;stroke-width:2}
@media(prefers-color-scheme:dark){text{fill:#ddd}.g{stroke:#444}.m{stroke:#9cf}}</style>"""
SERIES = ["#3b78c4", "#d0742a", "#3c9a5f", "#8a5fbf", "#b0476e"]


def dots(title, rows, unit, start=None):
    """An SVG: per row its values as dots, the median as a bar, the bound as a line."""
    left, width, height = 250, 760, 34
    every = [value for _, values, bound in rows for value in [*values, *([bound] if bound else [])]]
    low = min(every) * 0.98 if start is None else start
    high = max(every) * 1.02
    x = lambda value: left + (value - low) / (high - low) * (width - left - 30)
    total = 40 + height * len(rows) + 30
    svg = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{total}" role="img" aria-label="{title}">', STYLE,
           f'<text x="8" y="18" font-weight="bold">{title}</text>']
    for n in range(6):
        value = low + (high - low) * n / 5
        svg.append(f'<line class="g" x1="{x(value):.1f}" x2="{x(value):.1f}" y1="30" y2="{total - 26}"/>'
                   f'<text class="s" x="{x(value):.1f}" y="{total - 10}" text-anchor="middle">{value:.3g}{unit}</text>')
    for n, (name, values, bound) in enumerate(rows):
        y = 40 + height * n + height / 2
        svg.append(f'<text x="8" y="{y + 4}">{name}</text>')
        svg += [f'<circle class="d" cx="{x(value):.1f}" cy="{y}" r="5"/>' for value in values]
        middle = x(statistics.median(values))
        svg.append(f'<line class="m" x1="{middle:.1f}" x2="{middle:.1f}" y1="{y - 11}" y2="{y + 11}"/>')
        if bound:
            svg.append(f'<line class="b" x1="{x(bound):.1f}" x2="{x(bound):.1f}" y1="{y - 14}" y2="{y + 14}"/>')
    return "\n".join([*svg, "</svg>"])


def curves(title, series, unit, label):
    """An SVG: per series a line over what grows, in powers of ten; `label` writes such a number."""
    left, right, top, width, height = 60, 190, 40, 760, 300
    xs = sorted({x for points in series.values() for x, _ in points})
    high = max(y for points in series.values() for _, y in points) * 1.1
    low_x, high_x = math.log10(xs[0]), math.log10(xs[-1])
    x = lambda value: left + (math.log10(value) - low_x) / (high_x - low_x) * (width - left - right)
    y = lambda value: height - 30 - value / high * (height - 30 - top)
    svg = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" role="img" aria-label="{title}">', STYLE,
           f'<text x="8" y="18" font-weight="bold">{title}</text>']
    for n in range(6):
        value = high * n / 5
        svg.append(f'<line class="g" x1="{left}" x2="{width - right}" y1="{y(value):.1f}" y2="{y(value):.1f}"/>'
                   f'<text class="s" x="{left - 6}" y="{y(value) + 4:.1f}" text-anchor="end">{value:.3g}{unit}</text>')
    svg += [f'<text class="s" x="{x(value):.1f}" y="{height - 10}" text-anchor="middle">{label(value)}</text>' for value in xs]
    for n, (name, points) in enumerate(series.items()):
        colour_of = SERIES[n % len(SERIES)]
        path = " ".join(f"{x(at):.1f},{y(value):.1f}" for at, value in points)
        svg.append(f'<polyline class="l" stroke="{colour_of}" points="{path}"/>')
        svg += [f'<circle fill="{colour_of}" cx="{x(at):.1f}" cy="{y(value):.1f}" r="4"/>' for at, value in points]
        svg.append(f'<circle fill="{colour_of}" cx="{width - right + 16}" cy="{top + 20 * n}" r="4"/>'
                   f'<text x="{width - right + 26}" y="{top + 20 * n + 4}">{name}</text>')
    return "\n".join([*svg, "</svg>"])


def machine():
    memory_kib = int(re.search(r"MemTotal:\s+(\d+)", pathlib.Path("/proc/meminfo").read_text())[1])
    return f"{os.cpu_count()} cores, {memory_kib / MIB:.0f} GiB, {os.uname().sysname} {os.uname().release.split('-')[0]}"


def write(out, sections, loads):
    """The report and its plots; where it is."""
    lines = ["# Benchmark report", "", f"Machine: {machine()}; load average {loads[0]:.1f} before, {loads[1]:.1f} after. "
             f"Command: `{shlex.join(['benches/run', *sys.argv[1:]])}`.", ""]
    verdicts = [verdict for section in sections for verdict in section.verdicts]
    rows = [[verdict.title, verdict.measured, verdict.bound, verdict.word()] for verdict in verdicts]
    lines += table(["bound", "measured", "must be", ""], rows, True)
    for section in sections:
        lines += ["", f"## {section.title}", "", *section.lines(True)]
        for name, svg in section.plots.items():
            (out / f"{name}.svg").write_text(svg)
            lines += ["", f"![{name}]({name}.svg)"]
    path = out / "report.md"
    path.write_text("\n".join(lines) + "\n")
    return path
