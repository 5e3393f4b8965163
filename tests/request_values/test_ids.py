"""Ids in requests, against a slow twin."""

import uuid

import numpy as np
import pyarrow as pa
import pytest

from reference.ids_in_requests import count_ids
from request_values.logs import read_columns
from trajcloak.requests.attributes import list_attributes
from trajcloak.requests.identifiers import Ids
from trajcloak.requests.identifiers import count_ids as count_ids_of_log
from trajcloak.requests.suspicions import find_identities

FORMS = (
    str,
    "to {}".format,
    "{}!x".format,
    "2 x {}, 7 y".format,
    lambda user: f" {user}".upper(),
    lambda user: f"by {user}".upper().replace("-", ""),
    lambda user: "cafe",
)


def find_log_identities(log, attribute):
    ids = Ids(log.users)
    return find_identities(ids, count_ids_of_log(ids, log, attribute), attribute)


def draw_users(rng, num_users):
    """Draw ids: far or close numbers, short numbers, names, UUIDs."""
    numbers = rng.permutation(10**6)[:num_users].tolist()
    kinds = (
        [10**11 + n for n in numbers],
        [100_000 + n % 200 for n in numbers],
        [n % 100 for n in numbers],
        [f"Anna-{n % 10**5}" for n in numbers],
        [str(uuid.UUID(bytes=rng.bytes(16))) for _ in numbers],
        [uuid.UUID(bytes=rng.bytes(16)).hex for _ in numbers],
    )
    return kinds[rng.integers(len(kinds))]


def draw_log(rng):
    """Draw users, and values of which some are their ids."""
    num_users = int(rng.choice([rng.integers(1, 12), 60]))
    users = draw_users(rng, num_users)
    others = ["a", "bc", "123456", f"{rng.integers(100)} kids, {rng.integers(100_000, 100_200)}"]
    share, form = rng.choice([0, 0.05, 0.3, 1]), FORMS[rng.integers(len(FORMS))]
    sent = []
    for _ in range(int(rng.integers(1, 6 * num_users))):
        user = users[rng.integers(num_users)]
        named = user if rng.random() < 0.7 else users[rng.integers(num_users)]
        value = form(named) if rng.random() < share else str(rng.choice(others))
        sent.append((user, value if rng.random() < 0.9 else None))
    return sent


@pytest.mark.parametrize(
    "first", [0, *(pytest.param(first, marks=pytest.mark.slow) for first in (100, 200, 300))]
)
def test_as_the_slow_twin(first):
    found = 0
    for seed in range(first, first + 100):
        rng = np.random.default_rng(seed)
        sent = draw_log(rng)
        user, value = zip(*sent, strict=True)
        log = read_columns(list(user), what=pa.array(value, pa.string()))
        (attribute,) = list_attributes(log)
        suspicions = find_log_identities(log, attribute)
        expected = count_ids(sent, set(user))
        assert bool(suspicions) == bool(expected), seed
        if expected:
            assert f" {expected:,} " in suspicions[0].looks_like, seed
            found += 1
    assert 20 < found < 90


def test_long_numbers():
    users = pa.array([-(2**63), -5, 7, 123456, 10**18, 2**63 - 1])
    ids = Ids(users)
    texts = ["123456", str(2**63 - 1), str(2**63), "9" * 40, "-5", "07", None, str(-(2**63))]
    user, value = ids.match(pa.array(texts))
    assert list(zip(user.tolist(), value.tolist(), strict=True)) == [(3, 0), (5, 1), (1, 4), (0, 7)]
    assert ids.expect(pa.array(["1", "2", "999999"])) == pytest.approx(2 / 10 + 1 / 10**6)


def test_one_id_in_a_text_is_enough():
    log = read_columns(["grocery", "u"] * 20, what=["the grocery store"] + ["cafe"] * 39)
    (attribute,) = list_attributes(log)
    assert "the ids of 1 users" in str(find_log_identities(log, attribute)[0])
