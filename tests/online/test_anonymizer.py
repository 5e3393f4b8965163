"""Lines that are late, early, outside, repeated; and options."""

from itertools import permutations, product

import numpy as np
import pyarrow as pa
import pytest

from online.streams import NAMES, REGION, read
from trajcloak.errors import InputError, OptionError
from trajcloak.online import OnlineAnonymizer, OnlineOptions
from trajcloak.space import Region

FOUR = ["a", "b", "c", "d"]


def build(**options):
    asked = {"k": 2, "every": 10, "epoch": 3, "rare": "keep", **options}
    return OnlineAnonymizer(OnlineOptions(**asked), REGION, NAMES, origin=100, threads=1)


def report(online, users, time, x=1.5, y=1.5):
    time = [time] * len(users) if isinstance(time, int) else time
    count = len(users)
    online.observe(pa.table({"user_id": users, "time": time, "x": [x] * count, "y": [y] * count}))


def ask(online, user, time, category="food"):
    online.ask(
        pa.table(
            {
                "user_id": [user],
                "time": [time],
                "category": [category],
                "detail": pa.array([None], pa.string()),
            }
        )
    )


def count_users(published):
    return [sum(users for _, users, _ in read(p).values()) for p in published]


def list_requests(published):
    return [
        sorted(values[0] for _, _, requests in read(p).values() for values in requests)
        for p in published
    ]


def test_late_reports_and_requests_change_nothing():
    online = build(late=5)
    report(online, FOUR, 100)
    assert online.advance(114) == []
    report(online, ["e"], 109)
    assert count_users(online.advance(115)) == [5]
    report(online, ["f"], 109)
    ask(online, "a", 109)
    assert online.counts["late"] == 2
    report(online, FOUR, 110)
    assert list_requests(online.advance(125)) == [[]]


def test_what_is_far_ahead_is_not_kept():
    online = build()
    report(online, FOUR, 100)
    report(online, ["a"], 10**12)
    ask(online, "a", 10**12)
    assert online.counts["early"] == 2
    assert len(online._open) == 1


def test_one_wrong_clock_does_not_close_instants():
    online = build(k=3)
    assert online.clock is None
    report(online, FOUR, [101, 103, 105, 10**15])
    assert online.clock == 103
    report(online, ["b"], 107)
    assert online.clock == 105


@pytest.mark.parametrize(("x", "y"), [(-0.1, 1), (1, 16), (np.nan, 1), (1, np.inf), (1e300, 1)])
def test_outside_the_region_is_absent(x, y):
    online = build()
    report(online, FOUR, 100)
    report(online, ["e"], 100, x, y)
    assert online.counts["outside the region"] == 1
    assert count_users(online.advance(110)) == [4]


@pytest.mark.parametrize("hold", [0, 1, 2])
def test_who_leaves_the_region_is_not_held_inside(hold):
    online = build(k=3, hold=hold, epoch=5)
    for instant in range(5):
        report(online, FOUR[1:], 100 + 10 * instant)
        report(online, ["e"], 100 + 10 * instant)
        if instant < 2:
            report(online, ["a"], 103 + 10 * instant)
        if instant == 1:
            report(online, ["a"], 105 + 10 * instant, 99.0)
    assert count_users(online.advance(150)) == [5, 4, 4, 4, 4]


def test_the_place_of_a_missing_report_is_held():
    online = build(k=3, hold=2, epoch=5)
    for instant in range(5):
        report(online, FOUR if instant == 0 else FOUR[1:], 100 + 10 * instant)
    assert count_users(online.advance(150)) == [4, 4, 4, 3, 3]


def test_who_is_absent_once_is_out_until_the_epoch_ends():
    online = build(k=3)
    for instant, users in enumerate([FOUR, FOUR[1:], FOUR, FOUR]):
        report(online, users, 100 + 10 * instant)
        ask(online, "a", 101 + 10 * instant)
    published = online.advance(140)
    assert count_users(published) == [4, 3, 3, 4]
    assert list_requests(published) == [["food"], [], [], ["food"]]
    assert online.counts["requests withheld"] == 2


