"""Reprs show counts only: notebook output gets saved, so no ids."""

import pyarrow as pa
import pytest

from runs import anonymize
from trajcloak.log import RequestLog, read_log
from trajcloak.options import LogColumns

IDS = [f"person-{number}" for number in range(6)]
PLACES = [8_317.25 + number for number in range(6)]


@pytest.fixture(scope="module")
def log() -> RequestLog:
    table = pa.table(
        {
            "user_id": IDS * 2,
            "time": [0] * 6 + [1] * 6,
            "x": PLACES * 2,
            "y": PLACES * 2,
            "category": ["clinic", None] * 6,
        }
    )
    return read_log(table, LogColumns(requests=("category",)))


def test_what_holds_ids_and_places_shows_counts_alone(log):
    result = anonymize(log, k=3)
    assert repr(log) == "RequestLog(rows=12, users=6, requests=6)"
    release = "Release(k=3, windows=1, bundles=2, users=6, requests=4)"
    assert repr(result) == release
    bundles = "Bundles(window=0, start=0, stop=2, bundles=2, users=6)"
    assert repr(list(result.windows)) == f"[{bundles}]"


def test_a_release_in_files_shows_no_more(tmp_path):
    source = tmp_path / "log.csv"
    rows = (
        f"{user},{time},{x},{x},a" for time in (0, 1) for user, x in zip(IDS, PLACES, strict=True)
    )
    source.write_text("user_id,time,x,y,category\n" + "\n".join(rows))
    columns = LogColumns(requests=("category",))
    result = anonymize(source, 3, columns=columns, memory="1GiB", scratch=tmp_path)
    assert result.manifest["requests"] == 4
    assert not any(user in repr(result) for user in IDS)
