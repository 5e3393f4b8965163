"""Groups of an epoch, and how many members they need."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trajcloak.cloaks import build_cloaks
from trajcloak.online.epoch_groups import (
    MOST_TIMES_K,
    choose_effort,
    choose_members,
    form_groups,
    lay_side_by_side,
)
from trajcloak.options import MBR
from zoo import examples


def expect_full(members, k, absence, length):
    """Compute, from binomials, the share of instants at which at least k are expected."""
    total = 0.0
    for instant in range(length):
        share = (1 - absence) ** instant
        total += sum(
            math.comb(members, m) * share**m * (1 - share) ** (members - m)
            for m in range(k, members + 1)
        )
    return total / length


@given(k=st.integers(2, 60), absence=st.floats(0, 0.1), length=st.integers(1, 12))
@examples(60)
def test_enough_members_are_left_in_most_sets(k, absence, length):
    members = choose_members(k, absence, length)
    assert k <= members <= MOST_TIMES_K * k
    assert expect_full(members, k, absence, length) >= 0.94


@pytest.mark.parametrize(("absence", "length"), [(1.0, 5), (0.9, 100), (0.999999, 2)])
def test_nobody_waits_for_those_who_are_gone(absence, length):
    assert choose_members(10, absence, length) == MOST_TIMES_K * 10


def test_effort_falls_with_users():
    efforts = [choose_effort(users, 5) for users in (100, 50_000, 500_000, 2_000_000)]
    assert [e.level for e in efforts] == ["high", "normal", "low", "least"]


def test_all_futures_count_alike():
    known = np.array([[[1, 2]], [[3, 4]]], np.int32)
    futures = np.array([[[[1, 3]], [[-5, 99]]], [[[3, 5]], [[4, 4]]]], np.int32)
    assert lay_side_by_side(known, futures, 4).tolist() == [
        [[1, 2], [1, 2], [1, 3], [0, 15]],
        [[3, 4], [3, 4], [3, 5], [4, 4]],
    ]
    nothing = np.empty((2, 1, 0, 2), np.int32)
    assert lay_side_by_side(known, nothing, 4).tolist() == known.tolist()


@given(
    seed=st.integers(0, 2**32 - 1),
    users=st.integers(2, 150),
    members=st.integers(2, 12),
    threads=st.integers(1, 3),
)
@examples(40)
def test_groups_have_enough_members(seed, users, members, threads):
    cells = np.random.default_rng(seed).integers(0, 64, (users, 3, 2)).astype(np.uint32)
    groups = form_groups(cells, 6, members, "low", threads)
    assert (np.bincount(groups) >= min(members, users)).all()


def test_groups_are_numbered_by_their_cloaks():
    random = np.random.default_rng(7)
    cells = random.integers(0, 64, (60, 2, 2)).astype(np.uint32)
    group = form_groups(cells, 6, 5, "low", 1)
    cloaks = build_cloaks(cells, group, MBR, 1).reshape(-1, 8).tolist()
    assert cloaks == sorted(cloaks)
    order = random.permutation(60)
    assert (form_groups(cells[order], 6, 5, "low", 1) == group[order]).all()
