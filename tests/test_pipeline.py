"""The whole run: options, counts of who is left out, suppression."""

import dataclasses
from collections import Counter

import numpy as np
import pytest

import trajcloak as tc
from reference import completion
from reference.publishing import Publisher, Rules
from runs import anonymize
from small_logs import (
    UNIT_CELLS,
    Drawn,
    Published,
    Row,
    clustered_rows,
    draw_log,
    publish,
    publish_rows,
    read_rows,
    rows_with_addresses,
)
from trajcloak.options import RARE, Options
from zoo import first_quick

SEEDS_PER_TEST = 30


def check_against_twin(drawn: Drawn, published: Published) -> None:
    """Compare what is published, and what is counted as withheld, with the slow twin."""
    participants = {}
    plain = completion.complete(drawn.rows, k=drawn.k, **drawn.options)
    for window in plain.windows:
        if window.is_published:
            participants |= {(window.number, user): window for user in window.participants}
    bundle_of = {
        (row["window"], row["user_id"]): row["bundle_id"] for row in published.policy.to_pylist()
    }
    assert bundle_of.keys() <= participants.keys()
    left_out = {(user, window) for window, user in participants.keys() - bundle_of.keys()}
    expected = completion.complete(drawn.rows, k=drawn.k, suppressed=left_out, **drawn.options)

    manifest = published.manifest
    assert manifest["suppressed"] == len(left_out)
    assert manifest["users"] == len({user for _, user in bundle_of})
    assert manifest["parameters"]["origin"] == expected.origin
    assert manifest["parameters"]["every"] == expected.every
    shown = {w.number: (w.start, w.stop) for w in expected.windows if w.is_published}
    assert manifest["windows"] == len(shown)
    assert manifest["instants"] == sum(stop - start for start, stop in shown.values())

    cloaks = {}
    for row in published.bundles.to_pylist():
        start, stop = shown[row["window"]]
        assert start <= row["instant"] < stop
        cloaks[row["bundle_id"], row["instant"]] = row
    for (number, user), bundle in bundle_of.items():
        window = participants[number, user]
        for instant, (x, y) in enumerate(window.participants[user], window.start):
            cloak = cloaks[bundle, instant]
            assert cloak["window"] == number
            assert cloak["x_min"] - 1e-9 <= x <= cloak["x_max"] + 1e-9
            assert cloak["y_min"] - 1e-9 <= y <= cloak["y_max"] + 1e-9

    check_requests(drawn, published, expected)


def check_requests(drawn: Drawn, published: Published, expected: completion.Completed) -> None:
    """Compare published requests, and the private counts of all others, with the slow twin."""
    manifest, figures = published.manifest, published.figures
    bundles = {}
    for (window, bundle), members in published.members.items():
        bundles.setdefault(window, {})[bundle] = members
    made = manifest["parameters"]
    publisher = Publisher(
        [
            (row.user, completion.instant_of(row.time, expected.origin, expected.every))
            for row in drawn.rows
        ],
        {w.number: range(w.start, w.stop) for w in expected.windows if w.is_published},
        bundles,
        Rules(drawn.k, one_log=True, rare=made["rare"], rare_below=made["rare_below"]),
    )
    sent = [
        (user, instant, (request,))
        for (user, instant), requests in expected.requests.items()
        for request in requests
    ]
    shown = publisher.publish(sent)
    rows = [tuple(row.values()) for row in published.requests.to_pylist()]
    assert len(rows) == len(set(rows)) == manifest["requests"]
    assert set(rows) == {(*place, *values) for *place, values in shown.values()}
    assert manifest["withheld"] == {**expected.withheld, "sets": publisher.count_withheld_sets()}

    placed = [(publisher.place.get((user, i)), values) for user, i, values in sent]
    eligible = [(*place, values) for place, values in placed if place in publisher.eligible]
    num_shown = sum(entry in shown for entry in eligible)
    assert figures["withheld"] == {
        **{reason: counts["requests"] for reason, counts in expected.left_out.items()},
        "few_reporters": sum(place in publisher.sets - publisher.eligible for place, _ in placed),
        "rare": len(eligible) - num_shown,
        "dropped_row": 0,
        "unknown_user": 0,
        "vocabulary": 0,
        "link_safe": 0,
    }
    assert figures["requests"] == len(sent)
    assert figures["published"] == manifest["requests"]
    assert figures["equal"] == num_shown - len(rows)
    assert figures["replaced"] == sum(shown.get(entry, entry) != entry for entry in eligible)
    assert figures["user_windows"] == {
        reason: expected.left_out[reason]["user_windows"] for reason in figures["user_windows"]
    }


