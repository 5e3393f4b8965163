"""Random logs with gaps, windows and suppressed users: what is made by hand must pass."""

import random

import pyarrow as pa
import pytest

from reference.release_by_hand import make

COLUMNS = {
    "user_id": pa.string(),
    "time": pa.int64(),
    "x": pa.float64(),
    "y": pa.float64(),
    "text": pa.string(),
    "number": pa.float64(),
    "flag": pa.bool_(),
}


def random_rows(rng):
    rows = []
    for number in range(rng.randint(8, 16)):
        start, stop = rng.randint(0, 5), rng.randint(15, 40)
        for time in range(start, stop):
            if rng.random() < 0.2:
                continue
            place = {"x": rng.uniform(-50, 50), "y": float(rng.randint(-50, 50))}
            for _ in range(rng.choice([1, 1, 2])):
                request = {
                    "text": rng.choice([None, "ä", "Z", "a"]),
                    "number": rng.choice([None, -1.5, 10.0, 9.0]),
                    "flag": rng.choice([None, True, False]),
                }
                rows.append({"user_id": f"person {number:03d}", "time": time} | place | request)
    rng.shuffle(rows)
    return rows


@pytest.mark.parametrize("seed", range(30))
def test_random_release_passes(find_failed, seed):
    rng = random.Random(seed)
    rows = random_rows(rng)
    example = make(
        rows,
        COLUMNS,
        k=rng.choice([2, 3]),
        attributes=["text", "number", "flag"],
        every=rng.choice([1, 2, 5]),
        max_gap=rng.choice([3, 4, 10]),
        length=rng.choice([1, 2, 3]),
        missing=rng.choice(["withhold", "hold"]),
        region={"x_min": -64.0, "y_min": -64.0, "side": 128.0},
        height=rng.randint(0, 7),
        cloak=rng.choice(["mbr", "quad"]),
    )
    assert find_failed(example) == set()
