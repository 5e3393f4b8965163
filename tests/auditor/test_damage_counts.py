"""Damage to counts and costs, one by one; tests name exactly the checks that must notice."""

import pytest

from reference.release_by_hand import geographic, planar


def test_wrong_cost(find_failed):
    example = planar()
    example.manifest["cost"] *= 1 + 1e-8
    assert find_failed(example) == {"costs"}


def test_wrong_mean_cloak_area(find_failed):
    example = planar()
    example.manifest["mean_cloak_area"] += 1
    assert find_failed(example) == {"costs"}


@pytest.mark.parametrize(
    "name",
    ["windows", "instants", "users", "bundles", "smallest_bundle", "requests", "generalised"],
)
def test_wrong_count(find_failed, name):
    example = geographic()
    example.manifest[name] += 1
    assert find_failed(example) == {"counts"}


@pytest.mark.parametrize("name", ["users", "requests"])
def test_wrong_withheld(find_failed, name):
    example = geographic()
    example.manifest["withheld"][name] += 1
    assert find_failed(example) == {"withheld"}


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("rows", 1),
        ("repeated", 99),
        ("requests", 0),
        ("users", 19),
        ("start", "2024-05-01T08:01:00Z"),
        ("end", "2024-05-01T08:01:00Z"),
        ("instants", 3),
        ("interval", None),
        ("interval", {"p5": "1s", "median": "60s", "p95": "70s"}),
        ("long_gaps", 77),
        ("user_instants", {"reported": 1, "interpolated": 1, "held": 1, "missing": 1}),
        ("crs", None),
        ("zone", "Europe/Berlin"),
    ],
)
def test_wrong_report_on_the_log(find_failed, name, wrong):
    example = geographic()
    example.manifest["ingest"][name] = wrong
    assert find_failed(example) == {"ingest"}


@pytest.mark.parametrize(
    "reason", ["missing_location", "window_below_k", "suppressed", "rare_value"]
)
@pytest.mark.parametrize("name", ["user_windows", "requests"])
def test_wrong_reason(find_failed, reason, name):
    example = geographic()
    example.manifest["withheld"]["why"][reason][name] += 1
    assert find_failed(example) == {"withheld"}


def test_wrong_suppressed(find_failed):
    example = geographic()
    example.manifest["suppressed"] += 1
    assert find_failed(example) == {"one bundle per user"}
