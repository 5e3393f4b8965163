"""Requests and users are counted for each value."""

from collections import defaultdict

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from hygiene.logs import read_columns
from trajcloak.hygiene import list_attributes

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


@settings(max_examples=300)
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
