"""Attributes that look like identifiers or places are refused; ordinary ones are not."""

import datetime
import uuid
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trajcloak as tc
from request_values.logs import check, draw_categories, read_columns
from zoo import examples

SEEDS = st.integers(0, 2**32 - 1)


def spell_phone(rng):
    a, b, c = rng.integers(200, 999), rng.integers(100, 999), rng.integers(1000, 9999)
    forms = [f"+49 {a} {b}{c}", f"({a}) {b}-{c}", f"{a}-{b}-{c}", f"0{a} {b}{c}", f"0{a}{b}{c}"]
    return str(rng.choice(forms))


def spell_ip(rng):
    a, b, c, d = rng.integers(0, 256, 4)
    return str(
        rng.choice(
            [
                f"{a}.{b}.{c}.{d}",
                f"host {a}.{b}.{c}.{d}:80",
                f"2001:db8::{a:x}:{b:x}",
                f"2001:db8:0:0:0:{a:x}:{b:x}:{c:x}",
                f"00:1B:44:11:{a:02X}:{b:02x}",
            ]
        )
    )


def spell_token(rng):
    token = uuid.UUID(bytes=rng.bytes(16))
    return str(rng.choice([str(token), token.hex, token.hex.upper()[:20], f"id={token}"]))


def spell_place(rng):
    lat, lon = rng.uniform(-80, 80), rng.uniform(-170, 170)
    forms = [
        f"{lat:.2f}, {lon:.2f}",
        f"{lat:.6f} {lon:.6f}",
        f"at {lat:.3f};{lon:.3f}",
        f"geo:{lat:.4f},{lon:.4f}",
        f"POINT ({lon:.0f} {lat:.0f})",
        f"{abs(lat):.0f}° {rng.integers(60)}' N",
    ]
    return str(rng.choice(forms))


def spell_url(rng):
    number = rng.integers(10_000, 99_999)
    forms = [f"https://a.example/u/{number}", "http://a.example/?q=me", "ftp://me@a.example/"]
    return str(rng.choice(forms))


def spell_json(rng):
    return str(rng.choice(['{"a": 1}', ' {"b": [1]}', '["a", "b"]', "[1, 2]", "{}", '[{"a": 1}]']))


SPELLED = {
    "e-mail addresses": lambda rng: f"someone.{rng.integers(10**6)}@mail.example.org",
    "phone numbers": spell_phone,
    "network addresses": spell_ip,
    "tokens": spell_token,
    "web addresses with ids": spell_url,
    "coordinates": spell_place,
    "JSON": spell_json,
    "free text": lambda rng: "so " * 70 + str(rng.integers(10**6)),
}


@examples(60)
@given(SEEDS, st.integers(1, 250), st.integers(2, 60))
def test_ordinary_categories_pass(seed, num_categories, num_users):
    rng = np.random.default_rng(seed)
    n = max(10 * num_categories, 100)
    categories = draw_categories(rng, n, num_categories)
    check(
        read_columns(
            [f"user-{i:04d}" for i in rng.integers(0, max(num_users, 20), n)],
            (rng.uniform(0, 1000, n), rng.uniform(0, 1000, n)),
            category=pa.array(categories, mask=rng.random(n) < 0.5),
            grade=rng.integers(0, 10, n),
            price=np.round(rng.uniform(0, 20, n), 1),
            flag=rng.random(n) < 0.5,
            day=[datetime.date(2024, 5, 1 + int(i)) for i in rng.integers(0, 30, n)],
        )
    )


@pytest.mark.parametrize("looks_like", SPELLED)
@examples(25)
@given(SEEDS, st.integers(1, 20))
def test_what_is_spelt_like_an_identifier_is_refused(looks_like, seed, num_planted):
    """Even if it is one value among a thousand."""
    rng = np.random.default_rng(seed)
    what = draw_categories(rng, 1000, 20)
    for i in rng.choice(1000, num_planted, replace=False):
        what[i] = SPELLED[looks_like](rng)
    num_values = len(set(what)) - len(set(what) & set(draw_categories(rng, 5000, 20)))
    user = [f"user-{i % 50}" for i in range(1000)]
    log = read_columns(user, what=what)
    with pytest.raises(tc.InputError) as caught:
        check(log)
    message = str(caught.value)
    counts = f"{num_values} distinct values in {num_planted} requests"
    assert message.startswith("request column 'what' holds ")
    assert f"'what' holds {looks_like} ({counts})" in message
    assert message.endswith("publish it as it is with --allow COLUMN")
    assert not any(value in message for value in what if len(value) > 6 and value != "pharmacy")
    check(log, "what")