def test_who_leaves_while_an_instant_is_waited_for_takes_no_part():
    online = build(k=3, lag=1)
    report(online, FOUR, 100)
    report(online, FOUR[1:], 110)
    assert count_users(online.advance(120)) == [3]


@pytest.mark.parametrize("order", [1, -1])
def test_the_last_report_of_an_instant_counts(order):
    online = build()
    for time, place in [(100, 1.5), (104, 9.5), (107, 3.5)][::order]:
        report(online, FOUR, time, place, place)
    (published,) = online.advance(110)
    assert published.cloaks.tolist() == [[3, 3, 4, 4]] * len(published.cloaks)


def test_newcomers_wait():
    online = build()
    for instant in range(4):
        report(online, FOUR if instant == 0 else [*FOUR, "e"], 100 + 10 * instant)
    assert count_users(online.advance(140)) == [4, 4, 4, 5]


def test_a_group_with_too_few_members_left_is_silent():
    online = build(k=3)
    for instant, users in enumerate([FOUR, FOUR[:2], FOUR]):
        report(online, users, 100 + 10 * instant)
    assert [read(p) for p in online.advance(130)][1:] == [{}, {}]


def test_users_who_are_gone_are_forgotten(monkeypatch):
    monkeypatch.setattr("trajcloak.online.history.MOST_MOVEMENTS", 0)
    online = build(epoch=2)
    for instant in range(40):
        report(online, [f"{instant}-{n}" for n in range(50)], 100 + 10 * instant)
        online.advance(110 + 10 * instant)
    assert online._users.count <= 50 * 6


def test_groups_get_slack_for_the_absence_that_is_seen():
    random = np.random.default_rng(3)
    online = build(k=5, epoch=4, one_input=True, predictor="hold")
    ids = np.arange(200)
    sizes = []
    for instant in range(24):
        here = ids if instant % 4 == 0 else ids[random.random(200) > 0.1]
        nothing = pa.nulls(len(here), pa.string())
        online.observe(
            pa.table(
                {
                    "user_id": here,
                    "time": np.full(len(here), 100 + 10 * instant),
                    "x": random.random(len(here)) * 16,
                    "y": random.random(len(here)) * 16,
                    "category": nothing,
                    "detail": nothing,
                }
            )
        )
        for published in online.advance(110 + 10 * instant):
            sizes.append(len(published.users) and int(published.users.min()))
            if instant == 20:
                first = len(published.users)
            if instant > 20:
                assert len(published.users) >= 0.8 * first
    assert sizes[0] == 5
    assert sizes[20] >= 8


def test_a_predictor_of_ones_own():
    asked = []

    class Still:
        def predict(self, history, users, length, num_futures, *, threads=1):
            asked.append((len(users), length))
            return np.repeat(history.frames[-1, users][:, None, None], length, axis=2)

    online = build(predictor=Still())
    report(online, FOUR, 100)
    assert count_users(online.advance(110)) == [4]
    assert asked == [(4, 2)]


def test_requests_off_the_vocabulary_are_withheld():
    online = build(vocabulary={"category": ["food"], "detail": []})
    report(online, FOUR, 100)
    ask(online, "a", 100)
    ask(online, "b", 100, "secret")
    assert list_requests(online.advance(110)) == [["food"]]
    with pytest.raises(OptionError, match="vocabulary"):
        build(vocabulary={"other": []})


def test_with_one_input_requests_come_with_reports():
    with pytest.raises(OptionError, match="without a report"):
        ask(build(one_input=True), "a", 100)


