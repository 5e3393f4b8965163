"""True answers, worked out from the rows of a log, lie within the bounds.

Logs on a grid and off it, with gaps, windows, withheld windows, suppressed users; all
algorithms, both kinds of cloaks, with parts and without.
"""

from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import trajcloak as tc
from reference import queries
from reference.completion import complete
from runs import anonymize
from small_logs import (
    Drawn,
    clustered_rows,
    dense_logs,
    draw_log,
    new_folder,
    read_published,
    read_rows,
)
from trajcloak.options import ALGORITHMS, CLOAKS, PARTS_PER
from trajcloak.query import Answer, open_published
from trajcloak.query.bounds import ZERO, RequestAnswer
from trajcloak.utility import measure_answers
from zoo import examples

NOTHING = RequestAnswer(ZERO, ZERO)


@dataclass(frozen=True)
class Truth:
    """Where published users were, and what they sent that is published."""

    places: dict  # (user, instant) -> (x, y)
    sent: list  # of (user, bundle, instant, value)


@contextmanager
def opened(drawn):
    """Publish a log; yields its release, the truth, and the paths; None where it is refused."""
    log = read_rows(drawn.rows)
    with new_folder() as folder:
        try:
            result = anonymize(log, drawn.k, threads=1, **drawn.run_options)
        except tc.TrajcloakError:
            yield None
            return
        result.write(folder / "release", folder / "policy.parquet")
        yield open_published(folder / "release"), work_out_truth(drawn, folder), log, folder


def work_out_truth(drawn, folder):
    named = ("every", "max_gap", "length", "missing")
    options = {name: drawn.options[name] for name in named if name in drawn.options}
    completed = complete(drawn.rows, k=drawn.k, **options)
    places, sent = {}, []
    published = read_published(folder)
    bundle_of = {
        (number, user): bundle
        for (number, bundle), users in published.members.items()
        for user in users
    }
    shown = {tuple(row.values())[1:] for row in published.requests.to_pylist()}
    for window in completed.windows:
        for user, locations in window.participants.items():
            bundle = bundle_of.get((window.number, user))
            if bundle is None:
                continue
            for instant, place in enumerate(locations, window.start):
                places[user, instant] = place
                values = completed.requests.get((user, instant), [])
                sent += [(user, *r) for v in values if (r := (bundle, instant, v)) in shown]
    return Truth(places, sent)


def draw_region(rng):
    """Edges on cell edges and inside cells; all or much of the map now and then."""
    (left, right), (bottom, top) = (
        np.sort(rng.choice(np.arange(-1, 17, 0.5), 2, replace=False)) for _ in "xy"
    )
    return float(left), float(bottom), float(right), float(top)


def check_answer(answer, true):
    assert answer.lower <= true <= answer.upper
    assert answer.lower <= answer.estimate <= answer.upper


def check_requests(answers, expected):
    assert set(expected) <= set(answers)
    for value, answer in answers.items():
        entries, users = expected.get(value, (0, 0))
        check_answer(answer.requests, entries)
        check_answer(answer.users, users)


def check_counts(release, truth, region, first, last):
    answers = release.count(region, first, last)
    meant = set()
    for instant, answer in answers.items():
        inside = queries.true_followers(truth.places, [(region, instant)])
        check_answer(answer, len(inside))
        meant |= {(user, instant) for user in inside}
    check_requests(
        release.count_requests(region, "what", first, last),
        queries.true_requests(truth.sent, meant),
    )


def check_route(release, truth, steps):
    followers = queries.true_followers(truth.places, steps)
    check_answer(release.follow(steps), len(followers))
    meant = {(user, instant) for user in followers for _, instant in steps}
    check_requests(release.follow_requests(steps, "what"), queries.true_requests(truth.sent, meant))


def check_release(release, truth, rng):
    instants = release.times.between(None, None)
    for _ in range(6):
        first, last = sorted(rng.choice(instants, 2).tolist())
        check_counts(release, truth, draw_region(rng), first, last)
        length = int(rng.integers(1, min(len(instants), 4) + 1))
        chosen = sorted(rng.choice(instants, length, replace=False).tolist())
        check_route(release, truth, [(draw_region(rng), instant) for instant in chosen])


@examples(300)
@given(
    dense_logs(),
    st.integers(0, 2**32),
    st.sampled_from([None, 0.3]),
    st.sampled_from([None, *PARTS_PER]),
)
def test_random_dense_logs(drawn, seed, max_suppressed, parts_per):
    if drawn.options["algorithm"] in ("traj-anon", "refined"):
        drawn.options["max_suppressed"] = max_suppressed
    if parts_per is not None:
        assume(len({row.user for row in drawn.rows}) >= 4)
        drawn.options.update(members=4, parts=2, parts_per=parts_per)
    with opened(drawn) as found:
        assert found is not None
        release, truth, *_ = found
        check_release(release, truth, np.random.default_rng(seed))


@pytest.mark.parametrize(
    "seeds", [range(100), pytest.param(range(100, 400), marks=pytest.mark.slow)], ids=str
)
def test_random_logs_with_gaps_windows_and_suppression(seeds):
    seen = set()
    for seed in seeds:
        drawn = draw_log(seed)
        rng = np.random.default_rng([seed, 1])
        drawn.options["algorithm"] = str(rng.choice(ALGORITHMS))
        drawn.options["cloak"] = str(rng.choice(CLOAKS))
        drawn.options["rare"] = ("drop", "keep")[seed % 2]
        if drawn.options["algorithm"] in ("traj-anon", "refined") and rng.random() < 0.5:
            drawn.options["max_suppressed"] = 0.45
        with opened(drawn) as found:
            if found is None:
                continue
            release, truth, log, folder = found
            check_release(release, truth, rng)
            results = measure_answers(
                log,
                folder / "release",
                folder / "policy.parquet",
                queries=3,
                seed=seed,
                threads=1,
            )
            assert all(result.within == 1 for result in results)
            seen |= {"any"} | {r.question for r in results} | {drawn.options["cloak"]}
            seen |= {"withheld set"} if release.manifest["withheld"]["sets"] else set()
            seen |= {"suppressed"} if release.manifest["suppressed"] else set()
            seen |= {"windows"} if len(release.windows) > 1 else set()
            gaps = (a[1] < b[0] for a, b in pairwise(release.times.ranges))
            seen |= {"withheld window"} if any(gaps) else set()
    assert seen == {
        "any", "count", "moves", "requests", "mbr", "quad", "suppressed", "windows",
        "withheld window", "withheld set",
    }  # fmt: skip


@pytest.mark.parametrize("cloak", CLOAKS)
def test_a_region_that_holds_everything_is_answered_exactly(cloak):
    drawn = Drawn(clustered_rows(), 3, {"cloak": cloak, "length": 2})
    with opened(drawn) as found:
        assert found is not None
        release, truth, *_ = found
        everywhere = (-1.0, -1.0, 17.0, 17.0)
        for instant, answer in release.count(everywhere).items():
            true = len(queries.true_followers(truth.places, [(everywhere, instant)]))
            assert answer == Answer(true, float(true), true)
        nowhere = (100.0, 100.0, 101.0, 101.0)
        assert set(release.count(nowhere).values()) == {ZERO}
        assert release.count_requests(nowhere, "what") == {}