def run(drawn: Drawn, **more) -> Published | None:
    """Publish a drawn log; None if the slow twin refuses it, which the library must do too."""
    try:
        completion.complete(drawn.rows, k=drawn.k, **drawn.options)
    except ValueError as refused:
        error = tc.NotEnoughUsersError if "no window has" in str(refused) else tc.InputError
        with pytest.raises(error):
            publish(read_rows(drawn.rows), drawn.k, **drawn.run_options)
        return None
    return publish(read_rows(drawn.rows), drawn.k, **drawn.run_options, **more)


@pytest.mark.parametrize("first", first_quick(range(0, 240, SEEDS_PER_TEST), 3))
def test_releases_are_what_the_slow_twin_asks_for(first):
    checked = 0
    for seed in range(first, first + SEEDS_PER_TEST):
        drawn = draw_log(seed)
        published = run(drawn, cloak=("mbr", "quad")[seed % 2], rare=RARE[seed % 3])
        if published is not None:
            check_against_twin(drawn, published)
            checked += 1
    assert checked >= SEEDS_PER_TEST // 4


@pytest.mark.parametrize(
    "more", [{"suppress_above": 40.0}, {"suppress_above": 6.0}, {"max_suppressed": 0.4}], ids=str
)
def test_suppression_is_counted_apart(more):
    suppressed = Counter()
    for seed in range(60):
        drawn = draw_log(seed)
        try:
            published = run(drawn, **more, rare=RARE[seed % 3])
        except tc.OptionError:
            with pytest.raises(tc.OptionError, match="everybody would be left out"):
                run(drawn, **more)
            suppressed["all"] += 1
            continue
        if published is not None:
            check_against_twin(drawn, published)
            suppressed["some"] += published.manifest["suppressed"] > 0
    assert suppressed["some"] >= 1, suppressed


def stay(user, instants, x, request="r"):
    return [Row(user, instant, x, 1, request) for instant in instants]


def test_a_window_below_k_is_withheld_as_a_whole_and_counted():
    rows = [row for user in "abc" for row in stay(user, range(4), 1)]
    rows += stay("d", range(2), 1) + stay("e", [2], 1)
    published = publish_rows(rows, 4, length=2, rare="keep")
    assert published.manifest["windows"] == 1
    assert set(published.bundles["window"].to_pylist()) == {0}
    assert set(published.requests["instant"].to_pylist()) == {0, 1}
    assert published.manifest["users"] == 4
    assert published.manifest["withheld"] == {"users": 1, "windows": 1, "sets": 0}
    reasons = "missing_location", "small_window", "suppressed"
    assert [published.figures["withheld"][reason] for reason in reasons] == [1, 6, 0]
    assert [published.figures["user_windows"][reason] for reason in reasons] == [1, 3, 0]


def test_only_pairs_with_a_report_in_the_window_are_counted():
    """A user may take part in a window without a report, and so withhold nothing there."""
    rows = stay("a", [0, 2], 1, None) + stay("b", [0, 1, 2], 1) + stay("c", [0, 2], 1, None)
    published = publish_rows([*rows, *stay("d", [0, 2], 1, None)], 4, length=1, rows_alike=True)
    assert [row["instant"] for row in published.bundles.to_pylist()] == [0, 1, 2]
    held = [*rows[:5], Row("c", 0, 1, 1), Row("d", 2, 1, 1)]
    below = publish_rows(held, 3, length=1, every="1", rows_alike=True)
    assert below.manifest["windows"] == 2
    assert below.figures["user_windows"]["small_window"] == 1
    assert below.figures["withheld"]["small_window"] == 1


def test_a_window_without_participants_withholds_nothing():
    rows = stay("a", [0, 9], 1) + stay("b", [0, 9], 1)
    published = publish_rows(rows, 2, length=1, every="1", rare="keep")
    manifest = published.manifest
    assert (manifest["windows"], manifest["instants"]) == (2, 2)
    assert manifest["withheld"] == {"users": 0, "windows": 8, "sets": 0}
    assert not any(published.figures["withheld"].values())


