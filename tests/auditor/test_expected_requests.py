"""The rules about requests, as the audit applies them, against the slow twin."""

from types import SimpleNamespace

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from reference.publishing import Publisher, Rules
from trajcloak.auditor.audited_policy import BundleMembers
from trajcloak.auditor.audited_requests import RequestValues
from trajcloak.auditor.expected_bundles import ExpectedBundles
from trajcloak.auditor.expected_requests import expect_requests

LENGTH = 2
WINDOWS = 3
VALUES = [None, "a", "b", "1"]


@st.composite
def draw_world(draw):
    """Draw bundles of users in windows, rows, requests and rules."""
    num_users = draw(st.integers(4, 9))
    users = range(num_users)
    k = draw(st.integers(1, 3))
    bundles, first_id = {}, 0
    for window in range(WINDOWS):
        label = draw(st.lists(st.integers(0, 2), min_size=num_users, max_size=num_users))
        groups = [[u for u in users if label[u] == group] for group in range(3)]
        # Every bundle has at least k users: small groups are one with the next larger one.
        groups = sorted((group for group in groups if group), key=len)
        while len(groups) > 1 and len(groups[0]) < k:
            groups = sorted([groups[0] + groups[1], *groups[2:]], key=len)
        bundles[window] = dict(enumerate(groups, first_id))
        first_id += len(groups)
    instants = range(WINDOWS * LENGTH)
    is_there = st.integers(0, 4).map(bool)
    rows = [(u, i) for u in users for i in instants if draw(is_there)]
    value = st.sampled_from(VALUES)
    places = st.tuples(st.integers(0, num_users - 1), st.integers(0, WINDOWS * LENGTH - 1))
    sent = draw(st.lists(st.tuples(places, st.tuples(value, value)), max_size=40))
    words = st.frozensets(st.sampled_from(VALUES[1:]), min_size=1)
    rules = Rules(
        k=k,
        one_log=draw(st.booleans()),
        rare=draw(st.sampled_from(["keep", "drop", "other"])),
        rare_below=draw(st.integers(1, 3)),
        vocabulary=draw(st.none() | st.tuples(words, words)),
        link_safe=draw(st.booleans()),
    )
    requests = [(*place, values) for place, values in sent if any(values)]
    if rules.one_log:
        requests = [request for request in requests if request[:2] in rows]
    return bundles, rows, requests, rules


def follow(bundles, rows, requests, one_log):
    """Build what the audit finds out about such a world."""
    groups = [(w, members) for w, of_window in bundles.items() for members in of_window.values()]
    first = np.append(0, np.cumsum([len(members) for _, members in groups]))
    user = np.concatenate([members for _, members in groups])
    members = BundleMembers(user, first, np.array([window for window, _ in groups]), {})
    first_set = np.arange(len(groups) + 1) * LENGTH
    has_row = {
        window: np.array(
            [
                [(u, window * LENGTH + i) in rows for i in range(LENGTH)]
                for group in of_window.values()
                for u in group
            ]
        )
        for window, of_window in bundles.items()
    }
    reporters = [
        sum((u, window * LENGTH + i) in rows for u in group)
        for window, group in groups
        for i in range(LENGTH)
    ]
    bundle_of = {
        (w, u): b for w, of_window in bundles.items() for b, g in of_window.items() for u in g
    }
    values = RequestValues(("one", "two"), is_text=False)
    columns = list(zip(*(request[2] for request in requests), strict=True)) or [(), ()]
    batch = pa.record_batch([pa.array(c, pa.string()) for c in columns], ["one", "two"])
    _, taken = values.take(batch)
    numbers = values.number_kinds(values.number([taken]))
    kinds, final = values.finish()
    keys = [
        (bundle_of[instant // LENGTH, who] * LENGTH + instant % LENGTH) * len(kinds) + final[number]
        for (who, instant, _), number in zip(requests, numbers, strict=True)
    ]
    nobody = np.zeros(WINDOWS, np.int64)
    expected = ExpectedBundles(
        SimpleNamespace(kinds=kinds, one_log=one_log), SimpleNamespace(needed=None),
        *(None, members, None, first_set),
        *(np.arange(first_set[-1] + 1), None, None),
        np.array(reporters), nobody, nobody, [], True, has_row,
    )  # fmt: skip
    expected.sent.append(np.unique(np.array(keys, np.int64)))
    return expected


@given(draw_world())
def test_expected_requests_are_those_of_the_slow_twin(world):
    bundles, rows, requests, rules = world
    windows = {w: range(w * LENGTH, (w + 1) * LENGTH) for w in bundles}
    publisher = Publisher(rows, windows, bundles, rules)
    expected = set(publisher.publish(requests).values())
    found = follow(bundles, set(rows), requests, rules.one_log)
    words = rules.vocabulary and dict(zip(("one", "two"), rules.vocabulary, strict=True))
    entries, table = expect_requests(found, {"k": rules.k, "parameters": vars(rules)}, words)
    shown = [tuple(row.values()) for row in table.to_pylist()]
    actual = {
        (int(w), int(b), int(w) * LENGTH + int(s) % LENGTH, shown[kind])
        for w, b, s, kind in zip(
            entries.window, entries.bundle, entries.of_set, entries.kind, strict=True
        )
    }
    assert actual == expected
