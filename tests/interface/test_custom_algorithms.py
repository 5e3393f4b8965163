"""Algorithms of others: bundled as they say, if every bundle has k users."""

import numpy as np
import pytest

import trajcloak as tc
from interface.frames import UTM, build_geopandas, build_pandas

K = 4


class Neighbours:
    """Bundles users by where they start, from west to east."""

    name = "from-west-to-east"

    def group(self, cells, k):
        order = np.argsort(cells[:, 0, 0], kind="stable")
        bundle = np.empty(len(cells), int)
        bundle[order] = np.minimum(np.arange(len(cells)) // k, len(cells) // k - 1)
        return bundle


class Fixed(Neighbours):
    """Returns what it is told to."""

    def __init__(self, found, name="fixed"):
        self.found, self.name = found, name

    def group(self, cells, k):
        return self.found(cells, k)


@pytest.mark.parametrize("cloak", ["mbr", "quad"])
@pytest.mark.parametrize("options", [{}, {"length": 3}, {"parts": 2}, {"members": 6}], ids=str)
def test_its_bundles_are_published(cloak, options):
    source = build_geopandas(UTM)
    release = tc.anonymize(
        source, k=K, requests="service", algorithm=Neighbours(), cloak=cloak, **options
    )
    assert release.manifest["algorithm"] == "custom:from-west-to-east"
    assert release.manifest["smallest_bundle"] == options.get("members", K)
    assert release.audit().passed
    report = release.audit(replay=True)
    assert [check.name for check in report.checks if not check.passed] == ["replay"]
    assert "cannot be made again" in report["replay"].detail


def test_bundles_are_those_that_it_made():
    release = tc.anonymize(build_geopandas(UTM), k=K, algorithm=Neighbours())
    start = build_geopandas(UTM).sort_values(["user_id", "time"]).drop_duplicates("user_id")
    west_to_east = start.assign(x=start.geometry.x).sort_values("x")["user_id"].tolist()
    policy = release.policy.to_pandas()
    bundles = policy.groupby("bundle_id")["user_id"].apply(set).tolist()
    expected = [set(west_to_east[first : first + K]) for first in range(0, 24, K)]
    assert sorted(map(sorted, bundles)) == sorted(map(sorted, expected))


def test_it_sees_neither_the_order_of_rows_nor_ids():
    seen = []
    spy = Fixed(lambda cells, k: seen.append(cells.copy()) or Neighbours().group(cells, k))
    frame = build_pandas()
    other = frame.sample(frac=1, random_state=3)
    other["user_id"] = "x" + other["user_id"].str[::-1]
    first, second = (tc.anonymize(source, k=K, algorithm=spy) for source in (frame, other))
    assert np.array_equal(*seen)
    assert first.bundles.equals(second.bundles)


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (lambda cells, k: np.arange(len(cells)) // (k - 1), "made a bundle of 3 users"),
        (lambda cells, k: np.full(len(cells), 1), "made a bundle of 0 users"),
        (lambda cells, k: np.zeros(len(cells)), "did not number the bundle"),
        (lambda cells, k: np.full(len(cells), -1), "did not number the bundle"),
        (lambda cells, k: np.zeros(len(cells) - 1, int), "did not number the bundle"),
        (lambda cells, k: np.full(len(cells), 2**40), "did not number the bundle"),
        (lambda cells, k: None, "did not number the bundle"),
    ],
)
def test_what_it_returns_is_checked(found, message):
    with pytest.raises(tc.OptionError, match=rf"^algorithm 'fixed' {message}.* at least 4 in each"):
        tc.anonymize(build_pandas(), k=K, algorithm=Fixed(found))


@pytest.mark.parametrize("name", ["", "Mine", "a b", "x" * 50, "../up", None])
def test_names_are_plain(name):
    with pytest.raises(tc.OptionError, match="name is not plain; expected small letters"):
        tc.anonymize(build_pandas(), k=K, algorithm=Fixed(Neighbours().group, name))


def test_it_suppresses_nobody():
    with pytest.raises(tc.OptionError, match="no suppress_above= and no max_suppressed="):
        tc.anonymize(build_pandas(), k=K, algorithm=Neighbours(), max_suppressed=0.1)


@pytest.mark.parametrize(
    ("given", "name", "setting"),
    [
        (tc.Refined(effort="low"), "refined", {"effort": "low"}),
        (tc.TrajAnon(tree="us"), "traj-anon", {"tree": "us"}),
        (tc.TrajAnon(), "traj-anon", {"tree": "usb"}),
    ],
)
def test_ours_with_settings(given, name, setting):
    release = tc.anonymize(build_pandas(), k=K, algorithm=given)
    assert release.manifest["algorithm"] == name
    assert setting.items() <= release.manifest["parameters"].items()
    named = tc.anonymize(build_pandas(), k=K, algorithm=name, **setting)
    assert release.bundles.equals(named.bundles)


def test_a_release_of_such_an_algorithm_can_be_read(tmp_path):
    tc.anonymize(build_pandas(), k=K, algorithm=Neighbours()).save(tmp_path / "release")
    assert tc.open_release(tmp_path / "release").manifest["algorithm"].startswith("custom:")
