"""Reprs show counts only: notebook output gets saved, so no ids."""

import pyarrow as pa

import trajcloak as tc

IDS = [f"person-{number}" for number in range(6)]
PLACES = [8_317.25 + number for number in range(6)]
TABLE = pa.table(
    {
        "user_id": IDS * 2,
        "time": [0] * 6 + [1] * 6,
        "x": PLACES * 2,
        "y": PLACES * 2,
        "category": ["clinic", None] * 6,
    }
)
RELEASE = "Release(k=3, windows=1, bundles=2, users=6, requests=4)"


def test_what_holds_ids_and_places_shows_counts_alone():
    log = tc.read_log(TABLE, requests="category")
    assert repr(log) == "Log(rows=12, users=6, requests=6)"
    release = tc.anonymize(log, k=3)
    assert repr(release) == RELEASE
    bundles = "Bundles(window=0, start=0, stop=2, bundles=2, users=6)"
    assert repr(release._made.run.windows) == f"[{bundles}]"
    shown = release._repr_html_()
    assert "<th>users</th><td>6</td>" in shown
    assert not any(text in shown for text in [*IDS, *map(str, PLACES), "clinic"])


def test_a_release_in_files_shows_no_more(tmp_path):
    release = tc.anonymize(TABLE, k=3, requests="category", memory="1GiB", scratch=tmp_path)
    assert repr(release) == RELEASE


def test_an_audit_shows_its_verdict():
    report = tc.anonymize(TABLE, k=3).audit()
    assert repr(report) == f"AuditReport({report.verdict})"
    assert report.verdict.startswith("Passed: at least 3 possible senders")
    shown = report._repr_html_()
    assert shown.count("<td>passed</td>") == len(report.checks)
    assert not any(text in shown for text in [*IDS, *map(str, PLACES)])