@pytest.mark.parametrize("first", [[None, None], ["tea", None], [1, None], [2.5, None]])
@pytest.mark.parametrize("second", [[None, None], ["food", None], [5, 6], [True, None]])
@pytest.mark.parametrize("one_input", [True, False])
def test_types_of_tables_do_not_matter(one_input, first, second):
    """That a table holds no request must not be seen by a refusal."""
    online = build(one_input=one_input)
    sent = []
    for users, values in ((["a", "b"], first), (["c", "d"], second)):
        attributes = {"category": values, "detail": [None, None]}
        lines = {"user_id": users, "time": [100, 100], "x": [1.5, 2.5], "y": [1.5, 2.5]}
        online.observe(pa.table({**lines, **attributes} if one_input else lines))
        if not one_input:
            online.ask(pa.table({"user_id": users, "time": [100, 100], **attributes}))
        sent += [str(value).replace("True", "true") for value in values if value is not None]
    (requests,) = list_requests(online.advance(110))
    assert requests == sorted(sent)


def test_ids_of_requests_may_be_numbers_or_text():
    online = build()
    report(online, [7, 8, 9], 100)
    ask(online, 7, 100, "one")
    ask(online, "8", 100, "two")
    ask(online, "stranger", 100, "three")
    assert list_requests(online.advance(110)) == [["one", "two"]]


def carry(online, rows):
    """Report with one input; a row is user, time, place and request."""
    users, times, places, requests = zip(*rows, strict=True)
    online.observe(
        pa.table(
            {
                "user_id": users,
                "time": times,
                "x": [place + 0.5 for place in places],
                "y": [place + 0.5 for place in places],
                "category": pa.array(requests, pa.string()),
                "detail": pa.nulls(len(rows), pa.string()),
            }
        )
    )


@pytest.mark.parametrize("times", list(product([100, 104, 107], repeat=3)))
def test_one_input_the_last_row_of_a_user_counts_if_there_is_one(times):
    """Of rows with these times in any order and in any pieces; two last rows: absent."""
    rows = [("a", time, n, f"of row {n}") for n, time in enumerate(times)]
    others = [(user, 100, 1, None) for user in "bcd"]
    is_one = times.count(max(times)) == 1
    place = times.index(max(times)) if is_one else 1
    expected = ([min(place, 1)] * 2, [max(place, 1) + 1] * 2, 4 if is_one else 3)
    for order in permutations(rows):
        for cut in range(1, 4):
            online = build(k=3, one_input=True)
            carry(online, [*others, *order[:cut]])
            if order[cut:]:
                carry(online, order[cut:])
            (published,) = online.advance(110)
            assert list_requests([published]) == [[f"of row {place}"] if is_one else []]
            (cloak,), (users,) = published.cloaks.tolist(), published.users.tolist()
            assert (cloak[:2], cloak[2:], users) == expected


def test_one_input_in_all_worlds_each_present_user_may_be_the_only_sender():
    """Contents of rows that are not the last, or not the only last, change no byte."""
    rows = [
        ("a", 101, 1),
        ("a", 105, 2),
        ("b", 103, 3),
        ("c", 104, 4),
        ("c", 104, 4),
        ("d", 102, 5),
    ]
    counting = {"a": 1, "b": 2, "d": 5}
    only_senders = {}
    for world in product([None, "food"], repeat=len(rows)):
        online = build(k=3, one_input=True)
        carry(online, [(*row, sent) for row, sent in zip(rows, world, strict=True)])
        (published,) = online.advance(110)
        seen = (str(published.bundles.to_pylist()), *list_requests([published])[0])
        assert set(seen[1:]) == {world[row] for row in counting.values()} - {None}
        alone = only_senders.setdefault(seen, {value: set() for value in seen[1:]})
        for value in alone:
            senders = [user for user, row in counting.items() if world[row] == value]
            if len(senders) == 1:
                alone[value].add(senders[0])
    assert sorted(map(list, only_senders.values())) == [[], ["food"]]
    assert all(len(users) == 3 for alone in only_senders.values() for users in alone.values())


