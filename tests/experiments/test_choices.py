"""The experiment about parts and windows."""

import pytest
from PIL import Image

import trajcloak as tc
from experiments import choices
from experiments.choices import ChoicePoint, draw, measure, plan
from experiments.run import write_result
from trajcloak.log import read_in_memory


@pytest.mark.slow
def test_smaller_parts_and_shorter_windows_are_more_precise(tmp_path, monkeypatch):
    monkeypatch.setattr(choices, "K", 8)
    path = tmp_path / "log.parquet"
    tc.generate_log(path, users=300, length=6, seed=1)
    log = read_in_memory(path, choices.COLUMNS)
    whole = measure(ChoicePoint(6, 8), log)
    for point in (ChoicePoint(6, 2), ChoicePoint(2, 8)):
        finer = measure(point, log)
        assert finer["area"] < whole["area"]
        assert finer["count"] < whole["count"]


def test_figure_from_files(tmp_path):
    for number, point in enumerate(plan(), 1):
        write_result(
            {"status": "ok", "area": 1e6 * number, "count": 0.01 * number, "moves": 0.02 * number},
            tmp_path / f"{point.name}.json",
        )
    draw(tmp_path, tmp_path / "figure.png")
    draw(tmp_path, tmp_path / "again.png")
    with Image.open(tmp_path / "figure.png") as figure:
        assert figure.width > 500
    assert (tmp_path / "figure.png").read_bytes() == (tmp_path / "again.png").read_bytes()
