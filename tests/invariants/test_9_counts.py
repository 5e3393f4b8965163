"""Invariant 9. The manifest counts the requests that are shown, and no others."""

import json
from itertools import starmap

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import trajcloak as tc
from guarantee.broken_runs import count_requests
from guarantee.movable_logs import KINDS, TWO_INPUTS, draw_movable, write_log
from guarantee.moves import anonymize_in_memory
from invariants.common import require
from small_logs import new_folder
from trajcloak import pipeline
from zoo import first_quick

PER_TEST = 20
WITHHELD = ["sets", "users", "windows"]
REASONS = [
    "dropped_row",
    "few_reporters",
    "link_safe",
    "missing_location",
    "outside_windows",
    "rare",
    "small_window",
    "suppressed",
    "unknown_user",
    "vocabulary",
]


def check_invariant_9(log, requests, seed) -> bool:
    """Send nothing, half of it, all of it, or all of it twice: one figure follows.

    Returns whether there is a release. The private figures count every request.
    """
    rng = np.random.default_rng(seed)
    half = [request for request in requests if rng.random() < 0.5]
    # A row carries one request; a request log may repeat it.
    twice = requests + [request for request in requests if request.row is None]
    manifests = []
    for sent in ([], half, requests, twice):
        with new_folder() as folder:
            given = write_log(log, sent, folder)
            try:
                result = anonymize_in_memory(given, folder)
                result.write(folder / "release")
            except tc.TrajcloakError:
                continue
            files = {file.name: file.read_bytes() for file in (folder / "release").iterdir()}
        manifest = json.loads(files["manifest.json"])
        num_rows = pq.read_metadata(pa.BufferReader(files["requests.parquet"])).num_rows
        require(manifest["requests"] == num_rows, "invariant 9: 'requests' are not those shown")
        require(sorted(manifest["withheld"]) == WITHHELD, "invariant 9: more that is withheld")
        manifests.append({**manifest, "requests": 0})
        check_figures(result.figures, len(sent), num_rows)
    for manifest in manifests:
        require(manifest == manifests[0], "invariant 9: another figure follows the requests")
    return bool(manifests)


def check_figures(figures, num_sent, num_shown):
    """Every request is accounted for in private, by reason; zero is said, too."""
    withheld = figures["withheld"]
    require(sorted(withheld) == REASONS, "invariant 9: a reason is not counted in private")
    require(min(withheld.values()) >= 0, "invariant 9: a count below zero")
    require(
        figures["requests"] == num_sent
        and figures["published"] == num_shown
        and num_sent == num_shown + figures["equal"] + sum(withheld.values()),
        "invariant 9: the private figures do not account for all requests",
    )


@pytest.mark.needs_jit
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("first", first_quick(range(0, 6 * PER_TEST, PER_TEST), 1))
def test_invariant_9_one_figure_is_about_requests(first, kind):
    logs = [(*draw_movable(seed, kind), seed) for seed in range(first, first + PER_TEST)]
    assert sum(starmap(check_invariant_9, logs)) >= PER_TEST // 2


def say_what_is_withheld(original):
    """The manifest says how many requests are withheld."""

    def build(facts, layout, windows, left_out, *rest):
        manifest = original(facts, layout, windows, left_out, *rest)
        manifest["withheld"]["requests"] = sum(left_out.requests.values())
        return manifest

    return build


def say_that_there_are_requests(original):
    """The names of request columns are listed if a request was sent."""

    def build(facts, layout, windows, left_out, ingest, attributes, *rest):
        names = attributes if facts.num_requests else []
        return original(facts, layout, windows, left_out, ingest, names, *rest)

    return build


def count_sent(original):
    """Equal requests of a set count several times."""

    def build(facts, layout, windows, left_out, ingest, attributes, num_requests, *rest):
        sent = left_out.num_requests - sum(left_out.requests.values())
        return original(facts, layout, windows, left_out, ingest, attributes, sent, *rest)

    return build


def forget_strangers(original):
    """Requests of unknown users are counted nowhere."""

    def build(facts, *rest):
        figures = original(facts, *rest)
        figures["withheld"]["unknown_user"] = 0
        return figures

    return build


BREAKS_INVARIANT_9 = [
    ("build_manifest", count_requests),
    ("build_manifest", say_what_is_withheld),
    ("build_manifest", say_that_there_are_requests),
    ("build_manifest", count_sent),
    ("build_figures", forget_strangers),
]


@pytest.mark.needs_jit
@pytest.mark.parametrize(
    ("name", "breaks"), BREAKS_INVARIANT_9, ids=[b.__name__ for _, b in BREAKS_INVARIANT_9]
)
def test_invariant_9_is_seen_to_fail(monkeypatch, name, breaks):
    monkeypatch.setattr(pipeline, name, breaks(getattr(pipeline, name)))
    logs = [(*draw_movable(seed, TWO_INPUTS), seed) for seed in range(PER_TEST)]
    with pytest.raises(AssertionError, match="invariant 9:"):
        list(starmap(check_invariant_9, logs))
