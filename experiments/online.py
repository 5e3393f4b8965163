"""Measure what it costs to publish at once instead of in hindsight.

``python -m experiments.online`` writes one result file per point to
``experiments/results/online/city`` and leaves out the points that have one; with ``--network
PATH``, a road network as ``trajcloak generate`` takes it, to a folder of its name, and with the
best predictor alone. ``python -m experiments.online --plot FIGURE`` draws the figure from these
files alone.

A point is a number of instants in an epoch, a lag and a predictor. After a warm-up, from which
predictions learn, some epochs are grouped as the stream would group them. The cost of their true
cloaks is compared with that of ``refined`` on the true ways of users in the same epochs, at the
same effort. Online, each point is measured with whole cloaks and with parts per instant.

With ``--absence``, users are absent at random instead. Measured is how many sets are still
published, and how much larger areas are, since bundles are formed with more than k members.
"""

import argparse
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from matplotlib.figure import Figure

from experiments.plot import BLACK, BLUE, RED, save
from experiments.run import RESULTS, SEED, console, measure_once, read_result
from trajcloak.algorithms import Policy
from trajcloak.algorithms.refined import Refined
from trajcloak.cloaks import build_cloaks, compute_areas
from trajcloak.generator import generate_log
from trajcloak.kernels.threads import default_threads
from trajcloak.online import OnlineAnonymizer, OnlineOptions
from trajcloak.online.epoch_groups import choose_effort, form_groups, lay_side_by_side
from trajcloak.online.history import Recorder
from trajcloak.online.prediction import PREDICTORS
from trajcloak.options import MBR, PER_INSTANT
from trajcloak.parts import PartSettings, build_parts
from trajcloak.space import Region, fit_region

FOLDER = RESULTS / "online"
CITY = FOLDER / "city"
USERS = 20_000
K = 50
LENGTHS = (3, 5, 10)
LAGS = (0, 1)
PART_USERS = 10
WARM_UP = 60
SPACING = 20
"""Instants from the start of one measured epoch to that of the next."""
EPOCHS = 3
LENGTH = WARM_UP + SPACING * (EPOCHS - 1) + max(LENGTHS)
ABSENCES = (0.0, 0.01, 0.05)
"""Shares of users who are absent at each instant; the first is compared with."""
ABSENCE_EPOCH = 5
LEARNING = 3
"""Epochs in which a stream sees how many are absent, before it is measured."""

Cells = npt.NDArray[np.int32]
"""(users, instants, 2)"""

STYLES: dict[str, tuple[str, str]] = {
    "hold": (RED, "v"),
    "damped": (BLUE, "s"),
    "learned": (BLACK, "o"),
}
"""Colour and marker of each predictor."""


@dataclass(frozen=True)
class OnlinePoint:
    """What is compared with hindsight."""

    epoch: int  # Instants, as the lag.
    lag: int
    predictor: str

    @property
    def name(self) -> str:
        """Name of the result file, without its ending."""
        return f"{self.predictor}-{self.epoch}-{self.lag}"