@examples(30)
@given(SEEDS, st.sampled_from(["int", "text", "float", "named"]))
def test_near_unique_values_are_refused(seed, kind):
    """Each user has a secret number, or every request has one."""
    rng = np.random.default_rng(seed)
    users, per_user = 300, int(rng.integers(1, 6))
    secret = rng.permutation(10_000)[:users]
    secret = np.repeat(secret, per_user)
    what = {
        "int": secret,
        "text": [f"n{number}" for number in secret],
        "float": secret * 1.25,
        "named": [f"{number // 100} {number % 100} street" for number in secret],
    }[kind]
    log = read_columns([f"user-{i // per_user}" for i in range(users * per_user)], what=what)
    with pytest.raises(tc.InputError, match=r"'what' holds near-unique values \(300 distinct"):
        check(log)
    check(log, "what")


@examples(30)
@given(SEEDS, st.booleans(), st.sampled_from(["x", "y"]), st.integers(2, 6), st.booleans())
def test_coordinates_of_the_row_are_refused(seed, geographic, axis, digits, as_text):
    rng = np.random.default_rng(seed)
    n = 400
    place = (rng.uniform(13, 14, n), rng.uniform(52, 53, n))
    if not geographic:
        place = tuple(1000 * value for value in place)
    what = np.round(place["xy".index(axis)], digits)
    if as_text:
        what = [f"{value:.{digits}f}" for value in what]
    user = [f"user-{i % 40}" for i in range(n)]
    log = read_columns(user, place, geographic, what=what)
    with pytest.raises(tc.InputError, match="'what' holds coordinates of the row's place"):
        check(log)
    check(log, "what")


def test_numbers_that_move_with_the_place_are_refused():
    """As coordinates in another unit do."""
    rng = np.random.default_rng(1)
    x, y = rng.uniform(0, 50, 500), rng.uniform(0, 50, 500)
    user = [f"user-{i % 40}" for i in range(500)]
    log = read_columns(user, (x, y), what=np.rint(700 - 3 * y).astype(np.int64))
    with pytest.raises(tc.InputError, match="'what' holds coordinates of the row's place"):
        check(log)


@examples(30)
@given(SEEDS, st.sampled_from([int, str, "text:{}", "User {} here", float]))
def test_the_own_id_is_refused_whatever_is_allowed(seed, form):
    rng = np.random.default_rng(seed)
    ids = 10**8 + rng.permutation(10**4)[:30]
    user = [int(ids[i]) for i in rng.integers(0, 30, 200)]
    what = [form.format(value) if isinstance(form, str) else form(value) for value in user]
    log = read_columns(user, what=what)
    for allow in ((), ("what",)):
        with pytest.raises(tc.InputError) as caught:
            check(log, *allow)
        assert f"holds the ids of {len(set(user))} of its senders" in str(caught.value)
        assert str(caught.value).endswith("expected no user ids in a release; leave out the column")
        assert not any(str(value) in str(caught.value) for value in user)


def test_text_ids_are_found_in_any_case():
    user = [f"Person{i % 20}" for i in range(100)]
    log = read_columns(user, what=[f" {value.upper()}" for value in user])
    with pytest.raises(tc.InputError, match="the ids of 20 of its senders"):
        check(log)


