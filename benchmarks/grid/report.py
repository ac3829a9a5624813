"""The report: which bars are met, and every scenario as a plot and a table.

Made from the results alone. The plots lie beside it, one for each metric that is worth one.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks.grid.bars import BARS, Bar, Limit, OursAt, Peers, Verdict, judge
from benchmarks.grid.failures import TIMELINE
from benchmarks.grid.peers import PEERS
from benchmarks.grid.plots import Column, columns, lines, short
from benchmarks.grid.readings import Reading, Result

REPORT = "README.md"
_NOISE = "within the noise"
_MACHINE = ("processor", "cores", "memory_gb", "kernel", "python", "librdkafka", "java", "go")
_INTRODUCTION = """# Odradek beside its peers

Made by `make bench` (`python -m benchmarks.grid`) from the JSON documents in this folder; one
scenario is measured again by `make bench ARGS=NAME`. Brokers are processes on the loopback with
stock settings, load generators run on the same cores. The peers take turns round by round; a
virtual machine is warmed up until its rate stops growing. A figure is the median of its rounds,
least and most in brackets. CPU is all that the server's process used, kernel included.

Medians decide whether a bar is met. Where it says *within the noise*, the rounds do not bear that
out (rank-sum test, one in twenty): the next run may well say the opposite.
"""


def write_report(folder: Path, results: Sequence[Result]) -> Path:
    """Write the report and its plots; the path of the report."""
    plots = {f"{name}.svg": svg for result in results for name, svg in plots_of(result)}
    for stale in folder.glob("*.svg"):
        if stale.name not in plots:
            stale.unlink()
    for name, svg in plots.items():
        (folder / name).write_text(svg)
    path = folder / REPORT
    path.write_text("\n".join(report_lines(results)) + "\n")
    return path


def report_lines(results: Sequence[Result]) -> Iterator[str]:
    yield _INTRODUCTION
    by_name = {result.scenario: result for result in results}
    yield from _machine_lines(results)
    yield from _bar_lines(by_name)
    for result in results:
        yield from _scenario_lines(result)


def _machine_lines(results: Sequence[Result]) -> Iterator[str]:
    """Said once for each machine that took part, which should be one."""
    machines = {
        tuple(f"{key.replace('_', ' ')} {r.circumstances.get(key)}" for key in _MACHINE)
        for r in results
    }
    for machine in sorted(machines):
        yield f"Machine: {', '.join(machine)}.\n"
    yield "Peers: " + "; ".join(f"`{p.name}` {p.title}" for p in PEERS.values()) + ".\n"


def _bar_lines(results: Mapping[str, Result]) -> Iterator[str]:
    verdicts = {bar: list(judge(bar, results)) for bar in BARS}
    yield "## The bars\n"
    yield "| what | against | wanted | worst cell | cells met | |\n|---|---|---|---|---:|---|"
    for bar, found in verdicts.items():
        for other, group in _by_other(bar, found).items():
            yield _bar_row(bar, other, group)
    missed = [v for found in verdicts.values() for v in found if not v.is_met]
    if missed:
        yield "\nCells that miss their bar:\n"
        yield "| what | cell | ours | | other | ratio | wanted | |"
        yield "|---|---|---:|---|---:|---:|---|---|"
    for v in missed:
        yield (
            f"| {v.bar.what} | {v.cell} | {short(v.ours.median)} | {v.other} "
            f"| {short(v.theirs.median)} | {v.ratio:.2f} | {v.bar.wanted} "
            f"| {'' if v.is_borne_out else _NOISE} |"
        )
    yield ""


def _by_other(bar: Bar, found: Sequence[Verdict]) -> dict[str, list[Verdict]]:
    groups: dict[str, list[Verdict]] = {}
    for verdict in found:
        other = verdict.other if isinstance(bar.against, Peers) else _named(bar)
        groups.setdefault(other, []).append(verdict)
    return groups or {_named(bar): []}


def _named(bar: Bar) -> str:
    match bar.against:
        case Peers(names):
            return ", ".join(names)
        case Limit(_, cell):
            return cell
        case OursAt(number):
            return f"ours at {number}"


def _bar_row(bar: Bar, other: str, group: Sequence[Verdict]) -> str:
    if not group:
        return f"| {bar.what} | {other} | {bar.wanted} | | | not measured |"
    ratio = bar.worst([verdict.ratio for verdict in group])
    worst = next(verdict for verdict in group if verdict.ratio == ratio)
    met = sum(verdict.is_met for verdict in group)
    is_met = met == len(group)
    # A bar is missed for certain by one cell, and met for certain by all.
    borne_out = [verdict.is_borne_out for verdict in group if verdict.is_met == is_met]
    word = "met" if is_met else "**missed**"
    if not (all(borne_out) if is_met else any(borne_out)):
        word += f", {_NOISE}"
    shown = f"{ratio:.2f}x ({worst.cell})"
    return f"| {bar.what} | {other} | {bar.wanted} | {shown} | {met}/{len(group)} | {word} |"


def _scenario_lines(result: Result) -> Iterator[str]:
    yield f"## {result.title}\n"
    for name, _ in plots_of(result):
        yield f"![{result.title}]({name}.svg)\n"
    for metric in result.metrics():
        readings = [r for r in result.readings if r.metric == metric and r.cell != TIMELINE]
        cells = list(dict.fromkeys(reading.cell for reading in readings))
        peers = list(dict.fromkeys(reading.peer for reading in readings))
        yield f"| {metric} | {' | '.join(peers)} |\n|---|{'---:|' * len(peers)}"
        for cell in cells:
            figures = [_figure(result.find(cell, peer, metric)) for peer in peers]
            yield f"| {cell} | {' | '.join(figures)} |"
        yield ""
    told = result.circumstances
    yield (
        f"`{result.scenario}`, {told.get('when')}, commit {told.get('commit')}, "
        f"{told.get('seconds')} s, load average before {told.get('load_average_before')}.\n"
    )


def _figure(reading: Reading | None) -> str:
    if reading is None:
        return ""
    if len(reading.rounds) == 1:
        return short(reading.median)
    least, most = reading.spread
    return f"{short(reading.median)} ({short(least)}–{short(most)})"


def plots_of(result: Result) -> Iterator[tuple[str, str]]:
    """Name and SVG: the first metric of a scenario, and what happened over time."""
    over_time = {r.peer: r.rounds for r in result.readings if r.cell == TIMELINE}
    if over_time:
        title = "acknowledged records in each second"
        yield f"{result.scenario}-timeline", lines(title, "seconds", over_time)
        return
    metric = result.metrics()[0]
    cells = [cell for cell in result.cells() if _has(result, cell, metric)]
    peers = [p for p in result.peers() if any(result.find(c, p, metric) for c in cells)]
    series = {peer: [_column(result.find(cell, peer, metric)) for cell in cells] for peer in peers}
    yield result.scenario, columns(f"{result.title} — {metric}", cells, series)


def _has(result: Result, cell: str, metric: str) -> bool:
    return any(r.cell == cell and r.metric == metric for r in result.readings)


def _column(reading: Reading | None) -> Column | None:
    return None if reading is None else Column(reading.median, *reading.spread)
