"""Requests and users are counted for each value."""

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from hygiene.logs import read_columns
from trajcloak.hygiene import group_by_sender, list_attributes

SENT = st.lists(
    st.tuples(st.integers(0, 5), st.none() | st.sampled_from("abc"), st.none() | st.integers(0, 2)),
    min_size=1,
    max_size=40,
)


@given(SENT)
def test_counts(sent):
    users, what, size = zip(*sent, strict=True)
    columns = {"what": pa.array(what, pa.string()), "size": pa.array(size, pa.int8())}
    log = read_columns([f"u{user}" for user in users], **columns)
    senders = group_by_sender(log)
    attributes = list_attributes(log, senders)
    assert np.diff(senders.first).sum() == len(log.requests.row)
    for attribute, column in zip(attributes, (what, size), strict=True):
        pairs = [(value, user) for user, value in zip(users, column, strict=True)]
        found = {
            value: (int(attribute.sent[i]), int(attribute.users[i]))
            for i, value in enumerate(attribute.values.to_pylist())
        }
        assert found == {
            value: (column.count(value), len({user for other, user in pairs if other == value}))
            for value in set(column) - {None}
        }
        assert attribute.num_sent == len(column) - column.count(None)