@pytest.mark.parametrize(("k", "options"), [(4, {}), (3, {"length": None}), (100, {})])
def test_not_enough_users(k, options):
    rows = stay("a", range(4), 1) + stay("b", range(4), 1) + stay("c", [0, 1], 1)
    rows = rows if k != 4 else [row for row in rows if row.user != "c"] + stay("c", range(4), 1)
    with pytest.raises(tc.NotEnoughUsersError) as caught:
        anonymize(read_rows(rows), k, **UNIT_CELLS, **options)
    if k > 3:
        assert str(caught.value) == (
            f"the log has 3 users; expected at least {k} for a bundle; lower k= or members="
        )
    else:
        assert str(caught.value) == (
            "at most 2 of 3 users take part in a window, since the location of the others is not "
            "known at all of its instants, the first and the last included; expected at least 3; "
            "pass what trajcloak.inspect_log proposes as every=, max_gap= and length=, keep more "
            'users with missing="hold", or lower k= or members='
        )
    assert isinstance(caught.value, ValueError)


def test_hold_or_a_shorter_window_keeps_more_users():
    rows = stay("a", range(4), 1) + stay("b", range(4), 1) + stay("c", [0, 1], 1)
    for more in ({"missing": "hold"}, {"length": 2}):
        assert publish_rows(rows, 3, **more).manifest["users"] == 3


def lonely_rows():
    """Ten users side by side, and two far away."""
    rows = [row for i in range(10) for row in stay(f"near{i}", range(3), i % 2, f"n{i}")]
    return rows + [row for i in range(2) for row in stay(f"far{i}", range(3), 14 + i, "far")]


def check_the_far_ones_are_left_out(published):
    assert published.manifest["suppressed"] == 2
    assert published.manifest["users"] == 10
    assert published.manifest["withheld"]["users"] == 0
    assert published.figures["user_windows"]["suppressed"] == 2
    assert published.figures["withheld"]["suppressed"] == 6
    users = published.policy["user_id"].to_pylist()
    assert sorted(users) == sorted(f"near{i}" for i in range(10))
    assert "far" not in published.requests["what"].to_pylist()


def test_suppression_by_price():
    whole = publish_rows(lonely_rows(), 5)
    assert (whole.manifest["suppressed"], whole.manifest["users"]) == (0, 12)
    published = publish_rows(lonely_rows(), 5, suppress_above=20.0)
    check_the_far_ones_are_left_out(published)
    assert published.manifest["parameters"]["suppress_above"] == 20.0
    assert published.manifest["cost"] < whole.manifest["cost"]


def test_suppression_by_budget():
    published = publish_rows(lonely_rows(), 5, max_suppressed=0.17)
    check_the_far_ones_are_left_out(published)
    assert published.manifest["parameters"]["max_suppressed"] == 0.17
    for share in (0.0, 0.1, 0.16):
        kept = publish_rows(lonely_rows(), 5, max_suppressed=share).manifest
        assert kept["suppressed"] <= share * 12


def test_a_price_is_an_area_whatever_the_cells():
    for height in (4, 6, 8):
        check_the_far_ones_are_left_out(
            publish_rows(
                lonely_rows(), 5, algorithm="traj-anon", suppress_above=20.0, height=height
            )
        )


def test_a_price_below_every_bundle():
    with pytest.raises(tc.OptionError, match=r"window 0: everybody would be left out; expected"):
        publish_rows(lonely_rows(), 5, suppress_above=1e-6)


def test_suppression_in_one_window_of_several():
    rows = [row for i in range(8) for row in stay(f"u{i}", range(2), i % 2)]
    rows += stay("far", [0], 1) + stay("far", [1], 15)
    published = publish_rows(rows, 4, length=1, suppress_above=10.0)
    assert published.manifest["suppressed"] == 1
    assert published.manifest["users"] == 9
    assert published.manifest["withheld"]["users"] == 0
    windows = [row["window"] for row in published.policy.to_pylist() if row["user_id"] == "far"]
    assert windows == [0]


@pytest.mark.parametrize("k", [0, 1, -3, True, False, 2.5, 2.0, "x", "5", None, float("nan"), [5]])
def test_k_that_cannot_be_used(k):
    with pytest.raises(tc.OptionError, match=r"k is .*; expected a whole number of at least 2"):
        Options(k=k)


