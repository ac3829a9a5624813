"""Run the grid: `python -m benchmarks.grid [--quick] [--resume] [--list] [scenario ...]`.

Every scenario leaves one JSON document, so a run that was cut off can go on: `--resume` leaves out
what was measured at this commit. The report is made from all documents that are there. Full results
are kept in benchmarks/results, quick ones in build/bench/grid.
"""

import argparse
import sys
import time
import traceback
from collections.abc import Collection
from pathlib import Path

from benchmarks.grid.contest import FULL, QUICK, Effort
from benchmarks.grid.machine import describe
from benchmarks.grid.readings import Reading, Result, load_results
from benchmarks.grid.report import write_report
from benchmarks.grid.scenarios import SCENARIOS, Scenario
from benchmarks.grid.stage import Stage

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results"
QUICK_RESULTS = ROOT / "build" / "bench" / "grid"
NAMES = [scenario.name for scenario in SCENARIOS]


def run(scenario: Scenario, stage: Stage, effort: Effort) -> Result:
    say(f"{scenario.name}: {scenario.title}")
    circumstances, began = describe(), time.perf_counter()
    readings = []
    for reading in scenario.measure(stage, effort):
        readings.append(reading)
        say(shown(reading))
    circumstances["seconds"] = round(time.perf_counter() - began)
    return Result(scenario.name, scenario.title, tuple(readings), circumstances)


def run_all(chosen: Collection[str], folder: Path, effort: Effort) -> list[str]:
    """Run them in the table's order; those that failed, which do not keep others from running."""
    failed = []
    with Stage() as stage:
        for scenario in SCENARIOS:
            if scenario.name not in chosen:
                continue
            try:
                result = run(scenario, stage, effort)
            except Exception:
                traceback.print_exc()
                failed.append(scenario.name)
                stage.clear()
            else:
                (folder / f"{scenario.name}.json").write_text(result.to_json())
    return failed


def measured_at(commit: str, folder: Path) -> set[str]:
    results = load_results(folder, NAMES)
    return {each.scenario for each in results if each.circumstances.get("commit") == commit}


def shown(reading: Reading) -> str:
    least, most = reading.spread
    figures = f"{reading.median:>10.5g} {reading.metric:<16} ({least:.4g} to {most:.4g})"
    return f"  {reading.cell:<36.36} {reading.peer:<16}{figures}"


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.grid", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small numbers: does it still run?")
    parser.add_argument("--resume", action="store_true", help="leave out what this commit has")
    parser.add_argument("--list", action="store_true", help="list the scenarios")
    parser.add_argument("--report", action="store_true", help="only write the report")
    parser.add_argument("names", nargs="*", metavar="scenario", help="all unless given")
    arguments = parser.parse_args()
    if arguments.list:
        print("\n".join(f"{each.name:<24}{each.title}" for each in SCENARIOS))
        return 0
    if unknown := set(arguments.names) - set(NAMES):
        parser.error(f"no such scenario: {', '.join(sorted(unknown))}")
    folder = QUICK_RESULTS if arguments.quick else RESULTS
    folder.mkdir(parents=True, exist_ok=True)
    chosen = set() if arguments.report else set(arguments.names or NAMES)
    if arguments.resume:
        chosen -= measured_at(describe()["commit"], folder)
    failed = run_all(chosen, folder, QUICK if arguments.quick else FULL)
    say(f"report: {write_report(folder, load_results(folder, NAMES)).relative_to(ROOT)}")
    if failed:
        say(f"failed: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
