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