@pytest.mark.parametrize("seed", range(3))
def test_reports_of_later_instants_may_come_early(seed, monkeypatch):
    """Those who report first at an open instant change nothing that is published before."""
    monkeypatch.setattr("trajcloak.online.history.MOST_MOVEMENTS", 200)
    random = np.random.default_rng(seed)
    place, step = random.integers(0, 16, (20, 2)), random.integers(-2, 3, (20, 2))
    instants = []
    for instant in range(12):
        place, step = (place + step) % 16, np.where(random.random((20, 1)) < 0.3, -step, step)
        strangers = 40 if instant % 3 == 1 else 0
        users = [*map(str, range(20)), *(f"{instant}-{n}" for n in range(strangers))]
        here = np.concatenate([place, random.integers(0, 16, (strangers, 2))]) + 0.5
        times = np.full(len(users), 100 + 10 * instant)
        instants.append(
            pa.table({"user_id": users, "time": times, "x": here[:, 0], "y": here[:, 1]})
        )
    published = []
    for ahead in (0, 1):
        online = build(k=3)
        found = []
        for instant, reports in enumerate([*instants, None]):
            if reports is not None:
                online.observe(reports)
            found += online.advance(100 + 10 * (instant + 1 - ahead))
        published.append([p.bundles.to_pylist() for p in found])
    late, early = published
    assert early == late[: len(early)]
    assert len(early) == 12


@pytest.mark.parametrize("name", ["user_id", "time", "x", "y", "lon", "lat"])
def test_who_was_where_is_no_request(name):
    with pytest.raises(OptionError, match=f"'{name}' also holds"):
        OnlineAnonymizer(OnlineOptions(k=2, every=10, epoch=3), REGION, [name], origin=0)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"k": 1}, "k is 1"),
        ({"k": True}, "k is True"),
        ({"every": 0}, "every is 0"),
        ({"epoch": 0}, "epoch is 0"),
        ({"lag": 3}, "shorter than the epoch"),
        ({"late": -1}, "late is -1"),
        ({"parts": 1}, "parts is 1"),
        ({"parts": 3}, "at most k"),
        ({"hold": 1, "one_input": True}, "two inputs"),
        ({"predictor": "crystal ball"}, "predictor is"),
        ({"rare": "other"}, "rare is"),
        ({"rare_below": 0}, "rare_below is 0"),
    ],
)
def test_options_that_cannot_be_used(options, words):
    with pytest.raises(OptionError, match=words) as raised:
        build(**options)
    assert "; expected" in str(raised.value)


GOOD = {"user_id": ["a", "b"], "time": [100, 101], "x": [1.5, 2.5], "y": [1.5, 2.5]}
SENT = {"category": ["food", "food"], "detail": ["one", "two"]}
BAD = [
    ({"user_id": None}, r"no column 'user_id'; expected one; name the columns user_id, time"),
    ({"user_id": [1.0, 2.0]}, r"'user_id' holds double; expected whole numbers or text"),
    ({"user_id": [b"a", b"b"]}, r"'user_id' holds binary; expected whole numbers or text"),
    ({"time": [1.0, 2.0]}, r"'time' holds double; expected whole numbers .* unit of every="),
    ({"time": pa.array([1, 2], pa.timestamp("s"))}, r"'time' holds timestamp"),
    ({"time": pa.array([1, 2], pa.uint64())}, r"'time' holds uint64"),
]
BAD_REPORTS = [
    *BAD,
    ({"x": ["1.5", "2.5"]}, r"the reports: column 'x' holds string; expected numbers; convert"),
    ({"y": None}, r"no column 'y'"),
    ({"user_id": ["a", None]}, r"row 1: column 'user_id' is empty, as in 1 of 2 rows"),
    ({"time": [None, None]}, r"row 0: column 'time' is empty, as in 2 of 2 rows"),
    ({"user_id": pa.array([1, 2**63], pa.uint64())}, r"numbers of 2\^63 or more"),
]


def change(columns, changes):
    return pa.table({n: v for n, v in {**columns, **changes}.items() if v is not None})