@pytest.mark.parametrize("k", [2, 10**6, np.int64(5), np.int8(3)])
def test_k_that_can_be_used(k):
    assert Options(k=k).k == k


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("algorithm", "magic"),
        ("algorithm", None),
        ("cloak", "circle"),
        ("cloak", ""),
        ("missing", "guess"),
        ("length", 0),
        ("length", -1),
        ("length", 2.5),
        ("length", True),
        ("length", "3"),
        ("height", 0),
        ("height", "x"),
        ("height", 1.5),
        ("suppress_above", 0),
        ("suppress_above", -1.0),
        ("suppress_above", float("nan")),
        ("suppress_above", float("inf")),
        ("suppress_above", "x"),
        ("max_suppressed", -0.1),
        ("max_suppressed", 1),
        ("max_suppressed", float("nan")),
        ("max_suppressed", "1%"),
        ("region", (0, 0)),
        ("region", (0, 0, 0)),
        ("region", (0, 0, -1)),
        ("region", (0, 0, float("inf"))),
        ("region", (float("nan"), 0, 1)),
        ("region", "0,0,9"),
        ("region", ("a", "b", "c")),
        ("region", 5),
    ],
)
def test_options_that_cannot_be_used(name, value):
    with pytest.raises(tc.OptionError) as caught:
        Options(k=2, **{name: value})
    message = str(caught.value)
    assert name in message
    assert "; expected " in message
    assert message.endswith(f" {name}=")


def test_a_price_and_a_budget_exclude_each_other():
    with pytest.raises(tc.OptionError, match=r"both a price and a budget .*; expected one"):
        Options(k=2, suppress_above=5.0, max_suppressed=0.1)


def test_an_option_that_does_not_exist():
    with pytest.raises(TypeError, match="colour"):
        anonymize(read_rows(clustered_rows()), 2, colour="red")


@pytest.mark.parametrize("name", ["every", "max_gap"])
@pytest.mark.parametrize("value", ["60s", "0", "-1", "x", "", True, 1.5])
def test_durations_that_cannot_be_used_with_integer_times(name, value):
    with pytest.raises(tc.OptionError, match=f"{name}="):
        anonymize(read_rows(clustered_rows()), 2, **{name: value})


def test_numbers_of_any_type_are_written_as_json():
    published = publish_rows(
        clustered_rows(),
        np.int64(3),
        length=np.int64(2),
        height=np.int64(4),
        region=tuple(map(np.float32, (-0.5, -0.5, 16))),
        max_suppressed=np.float32(0.25),
        every=1,
        max_gap=2,
    )
    assert published.manifest["parameters"]["length"] == 2
    assert published.manifest["parameters"]["max_suppressed"] == 0.25


def test_the_manifest_says_what_was_allowed():
    log = read_rows(rows_with_addresses())
    with pytest.raises(tc.InputError, match="allow="):
        anonymize(log, 3, rare="keep")
    manifest = anonymize(log, 3, rare="keep", allow=("what", "what")).manifest
    assert manifest["parameters"]["allow"] == ["what"]


def test_options_are_frozen_and_all_have_a_default_but_k():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Options(k=2).k = 1
    required = [f.name for f in dataclasses.fields(Options) if f.default is dataclasses.MISSING]
    assert required == ["k"]


def test_nothing_is_shared_between_a_log_and_its_results():
    log = read_rows(clustered_rows())
    before = [array.copy() for array in (log.user, log.time, log.x, log.y)]
    first = publish(log, 3, **UNIT_CELLS)
    publish(log, 2, **UNIT_CELLS, cloak="quad", length=1)
    assert publish(log, 3, **UNIT_CELLS).files == first.files
    for array, old in zip((log.user, log.time, log.x, log.y), before, strict=True):
        assert np.array_equal(array, old)


def test_progress_names_every_stage():
    stages = {}

    def listen(stage, done, total):
        stages[stage.partition(",")[0]] = done, total

    result = anonymize(read_rows(clustered_rows()), 3, progress=listen)
    assert {"building trajectories", "bundling", "refining"} <= set(stages)
    assert all(done == total for done, total in stages.values())
    assert result.manifest["bundles"] == 4
