"""Figures, checks and samples of a release, against plain counting."""

import json
import math
import re
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from report.conftest import publish
from runs import anonymize
from trajcloak.log import read_in_memory
from trajcloak.quantities import Unit
from trajcloak.query import open_published
from trajcloak.report import write_report_page
from trajcloak.report.charts import (
    LEFT,
    PLOT_HEIGHT,
    PLOT_WIDTH,
    TOP,
    draw_histogram,
    draw_series,
)
from trajcloak.report.figures import (
    build_size_histogram,
    check_release,
    choose_size_breaks,
    count_figures,
    round_up,
)
from trajcloak.report.html_elements import render
from trajcloak.report.map_contents import choose_drawn, list_drawn, read_requests, space_evenly

METRES = Unit(in_metres=True)


@pytest.fixture
def rows(made):
    return pq.read_table(made / "release" / "bundles.parquet").to_pylist()


def figures_of(release):
    return count_figures(release, read_requests(release).count_by_instant(release))


def area(row):
    return (row["x_max"] - row["x_min"]) * (row["y_max"] - row["y_min"])


def test_figures(release, rows, made):
    figures = figures_of(release)
    sizes = {row["bundle_id"]: row["users"] for row in rows}
    assert figures.num_bundles == len(sizes)
    assert (figures.smallest, figures.largest) == (min(sizes.values()), max(sizes.values()))
    assert figures.sizes.counts.sum() == len(sizes)
    assert figures.sides.counts.sum() == 2 * len(rows)
    instants = sorted({row["instant"] for row in rows})
    assert figures.instant.tolist() == instants
    for i, instant in enumerate(instants):
        here = [row for row in rows if row["instant"] == instant]
        assert figures.users[i] == sum(row["users"] for row in here)
        cost = sum(row["users"] * area(row) for row in here)
        assert math.isclose(figures.cost_by_instant[i], cost)
    assert math.isclose(figures.cost, release.manifest["cost"])
    assert math.isclose(figures.mean_area, release.manifest["mean_cloak_area"])
    sent = Counter(pq.read_table(made / "release" / "requests.parquet")["instant"].to_pylist())
    assert figures.requests.tolist() == [sent[instant] for instant in instants]


@pytest.mark.parametrize("sizes", [[5], [5, 5, 7], [2, 400], [50, 51, 99, 100, 149]])
def test_size_histogram(sizes):
    histogram = build_size_histogram(np.array(sizes))
    for low, high, number in zip(
        histogram.edges, histogram.edges[1:], histogram.counts, strict=False
    ):
        assert number == sum(low <= size < high for size in sizes)
    assert histogram.counts.sum() == len(sizes)
    assert len(histogram.counts) <= 24


@pytest.mark.parametrize("sizes", [[5], [5, 6], [2, 400], [50, 99]])
def test_size_classes_are_few_and_none_is_outside(sizes):
    breaks = choose_size_breaks(np.array(sizes))
    assert len(breaks) <= 5
    assert all(min(sizes) < b <= max(sizes) for b in breaks)


def test_round_numbers():
    assert [round_up(v) for v in (1, 1.01, 24, 26, 7e5)] == [1, 2, 25, 50, 1e6]


def test_a_sound_release_passes_the_public_checks(release):
    checks = check_release(release, figures_of(release), METRES)
    assert {check.name: check.passed for check in checks} == (
        dict.fromkeys(
            ["at least k users in every bundle", "smallest bundle", "windows", "instants",
             "bundles", "users", "requests", "cost", "mean cloak area", "cloaks on the grid"],
            True,
        )
    )  # fmt: skip


@pytest.mark.parametrize(
    ("field", "value", "check"),
    [
        ("k", 99, "at least k users in every bundle"),
        ("smallest_bundle", 4, "smallest bundle"),
        ("windows", 3, "windows"),
        ("instants", 9, "instants"),
        ("bundles", 1, "bundles"),
        ("users", 10**6, "users"),
        ("requests", 10**6, "requests"),
        ("cost", 1.0, "cost"),
        ("mean_cloak_area", 2.0, "mean cloak area"),
        ("height", 3, "cloaks on the grid"),
    ],
)
def test_a_release_that_contradicts_itself_fails_a_public_check(release, field, value, check):
    release.manifest[field] = value
    checks = check_release(release, figures_of(release), METRES)
    assert [c.name for c in checks if not c.passed] == [check]