@pytest.mark.parametrize(("changes", "message"), BAD_REPORTS)
@pytest.mark.parametrize("one_input", [True, False])
def test_bad_reports_are_refused_and_nothing_of_them_is_used(changes, message, one_input):
    online = build(one_input=one_input)
    columns = {**GOOD, **SENT} if one_input else GOOD
    with pytest.raises(InputError, match=message):
        online.observe(change(columns, changes))
    assert online.clock is None
    assert online.counts.total() == 0
    assert count_users(online.advance(110)) == [0]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        *BAD,
        ({"detail": None}, r"no column 'detail'"),
        ({"detail": [["one"], ["two"]]}, r"the requests: column 'detail' holds list"),
        ({"detail": [b"one", b"\xff"]}, r"'detail' holds binary; expected text, numbers"),
        ({"detail": pa.array([b"one", b"\xff"], pa.binary_view())}, r"'detail' holds binary_view"),
        (
            {"detail": pa.array([b"a" * 16, b"\xff" * 16], pa.uuid())},
            r"'detail' holds extension<arrow.uuid>",
        ),
    ],
)
@pytest.mark.parametrize("num_rows", [0, 2])
def test_requests_are_refused_for_their_types_alone(changes, message, num_rows):
    table = change({**GOOD, **SENT}, changes)
    with pytest.raises(InputError, match=message):
        build().ask(table.slice(0, num_rows))


def test_what_is_no_table_is_refused():
    with pytest.raises(InputError, match=r"are of type dict; expected a table of pyarrow"):
        build().observe(GOOD)
    twice = pa.table([*map(pa.array, GOOD.values()), pa.array([1, 2])], [*GOOD, "x"])
    with pytest.raises(InputError, match=r"2 columns 'x'; expected one"):
        build().observe(twice)


def test_requests_without_a_user_or_a_time_are_counted():
    online = build()
    report(online, FOUR, 100)
    for users, times in ((["a", None], [None, 100]), ([None], [None]), (["b"], [100])):
        attributes = {"category": ["food"] * len(users), "detail": pa.nulls(len(users))}
        online.ask(pa.table({"user_id": users, "time": times, **attributes}))
    assert list_requests(online.advance(110)) == [["food"]]
    assert (online.counts["no usable user id"], online.counts["no usable time"]) == (2, 1)


def test_places_of_whole_numbers_or_null():
    online = build()
    places = {"x": [1, 2, None], "y": pa.array([1, 2, 3], pa.int8())}
    online.observe(pa.table({"user_id": [1, 2, 3], "time": [100] * 3, **places}))
    online.observe(pa.table({name: [] for name in GOOD}))
    assert online.counts["outside the region"] == 1
    assert count_users(online.advance(110)) == [2]


@pytest.mark.parametrize(
    "ids",
    [
        pa.array(FOUR, pa.large_string()),
        pa.array(FOUR, pa.string_view()),
        pa.array(FOUR).dictionary_encode(),
    ],
)
def test_text_of_any_type(ids):
    online = build()
    report(online, ids, 100)
    ask(online, "a", 100)
    assert list_requests(online.advance(110)) == [["food"]]


def test_ids_are_of_one_kind():
    online = build()
    report(online, [1, 2, 3], 100)
    with pytest.raises(InputError, match=r"holds string, and before it held whole numbers"):
        report(online, FOUR, 100)
    assert count_users(online.advance(110)) == [3]


@pytest.mark.parametrize(
    ("region", "message"),
    [
        (Region(0.0, 0.0, -1.0, 4), "no square"),
        (Region(0.0, 0.0, 0.0, 4), "no square"),
        (Region(np.nan, 0.0, 1.0, 4), "no square"),
        (Region(0.0, 0.0, 1.0, 0), "height is 0"),
        (Region(1e9, 0.0, 1.0, 31), "height"),
    ],
)
def test_regions_that_cannot_be_used(region, message):
    with pytest.raises(OptionError, match=message):
        OnlineAnonymizer(OnlineOptions(k=2, every=10, epoch=3), region, NAMES, origin=0)


def test_no_more_instants_are_closed_than_make_sense():
    online = build(late=5)
    with pytest.raises(OptionError, match=r"now is 10{15}, which would close more than 100,000"):
        online.advance(10**15)
    report(online, FOUR, 100)
    assert count_users(online.advance(115)) == [4]
