"""Measure what parts and windows cost in precision.

``python -m experiments.choices`` writes one result file per point to
``experiments/results/choices`` and leaves out the points that have one;
``python -m experiments.choices --plot FIGURE`` draws the figure from these files alone.

A point is a length of windows and a least number of users in a part. For each, a release of the
log of ``trajcloak demo`` is made and asked the questions of ``trajcloak utility``.
"""

import argparse
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from matplotlib.figure import Figure

from experiments.plot import BLACK, BLUE, RED, save, show_ticks
from experiments.run import OK, RESULTS, console, measure_once, read_result
from trajcloak import generate_log
from trajcloak.log import RequestLog, read_in_memory
from trajcloak.options import LogColumns, Options
from trajcloak.pipeline import anonymize_log
from trajcloak.query import open_published
from trajcloak.utility import measure_answers, measure_areas

FOLDER = RESULTS / "choices"
USERS, INSTANTS, SEED = 20_000, 30, 0
K = 50
COLUMNS = LogColumns(requests=("category", "detail"))
LENGTHS = (5, 10, 30)
PARTS = (5, 10, 25, K)
"""``K``: whole bundles, no parts."""

STYLES: dict[int, tuple[str, str]] = {5: (RED, "v"), 10: (BLUE, "s"), 30: (BLACK, "o")}
"""Colour and marker of each length of windows."""

KILOMETRE = 1000.0


@dataclass(frozen=True)
class ChoicePoint:
    """A release that is measured."""

    length: int  # Instants in a window.
    parts: int  # Least number of users in a part.

    @property
    def name(self) -> str:
        """Name of the result file, without its ending."""
        return f"{self.length}-{self.parts}"


def main() -> None:
    """Measure what is missing, or draw what is there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plot", type=Path)
    figure = parser.parse_args().plot
    if figure is not None:
        draw(FOLDER, figure)
        return
    path = FOLDER / "log.parquet"
    if not path.exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        generate_log(path, users=USERS, length=INSTANTS, seed=SEED)
    log = read_in_memory(path, COLUMNS)
    for point in plan():
        found = measure_once(FOLDER / f"{point.name}.json", measure, point, log)
        errors = ", ".join(f"{name} {found[name]:.1%}" for name in ("count", "moves", "requests"))
        console.print(f"{point.name}: {math.sqrt(found['area']):,.0f} m, {errors}")


def plan() -> Iterator[ChoicePoint]:
    """List all points."""
    for length in LENGTHS:
        for parts in PARTS:
            yield ChoicePoint(length, parts)


def measure(point: ChoicePoint, log: RequestLog) -> dict[str, Any]:
    """Make a release, and measure its areas and the mean errors of its answers."""
    with TemporaryDirectory() as name:
        release, policy = Path(name) / "release", Path(name) / "policy.parquet"
        asked = Options(k=K, length=point.length, parts=point.parts)
        anonymize_log(log, asked).write(release, policy)
        measured = measure_answers(log, release, policy)
        areas = measure_areas(open_published(release))
    errors = {m.question: m.mean_error for m in measured}
    return {**asdict(point), "status": OK, "area": areas.own, **errors}


def draw(results: Path, path: Path) -> None:
    """Draw precision against the users of a part, for each length of windows."""
    found = {point: read_result(results / f"{point.name}.json") for point in plan()}
    figure = Figure(figsize=(9, 4.2), layout="constrained")
    side, counts, moves = figure.subplots(1, 3)
    for length, (colour, marker) in STYLES.items():
        style: dict[str, Any] = {"color": colour, "marker": marker}
        of_length = [found[ChoicePoint(length, parts)] for parts in PARTS]
        label = f"W = {length}: linked requests keep {K} suspects for {length} minutes"
        sides = [math.sqrt(result["area"]) / KILOMETRE for result in of_length]
        side.plot(PARTS, sides, label=label, **style)
        counts.plot(PARTS, [100 * result["count"] for result in of_length], **style)
        moves.plot(PARTS, [100 * result["moves"] for result in of_length], **style)
    for axes in (side, counts, moves):
        axes.set(xscale="log", ylim=(0, None))
        show_ticks(axes, PARTS)
    side.set(ylabel="side of the mean area (km)", title="where a user is shown")
    counts.set(ylabel="mean error (%)", title="counts of users")
    moves.set(ylabel="mean error (%)", title="moves within a window")
    figure.supxlabel("M: users of a part, whom readers without trajectories cannot tell apart")
    figure.legend(loc="outside upper center", frameon=False)
    save(figure, path)


if __name__ == "__main__":
    main()
