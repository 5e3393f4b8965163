"""Requests and users are counted for each value."""

from collections import Counter, defaultdict

import numpy as np
import pyarrow as pa
from hypothesis import assume, given
from hypothesis import strategies as st

from request_values.logs import read_columns
from trajcloak.requests.attributes import list_attributes
from zoo import examples

NUM_VALUES = (3, 64, 65, 300)
"""Up to 64 values are counted in one way, more in another."""


@st.composite
def sent_logs(draw):
    """Requests of a few users: a text and a number, each of which may be null."""
    seed, num_values = draw(st.integers(0, 2**32)), draw(st.sampled_from(NUM_VALUES))
    rng = np.random.default_rng(seed)
    size = draw(st.integers(1, 40)) + (draw(st.booleans()) and 3 * num_values)
    user = rng.integers(0, 6, size).tolist()
    text = [f"v{value}" if value >= 0 else None for value in rng.integers(-1, num_values, size)]
    number = [value if value >= 0 else None for value in rng.integers(-1, 3, size).tolist()]
    return user, text, number


@examples(300)
@given(sent_logs())
def test_counts(sent):
    users, what, size = sent
    columns = {"what": pa.array(what, pa.string()), "size": pa.array(size, pa.int8())}
    log = read_columns([f"u{user}" for user in users], **columns)
    for attribute, column in zip(list_attributes(log), (what, size), strict=True):
        senders = defaultdict(list)
        for user, value in zip(users, column, strict=True):
            senders[value].append(user)
        senders.pop(None, None)
        found = {
            value: (int(attribute.sent[i]), int(attribute.users[i]))
            for i, value in enumerate(attribute.values.to_pylist())
        }
        assert found == {value: (len(us), len(set(us))) for value, us in senders.items()}
        assert attribute.num_sent == len(column) - column.count(None)


@examples(100)
@given(sent_logs(), st.integers(1, 12))
def test_values_of_dropped_rows_are_not_counted(rows, num_times):
    """Rows of a user at two places at once are dropped, so neither is counted."""
    users, what, size = rows
    times = (np.arange(len(users)) * 7 % num_times).tolist()
    moments = list(zip(users, times, strict=True))
    kept = [row for row, moment in enumerate(moments) if moments.count(moment) == 1]
    assume(kept)
    columns = {"what": pa.array(what, pa.string()), "size": pa.array(size, pa.int8())}
    place = np.arange(len(users)) * 1.0, np.zeros(len(users))
    names = [f"u{user}" for user in users]
    log = read_columns(names, place, time=times, drop=("conflict",), **columns)
    sent = {(what[row], size[row]) for row in kept} - {(None, None)}
    kinds = log.requests.kinds.to_pylist()
    assert len(kinds) == len(sent)
    assert {(kind["what"], kind["size"]) for kind in kinds} == sent
    for attribute, column in zip(list_attributes(log), (what, size), strict=True):
        sent_values = Counter(column[row] for row in kept if column[row] is not None)
        assert dict(zip(attribute.values.to_pylist(), attribute.sent, strict=True)) == sent_values
        of_requests = [
            None if code < 0 else attribute.values[code].as_py()
            for code in attribute.code[log.requests.kind].tolist()
        ]
        assert of_requests == [
            column[row] for row in kept if (what[row], size[row]) != (None, None)
        ]