def main() -> None:
    """Measure what is missing, or draw what is there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plot", type=Path, help="figure to draw")
    parser.add_argument("--network", help="roads to measure on instead of the city")
    parser.add_argument("--absence", action="store_true", help="measure what absence costs")
    asked = parser.parse_args()
    if asked.plot is not None:
        draw(CITY, asked.plot)
        return
    folder = CITY if asked.network is None else FOLDER / Path(asked.network).stem
    cells, height = read_cells(make_log(folder, asked.network))
    if asked.absence:
        measure_all_absences(folder, cells, height)
        return
    hindsight = cache(partial(solve_hindsight, cells=cells, height=height))
    for point in plan(PREDICTORS if asked.network is None else ["learned"]):
        path = folder / f"{point.name}.json"
        found = measure_once(path, measure, point, cells, height, hindsight)
        console.print(f"{point.name}: {found['ratio']:.2f} of hindsight")


def plan(predictors: Iterable[str]) -> Iterator[OnlinePoint]:
    """List all points."""
    for predictor in predictors:
        for epoch in LENGTHS:
            for lag in LAGS:
                yield OnlinePoint(epoch, lag, predictor)


def make_log(folder: Path, network: str | None) -> Path:
    """Generate a log, once."""
    log = folder / "log.parquet"
    if not log.exists():
        folder.mkdir(parents=True, exist_ok=True)
        roads = network or "city"
        generate_log(log, users=USERS, length=LENGTH, seed=SEED, request_share=0.0, network=roads)
    return log


def read_cells(log: Path) -> tuple[Cells, int]:
    """Read a generated log, which has all users in the same order at each instant."""
    table = pq.read_table(log, columns=["x", "y"])
    places = np.stack([table[name].to_numpy().reshape(LENGTH, -1) for name in "xy"], axis=-1)
    low, high = places.min(axis=(0, 1)), places.max(axis=(0, 1))
    region = fit_region((*low, *high), None, in_metres=True)
    cells = np.floor((places - (region.x_min, region.y_min)) / region.cell).astype(np.int32)
    return np.ascontiguousarray(cells.transpose(1, 0, 2)), region.height


def list_starts() -> range:
    """List the first instants of the epochs that are measured."""
    return range(WARM_UP, WARM_UP + SPACING * EPOCHS, SPACING)


def solve_hindsight(epoch: int, cells: Cells, height: int) -> list[npt.NDArray[np.float64]]:
    """Compute the cost of the measured epochs in hindsight, instant by instant."""
    refined, costs = Refined(choose_effort(len(cells), epoch).level), []
    for start in list_starts():
        true = np.ascontiguousarray(cells[:, start : start + epoch].astype(np.uint32))
        best = refined.solve(true, height, K, MBR, threads=default_threads())
        costs.append(cost(true, best.bundle))
    return costs


def measure(
    point: OnlinePoint,
    cells: Cells,
    height: int,
    solve: Callable[[int], list[npt.NDArray[np.float64]]],
) -> dict[str, Any]:
    """Compare the cost of some epochs with hindsight, in cells for each user and instant."""
    hindsight = solve(point.epoch)
    online, parts = zip(*(group_epoch(point, cells, height, s) for s in list_starts()), strict=True)
    return {
        **asdict(point),
        "status": "ok",
        "users": len(cells),
        "k": K,
        "online": np.mean(online, axis=0).tolist(),
        "hindsight": np.mean(hindsight, axis=0).tolist(),
        "ratio": float(np.sum(online) / np.sum(hindsight)),
        "ratio_parts": float(np.sum(parts) / np.sum(hindsight)),
    }


def group_epoch(
    point: OnlinePoint, cells: Cells, height: int, start: int
) -> tuple[npt.NDArray[np.float64], float]:
    """Group an epoch as the stream does.

    Returns the cost at each of its instants, and the sum of their costs with parts.
    """
    effort, threads = choose_effort(len(cells), point.epoch), default_threads()
    recorder = Recorder(point.epoch, point.lag)
    known = start + point.lag + 1
    for instant in range(known):
        recorder.add(cells[:, instant])
    futures = np.empty((len(cells), 1, 0, 2), np.int32)
    if length := start + point.epoch - known:
        futures = PREDICTORS[point.predictor].predict(
            recorder.look_back(len(cells)),
            np.arange(len(cells)),
            length,
            effort.num_futures,
            threads=threads,
        )
    ways = lay_side_by_side(cells[:, start:known], futures, height)
    group = form_groups(ways, height, K, effort.level, threads)
    true = np.ascontiguousarray(cells[:, start : start + point.epoch].astype(np.uint32))
    policy = Policy(group, build_cloaks(true, group, MBR, threads))
    parts = build_parts(true, policy, PartSettings(PART_USERS, PER_INSTANT), MBR, threads)
    in_parts = float(compute_areas(parts.cloaks) @ parts.sizes) / len(cells)
    return cost(true, group), in_parts


def cost(cells: npt.NDArray[np.uint32], group: npt.NDArray[np.int32]) -> npt.NDArray[np.float64]:
    """Compute the mean area of users' cloaks at each instant, in cells."""
    areas = compute_areas(build_cloaks(cells, group, MBR, default_threads()))
    mean: npt.NDArray[np.float64] = (areas * np.bincount(group)[:, None]).sum(axis=0) / len(cells)
    return mean


def measure_all_absences(folder: Path, cells: Cells, height: int) -> None:
    """Measure how much is published if users are absent at random."""
    present = None
    for absence in ABSENCES:
        path = folder / f"absence-{absence}.json"
        found = measure_once(path, measure_absence, absence, cells, height)
        present = present or found
        console.print(
            f"absent {absence:.0%}: {found['sets']:.1%} of sets published, bundles of "
            f"{found['members']:.0f} users, area {found['area'] / present['area']:.2f} times"
        )


def measure_absence(absence: float, cells: Cells, height: int) -> dict[str, Any]:
    """Run a stream whose users are absent at random; the last epochs count."""
    random = np.random.default_rng(SEED)
    options = OnlineOptions(k=K, every=1, epoch=ABSENCE_EPOCH)
    region = Region(0.0, 0.0, float(2**height), height)
    online = OnlineAnonymizer(options, region, [], origin=0)
    num_bundles = num_sets = num_members = 0
    areas, users = 0.0, 0
    instants = ABSENCE_EPOCH * (LEARNING + EPOCHS)
    for instant in range(instants):
        here = np.flatnonzero(random.random(len(cells)) >= absence)
        x, y = cells[here, instant].T + 0.5
        times = np.full(len(here), instant)
        online.observe(pa.table({"user_id": here, "time": times, "x": x, "y": y}))
        (published,) = online.advance(instant + 1)
        if instant < ABSENCE_EPOCH * LEARNING:
            continue
        if instant % ABSENCE_EPOCH == 0:
            num_bundles += len(published.users)
            num_members += int(published.users.sum())
        num_sets += len(published.users)
        areas += float(compute_areas(published.cloaks[:, None])[:, 0] @ published.users)
        users += int(published.users.sum())
    return {
        "status": "ok",
        "absence": absence,
        "sets": num_sets / (num_bundles * ABSENCE_EPOCH),
        "members": num_members / num_bundles,
        "area": areas / users,
    }


def draw(results: Path, path: Path) -> None:
    """Draw the cost against the length of an epoch, for each predictor and lag that is measured."""
    figure = Figure(figsize=(6, 3.6), layout="constrained")
    axes = figure.subplots()
    for predictor, (colour, marker) in STYLES.items():
        for lag, line in zip(LAGS, ("-", ":"), strict=True):
            points = [OnlinePoint(epoch, lag, predictor) for epoch in LENGTHS]
            found = [read_result(results / f"{point.name}.json") for point in points]
            if not all(result["status"] for result in found):
                continue
            axes.plot(
                LENGTHS,
                [result["ratio"] for result in found],
                color=colour,
                marker=marker,
                linestyle=line,
                label=f"{predictor}, lag {lag}",
            )
    axes.axhline(1, color="#999999", linewidth=0.8)
    axes.set(xlabel="instants in an epoch", ylabel="cost, hindsight = 1", xticks=LENGTHS)
    axes.legend(frameon=False)
    save(figure, path)


if __name__ == "__main__":
    main()
