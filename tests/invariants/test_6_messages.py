"""Invariant 6. Messages name nobody."""

import json
import traceback
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

import trajcloak as tc
from bad_input import CASES, Case, Secrets
from invariants.common import property_test, require
from runs import anonymize
from small_logs import Row, new_folder, publish, read_rows
from trajcloak.log import read_in_memory
from trajcloak.space import check_inside
from trajcloak.trajectories import compare_all_reports


def check_invariant_6(bad: Case, seed: int) -> None:
    """Nothing that a failing run says, to anybody, holds an id or a coordinate of its log."""
    secrets = Secrets(seed)
    said: list[str] = []

    def listen(stage: str, done: int, total: int) -> None:
        said.append(f"{stage} {done} {total}")

    with new_folder() as folder, warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        attempt = bad.build(folder, secrets)
        try:
            log = read_in_memory(attempt.source, attempt.columns, progress=listen)
            result = anonymize(log, attempt.k, progress=listen, **attempt.options)
            result.write(folder / attempt.release, folder / attempt.policy, progress=listen)
        except tc.TrajcloakError as error:
            said += [str(error), repr(error), *traceback.format_exception(error)]
        else:
            raise AssertionError(f"invariant 6: {bad.name} did not fail")
        said += [str(warning.message) for warning in warned]
    for text in said:
        require(not secrets.find(text), f"invariant 6: {bad.name} tells an id or a coordinate")


def test_invariant_6_messages_name_nobody():
    @property_test(150)
    @given(st.sampled_from(CASES), st.integers(0, 10**6))
    def holds(bad, seed):
        check_invariant_6(bad, seed)

    holds()


@pytest.mark.parametrize("bad", CASES, ids=lambda bad: bad.name)
def test_invariant_6_holds_in_every_case(bad, capfd, caplog):
    check_invariant_6(bad, 99)
    assert capfd.readouterr() == ("", "")
    assert not caplog.records


def test_invariant_6_holds_for_the_manifest():
    """Ids and coordinates do not show in what a good run reports."""
    secrets = Secrets(3)
    rows = [Row(secrets.user(), 0, secrets.place(), secrets.place(), "r") for _ in range(9)]
    manifest = json.dumps(publish(read_rows(rows), 3).manifest)
    assert not secrets.find(manifest)


def get_user(log):
    return log.shards[0][0].users[0].as_py()


def name_the_user(log, long):
    raise tc.InputError(f"user {get_user(log)} is at two places")


def name_the_place(log, bounds, region):
    try:
        check_inside(log, bounds, region)
    except tc.InputError as error:
        x, y = log.shards[0][0].plane
        raise tc.InputError(f"({x[0]}, {y[0]}): {error}") from None


def keep_the_cause(log, long):
    """The message is fine, but the traceback shows another one."""
    try:
        raise KeyError(get_user(log))
    except KeyError as error:
        raise tc.InputError("rows 2 and 3: two places") from error


def warn_of_the_user(log, long):
    warnings.warn(f"user {get_user(log)} is at two places", stacklevel=2)
    return compare_all_reports(log, long)


CONFLICT = next(bad for bad in CASES if bad.name == "two_places_at_once")
OUTSIDE = next(bad for bad in CASES if bad.name == "outside_the_region")
BREAKS_INVARIANT_6 = {
    "user": (CONFLICT, "trajcloak.trajectories.layout.compare_all_reports", name_the_user),
    "place": (OUTSIDE, "trajcloak.space.check_inside", name_the_place),
    "cause": (CONFLICT, "trajcloak.trajectories.layout.compare_all_reports", keep_the_cause),
    "warning": (
        CONFLICT,
        "trajcloak.trajectories.layout.compare_all_reports",
        warn_of_the_user,
    ),
}


@pytest.mark.parametrize("broken", BREAKS_INVARIANT_6)
def test_invariant_6_is_seen_to_fail(monkeypatch, broken):
    bad, target, function = BREAKS_INVARIANT_6[broken]
    check_invariant_6(bad, 4)
    monkeypatch.setattr(target, function)
    with pytest.raises(AssertionError, match="invariant 6:"):
        check_invariant_6(bad, 4)