@pytest.mark.parametrize("num_users", [30, 150, 2000])
@pytest.mark.parametrize("first", [0, 100_000], ids=["short", "long"])
@pytest.mark.parametrize("form", ["{0} x {1}", "{1}/{0}", "request {2} of {1}, {0} kg"])
def test_the_own_id_is_found_among_other_numbers(num_users, first, form):
    """The more numbers there are, the more ids are among them by chance."""
    user = [first + i % num_users for i in range(4 * num_users)]
    what = [form.format(i % 3, u, i // num_users) for i, u in enumerate(user)]
    log = read_columns(user, what=what)
    for allow in ((), ("what",)):
        with pytest.raises(tc.InputError, match=f"the ids of {num_users:,} of its senders"):
            check(log, *allow)


def test_many_ids_of_others_are_found_among_other_numbers():
    rng = np.random.default_rng(3)
    user = 100_000 + rng.permutation(np.repeat(np.arange(150), 4))
    friend = rng.permutation(user)
    log = read_columns(user, what=[f"{i % 3} for {u}" for i, u in enumerate(friend)])
    with pytest.raises(tc.InputError, match="the ids of 150 users of the log"):
        check(log, "what")


STORED = {
    "decimal": lambda ids: pa.array(map(Decimal, ids), pa.decimal128(20, 0)),
    "money": lambda ids: pa.array(map(Decimal, ids), pa.decimal128(20, 2)),
    "wide": lambda ids: pa.array(map(Decimal, ids), pa.decimal256(60, 30)),
    "moment": lambda ids: pa.array(ids).cast(pa.timestamp("us", "UTC")),
    "duration": lambda ids: pa.array(ids).cast(pa.duration("ms")),
    "day": lambda ids: pa.array(ids, pa.int32()).cast(pa.date32()),
    "clock": lambda ids: pa.array(ids).cast(pa.time64("us")),
    "bytes": lambda ids: pa.array([f"by {i}".encode() for i in ids]),
}


@pytest.mark.parametrize("stored", STORED.values(), ids=STORED)
def test_ids_are_found_whatever_type_they_are_stored_as(stored):
    ids = [100_000 + 7919 * (i % 60) for i in range(240)]
    log = read_columns(ids, what=stored(ids))
    for allow in ((), ("what",)):
        with pytest.raises(tc.InputError, match="the ids of 60 of its senders"):
            check(log, *allow)
    friends = ids[1:] + ids[:1]
    with pytest.raises(tc.InputError, match="the ids of 60 users of the log"):
        check(read_columns(ids, what=stored(friends)), "what")


@pytest.mark.parametrize("is_bare", [False, True])
@pytest.mark.parametrize(
    "form",
    [str, str.upper, "by {}".format, lambda name: f"by {name}".upper(),
     lambda name: name.replace("-", ""), lambda name: str(uuid.UUID(name)).upper() + "!"],
    ids=["same", "upper", "inside", "upper inside", "bare", "dashed inside"],
)  # fmt: skip
def test_uuids_are_found_however_they_are_spelt(form, is_bare):
    rng = np.random.default_rng(5)
    ids = [uuid.UUID(bytes=rng.bytes(16)) for _ in range(20)]
    user = [(one.hex if is_bare else str(one)) for one in ids] * 3
    with pytest.raises(tc.InputError, match="the ids of 20"):
        check(read_columns(user, what=[form(name) for name in user]), "what")
    with pytest.raises(tc.InputError, match="the ids of 1 users of the log"):
        check(read_columns(user, what=[form(user[0])] + ["cafe"] * 59), "what")


HONEST = {
    "prices": lambda rng: f"{rng.integers(1, 60)}.{rng.integers(0, 100):02d} EUR",
    "families": lambda rng: f"{rng.integers(1, 5)} adults, {rng.integers(0, 5)} children",
    "streets": lambda rng: f"{rng.integers(1, 300)} Main Street, {rng.integers(10_000, 99_999)}",
    "phones": spell_phone,
    "orders": lambda rng: f"order {rng.integers(100_000, 999_999)}",
    "days": lambda rng: f"2024-{rng.integers(1, 13):02d}-{rng.integers(1, 29):02d}",
}


@pytest.mark.parametrize("draw", HONEST.values(), ids=HONEST)
@examples(10)
@given(SEEDS, st.sampled_from([100, 1000, 100_000, 10**6]))
def test_numbers_in_texts_are_ids_by_chance(draw, seed, size):
    """Ids and texts are drawn independently; about as many ids are found as expected by chance."""
    rng = np.random.default_rng(seed)
    ids = rng.permutation(size)[:100]
    user = ids[rng.integers(0, 100, 1000)]
    texts = [draw(rng) for _ in range(300)]
    log = read_columns(user, what=[texts[i] for i in rng.integers(0, 300, 1000)])
    check(log, "what")


@examples(10)
@given(SEEDS, st.sampled_from([100, 100_000, 10**6]))
def test_decimals_and_moments_are_ids_by_chance(seed, size):
    rng = np.random.default_rng(seed)
    user = rng.permutation(size)[:100][rng.integers(0, 100, 2000)]
    cents = rng.integers(100, 2000, 2000)
    seconds = 60 * rng.integers(0, 100, 2000)
    check(
        read_columns(
            user,
            price=pa.array([Decimal(int(c)) / 100 for c in cents], pa.decimal128(9, 2)),
            day=pa.array((19_000 + cents % 365).astype(np.int32)).cast(pa.date32()),
            at=pa.array(1_700_000_000_000 + 1000 * seconds).cast(pa.timestamp("ms")),
            waited=pa.array(1000 * seconds).cast(pa.duration("ms")),
        ),
        "price",
    )


def test_ids_of_other_users_are_refused():
    rng = np.random.default_rng(3)
    user = [f"device-{i:03d}" for i in rng.integers(0, 40, 300)]
    friend = [f"device-{i:03d}" for i in rng.integers(0, 40, 300)]
    with pytest.raises(tc.InputError, match="the ids of 40 users of the log"):
        check(read_columns(user, what=friend), "what")


@examples(40)
@given(SEEDS, st.booleans())
def test_small_numbers_are_ids_by_chance(seed, has_favourites):
    """Users 0 to 39 send numbers 0 to 9."""
    rng = np.random.default_rng(seed)
    user = rng.integers(0, 40, 400)
    what = rng.integers(0, 10, 40)[user] if has_favourites else rng.integers(0, 10, 400)
    check(read_columns(user, what=what))


def test_many_texts_of_many_words_are_free_text():
    rng = np.random.default_rng(4)
    what = [" ".join(rng.choice(["we", "went", "to", "town", "and", "back"], 8)) for _ in range(90)]
    user = [f"user-{i % 30}" for i in range(900)]
    log = read_columns(user, what=what * 10)
    with pytest.raises(tc.InputError, match=r"'what' holds free text \(\d\d distinct"):
        check(log)
    few = ["a category of quite many words", "and one more of this kind"]
    check(read_columns(user, what=few * 450))


def test_every_column_is_named_at_once():
    user = [f"user-{i % 30}" for i in range(300)]
    mail = [f"{i}@example.org" for i in range(300)]
    log = read_columns(user, one=mail, fine=["cafe"] * 300, other=["10.0.0.1"] * 300)
    with pytest.raises(tc.InputError) as caught:
        check(log)
    assert "'one' holds e-mail addresses (300 distinct values in 300 requests)" in str(caught.value)
    assert "'other' holds network addresses (1 distinct values in 300" in str(caught.value)
    assert "fine" not in str(caught.value)
    with pytest.raises(tc.InputError, match="request column 'other' holds"):
        check(log, "one")
    check(log, "one", "other")


def test_allow_names_an_attribute():
    with pytest.raises(tc.OptionError, match="'why' is allowed but is no request column"):
        check(read_columns(["u"], what=["cafe"]), "why")


@pytest.mark.parametrize(
    "values",
    [
        ["2024-05-06", "06.05.2024", "01/02/2024"],
        ["12:30:45", "08:00-17:00", "9:00"],
        ["12345", "12345-6789", "SW1A 1AA", "007"],
        ["20°C", "-5 °C", "20-25 °C"],
        ["3.50", "12.99 EUR", "9.99-19.99", "1,000.50"],
        ["[none]", "{other}", "(unknown)", "n/a", "-", ""],
        ["https://example.org/shop", "www.example.org"],
        ["@home", "me@work", "a@b"],
        ["v1.2.3", "1.10", "section 3.2.1"],
        ["beef", "decade", "facade", "cafe::menu"],
        ["Café & Bar", "Ärzte/Kliniken", "雑貨", "🍕"],
    ],
    ids=lambda values: values[0],
)
def test_ordinary_spellings_pass(values):
    user = [f"user-{i % 30}" for i in range(300)]
    check(read_columns(user, what=[values[i % len(values)] for i in range(300)]))


def test_types_without_patterns_pass():
    user = [f"user-{i % 30}" for i in range(300)]
    check(
        read_columns(
            user,
            at=pa.array([datetime.datetime(2024, 1, 1)] * 300),
            none=pa.nulls(300, pa.string()),
            nan=pa.array([float("nan"), float("inf"), 1.0] * 100),
            code=["x"] * 300,
        )
    )


@pytest.mark.parametrize("type_", [pa.binary(), pa.large_binary(), pa.binary(2)])
def test_bytes_are_refused_unless_allowed(type_):
    log = read_columns(
        [f"user-{i % 30}" for i in range(300)], raw=pa.array([b"\xff?"] * 300, type_)
    )
    with pytest.raises(tc.InputError, match=r"'raw' holds bytes, which may mean anything"):
        check(log)
    check(log, "raw")


def test_ids_in_bytes_are_refused():
    user = [f"user-{i % 30:02d}" for i in range(300)]
    raw = pa.array([name.encode() for name in user])
    with pytest.raises(tc.InputError, match="the ids of 30 of its senders"):
        check(read_columns(user, raw=raw), "raw")


def test_a_log_without_requests_passes():
    check(read_columns(["u", "v"]))
    check(read_columns(["u", "v"], what=pa.nulls(2, pa.string())))