def test_all_bundles_of_a_small_release_are_drawn(release):
    drawn = choose_drawn(release)
    assert [part.number for part in drawn] == [0, 1]
    for part, window in zip(drawn, release.windows, strict=True):
        assert part.bundle.tolist() == list(range(len(window.users)))


def test_a_sample_is_even_and_within_its_bounds(release):
    cloaks = sum(window.cloaks[0].size for window in release.windows)
    (one, two) = choose_drawn(release, most_rectangles=cloaks // 2)
    assert len(one.bundle) == len(release.windows[0].users) // 2
    assert sum(len(p.bundle) * 4 for p in (one, two)) <= cloaks // 2
    assert [len(p.bundle) for p in choose_drawn(release, most_at_once=3)] == [3, 3]
    assert len(choose_drawn(release, most_windows=1)) == 1
    assert space_evenly(100, 4).tolist() == [0, 25, 50, 75]


def test_requests_of_the_bundles_on_the_map(release, made):
    """Window by window, bundle by bundle, instant by instant, as the file has them."""
    table = pq.read_table(made / "release" / "requests.parquet").to_pylist()
    requests = read_requests(release)
    drawn = choose_drawn(release, most_at_once=4)
    listed = list_drawn(requests, drawn)
    for part, totals, codes in zip(drawn, listed.totals, listed.codes, strict=True):
        window = part.window
        slots = [
            (window.first_id + bundle, instant)
            for bundle in part.bundle.tolist()
            for instant in range(window.start, window.stop)
        ]
        expected = [
            [row["what"] for row in table if (row["bundle_id"], row["instant"]) == slot]
            for slot in slots
        ]
        assert totals.tolist() == [len(texts) for texts in expected]
        shown = [listed.kinds[code][0] for code in codes.tolist()]
        plain = [t.encode("ascii", "ignore").decode() for texts in expected for t in texts]
        assert len(shown) == len(plain)
        assert all(a[:3] == b[:3] for a, b in zip(shown, plain, strict=True))


def test_too_many_requests_are_cut_off_evenly(release, monkeypatch):
    requests, drawn = read_requests(release), choose_drawn(release)
    whole = list_drawn(requests, drawn)
    monkeypatch.setattr("trajcloak.report.map_contents.MOST_LISTED", len(requests.kind) // 2)
    listed = list_drawn(requests, drawn)
    assert listed.most < whole.most
    assert sum(map(len, listed.codes)) <= len(requests.kind) // 2
    for totals, codes in zip(listed.totals, listed.codes, strict=True):
        assert len(codes) == np.minimum(totals, listed.most).sum()
    assert [t.tolist() for t in listed.totals] == [t.tolist() for t in whole.totals]
    monkeypatch.setattr("trajcloak.report.map_contents.MOST_TEXT", 0)
    assert list_drawn(requests, drawn).most == 0


def test_attributes_of_all_types_and_nulls(tmp_path):
    """Each different request once, with all its attributes."""
    publish(tmp_path, 12, 2, 3, ["a", "b"])
    file = tmp_path / "release" / "requests.parquet"
    table = pq.read_table(file)
    number = pa.array([None if i % 2 else i for i in range(table.num_rows)], pa.int64())
    table = table.append_column("n", number)
    table = table.append_column("yes", pa.array([True] * len(number)))
    pq.write_table(table, file)
    manifest = json.loads((tmp_path / "release" / "manifest.json").read_text())
    manifest["parameters"]["requests"] += ["n", "yes"]
    (tmp_path / "release" / "manifest.json").write_text(json.dumps(manifest))
    requests = read_requests(open_published(tmp_path / "release"))
    seen = [requests.kinds[kind] for kind in requests.kind.tolist()]
    assert seen == [
        [row["what"], "(null)" if row["n"] is None else str(row["n"]), "True"]
        for row in pq.read_table(file).to_pylist()
    ]
    assert [attribute.name for attribute in requests.attributes] == ["what", "n", "yes"]
    assert requests.attributes[2].frequent == [("True", table.num_rows)]


def test_a_release_without_requests(tmp_path):
    log = tmp_path / "log.parquet"
    publish(tmp_path, 12, 2, 3, ["a"])
    result = anonymize(read_in_memory(log), 3)
    result.write(tmp_path / "bare")
    report = write_report_page(tmp_path / "bare", tmp_path / "report.html")
    assert report.passed
    page = (tmp_path / "report.html").read_text()
    assert "What was asked for" not in page
    data = json.loads(page.split('id="data">')[1].split("</script>")[0])
    assert data["kinds"] == []


def test_requests_that_have_no_attribute_are_a_contradiction(tmp_path):
    publish(tmp_path, 12, 2, 3, ["a"])
    anonymize(read_in_memory(tmp_path / "log.parquet"), 3).write(tmp_path / "bare")
    file = tmp_path / "bare" / "requests.parquet"
    row = {"window": [0], "bundle_id": [0], "instant": [0]}
    pq.write_table(pa.table(row, pq.read_schema(file)), file)
    report = write_report_page(tmp_path / "bare", tmp_path / "report.html")
    assert not report.passed


def test_charts_carry_their_data(release):
    figures = figures_of(release)
    chart = render([draw_histogram("a", "T", figures.sizes, "users", "bundles", "A note.")])
    assert "<title>T. A note.</title>" in chart
    for number in figures.sizes.counts:
        assert f">{number:,}</td>" in chart
    values = np.linspace(1, 2, 1000)
    series = render(
        [
            draw_series(
                "b", "S", values, np.arange(1000), [f"2024-05-06 {i}" for i in range(1000)],
                "y", "N",
            )
        ]
    )  # fmt: skip
    assert series.count("<tr>") == 241, "a long series is summarised"
    assert series.split('class="line" points="')[1].split('"')[0].count(",") == 240
    assert "broken" not in series


@pytest.mark.parametrize("times", [1, 100])
def test_a_series_is_broken_where_the_release_has_no_instants(times):
    """Values stand at their times; a mean is of values of one run of instants only."""
    published = [*range(3), *range(8, 9), *range(12, 16)]
    instants = np.concatenate([np.arange(i * times, (i + 1) * times) for i in published])
    values = np.repeat(np.arange(1.0, 9.0), times)
    names = [f"instant {i}" for i in instants]
    chart = render([draw_series("b", "S", values, instants, names, "y", "N.")])
    lines = re.findall('class="line" points="([^"]*)"', chart)
    assert len(lines) + chart.count('class="dot"') == 3
    assert "N. The release has no instants where the line is broken." in chart
    drawn = [tuple(map(float, p.split(","))) for line in lines for p in line.split()]
    for x, y in drawn:
        instant = int((x - LEFT) / PLOT_WIDTH * 16)
        expected = 1 + published.index(instant)
        assert math.isclose((TOP + PLOT_HEIGHT - y) / PLOT_HEIGHT * 10, expected, abs_tol=0.7)
    rows = re.findall(r"<tr><th[^>]*>instant (\d+)</th>", chart)
    assert set(map(int, rows)) <= set(instants.tolist())


def test_labels_of_times_do_not_overlap():
    """A label for the middle stands near the middle, or not at all."""
    for instants, expected in (
        ([4], ["4"]),
        ([0, 1, 2], ["0", "1", "2"]),
        ([0, 1, 90], ["0", "90"]),
        ([0, 50, 90], ["0", "50", "90"]),
    ):
        names = [f"instant {i}" for i in instants]
        made = draw_series("b", "S", np.ones(len(instants)), np.array(instants), names, "y", "N.")
        texts = [e for e in made.iter("text") if e.get("y") == str(TOP + PLOT_HEIGHT + 15)]
        assert [e.text for e in texts] == expected
