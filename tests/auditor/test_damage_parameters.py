"""Damage to times and parameters, one by one; tests name exactly the checks that must notice."""

import pytest

from auditor.expected import NEEDS_CONTENTS
from reference.release_by_hand import geographic, planar


def test_shifted_moments(find_failed):
    example = geographic()
    for row in example.bundles:
        row["t_start"] += 1
    assert find_failed(example) == {"instants"}


def test_shifted_origin(find_failed):
    example = geographic()
    example.manifest["parameters"]["origin"] = "2024-05-01T07:59:00+00:00"
    expected = {"parameters", "instants", "bundle rows", "bundle order"} | NEEDS_CONTENTS
    assert find_failed(example) == expected


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("origin", "2024-05-01T08:00:00"),
        ("origin", 0),
        ("every", "soon"),
        ("every", "0s"),
        ("every", "1us"),
        ("every", f"{10**30}d"),
        ("max_gap", 60),
        ("max_gap", "-60s"),
    ],
)
def test_unusable_parameter(find_failed, name, value):
    example = geographic()
    example.manifest["parameters"][name] = value
    assert "parameters" in find_failed(example)


@pytest.mark.parametrize(
    ("allow", "expected"),
    [(["query", "rate"], set()), (["device_id"], {"parameters"}), (["query", "x"], {"parameters"})],
)
def test_allowed_attributes_are_published_ones(find_failed, allow, expected):
    example = geographic()
    example.manifest["parameters"]["allow"] = allow
    assert find_failed(example) == expected


@pytest.mark.parametrize("allow", [None, "query", ["rate", "query"], ["query", "query"], [1]])
def test_allowed_attributes_are_a_sorted_list_of_names(find_failed, allow):
    example = geographic()
    example.manifest["parameters"]["allow"] = allow
    assert "manifest" in find_failed(example)


def test_a_manifest_that_does_not_say_what_was_allowed(find_failed):
    example = geographic()
    del example.manifest["parameters"]["allow"]
    assert "manifest" in find_failed(example)


def test_huge_length_is_one_window(find_failed):
    example = planar()
    example.manifest["parameters"]["length"] = 2**61
    assert find_failed(example) == set()


def test_shorter_gap_than_was_used(find_failed):
    example = geographic()
    example.manifest["parameters"]["max_gap"] = "30s"
    assert "one bundle per user" in find_failed(example)


def test_region_too_small(find_failed):
    example = planar()
    example.manifest["region"]["side"] = 512.0
    example.manifest["height"] = 5
    assert find_failed(example) == {"region", "cloaks"}


def test_wrong_projection(find_failed):
    example = geographic()
    example.manifest["crs"] = example.manifest["crs"].replace("laea", "aeqd")
    assert find_failed(example) == {"parameters", "region"} | NEEDS_CONTENTS


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_suppressed", "x"),
        ("max_suppressed", 1),
        ("suppress_above", 0),
        ("tree", "zzz"),
        ("effort", 77),
        ("seed", -1),
        ("seed", 2**63),
        ("blocks", "many"),
        ("tz", "Factory"),
        ("tz", "posixrules"),
        ("log_crs", "nonsense"),
        ("log_crs", 4326),
        ("clip", "-3, -3, -2, -2"),
        ("clip", "1e2,-3.0,200.0,-2.0"),
        ("drop", "clip"),
        ("drop", "teleport,conflict"),
        ("max_speed", True),
        ("requests", "category"),
        ("requests", ["category", "category"]),
        ("rare", None),
        ("rare_below", 0),
    ],
)
def test_parameter_that_cannot_be(find_failed, name, value):
    example = planar()
    example.manifest["parameters"][name] = value
    assert "manifest" in find_failed(example)


@pytest.mark.parametrize(("name", "value"), [("seed", 2**63 - 1), ("blocks", 12), ("tree", "us")])
def test_parameter_that_can_be(find_failed, name, value):
    example = planar()
    example.manifest["parameters"][name] = value
    assert find_failed(example) == set()


def test_missing_parameter(find_failed):
    example = planar()
    del example.manifest["parameters"]["seed"]
    assert "manifest" in find_failed(example)


def test_policy_among_the_parameters(find_failed):
    example = planar()
    for number, row in enumerate(example.policy):
        example.manifest["parameters"][f"b{row['bundle_id']}_{number}"] = row["user_id"]
    assert find_failed(example) == {"manifest"}


@pytest.mark.parametrize(
    ("name", "value"),
    [("log_crs", "EPSG:4326"), ("clip", "-3.0,-3.0,-2.0,-2.0"), ("tz", "Europe/Berlin")],
)
def test_log_cannot_be_read_as_the_manifest_says(find_failed, name, value):
    example = planar()
    example.manifest["parameters"][name] = value
    assert "parameters" in find_failed(example)


@pytest.mark.parametrize(
    ("hours", "failed"),
    [
        ("00:00-24:00", False),
        ("00:00-12:00,12:00-24:00", False),
        ("00:00-00:00", True),
        ("07:00-29:59", True),
        ("24:00-12:00", True),
        ("00:00-24:00,01:00-02:00", True),
        ("07:00-09:00,08:00-10:00", True),
        ("08:00-07:00,07:30-07:45", False),
        ("12:00-09:00,08:00-11:00", True),
    ],
)
def test_hours(find_failed, hours, failed):
    example = geographic()
    example.manifest["parameters"]["windows"] = hours
    assert ("parameters" in find_failed(example)) == failed


@pytest.mark.parametrize(("speed", "failed"), [(0.001, {"parameters"}), (2000.0, set())])
@pytest.mark.parametrize("make", [planar, geographic])
def test_faster_than_allowed(find_failed, make, speed, failed):
    example = make()
    example.manifest["parameters"]["max_speed"] = speed
    assert find_failed(example) == failed
