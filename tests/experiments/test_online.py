"""The experiment about publishing at once."""

from functools import partial

import numpy as np
import pytest
from PIL import Image

from experiments import online
from experiments.online import OnlinePoint, draw, measure, measure_absence, plan, solve_hindsight
from experiments.run import write_result
from trajcloak.online.prediction import PREDICTORS


@pytest.fixture
def small(monkeypatch):
    """Cells of 60 users who walk straight on, measured in two epochs of small groups."""
    for name, value in {"WARM_UP": 6, "SPACING": 8, "EPOCHS": 2, "K": 5, "PART_USERS": 2}.items():
        monkeypatch.setattr(online, name, value)
    random = np.random.default_rng(5)
    start, step = random.integers(400, 600, (60, 1, 2)), random.integers(-9, 10, (60, 1, 2))
    return (start + step * np.arange(24)[:, None]).astype(np.int32)


def test_straight_ways_are_foreseen(small):
    best = partial(solve_hindsight, cells=small, height=10)
    found = {p: measure(OnlinePoint(4, 0, p), small, 10, best) for p in ("learned", "hold")}
    assert found["learned"]["ratio"] < found["hold"]["ratio"]
    for result in found.values():
        assert len(result["online"]) == len(result["hindsight"]) == 4
        ratio = sum(result["online"]) / sum(result["hindsight"])
        assert result["ratio"] == pytest.approx(ratio)
        assert result["ratio_parts"] < result["ratio"]


def test_what_is_known_needs_no_prediction(small):
    best = partial(solve_hindsight, cells=small, height=10)
    found = measure(OnlinePoint(3, 2, "hold"), small, 10, best)
    assert found["ratio"] == pytest.approx(1)


def test_absence_makes_bundles_larger(small, monkeypatch):
    for name, value in {"ABSENCE_EPOCH": 3, "LEARNING": 2, "EPOCHS": 3}.items():
        monkeypatch.setattr(online, name, value)
    nobody, some = (measure_absence(absence, small, 10) for absence in (0.0, 0.2))
    assert nobody["sets"] == 1
    assert some["members"] > nobody["members"]
    assert 0 < some["sets"] < 1


def test_figure_from_files(tmp_path):
    for number, point in enumerate(plan(PREDICTORS)):
        write_result({"status": "ok", "ratio": 1 + number}, tmp_path / f"{point.name}.json")
    draw(tmp_path, tmp_path / "figure.png")
    draw(tmp_path, tmp_path / "again.png")
    with Image.open(tmp_path / "figure.png") as figure:
        assert figure.width > 500
    assert (tmp_path / "figure.png").read_bytes() == (tmp_path / "again.png").read_bytes()
