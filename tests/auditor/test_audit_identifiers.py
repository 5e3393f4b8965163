import uuid
from datetime import date, datetime, timedelta
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import trajcloak as tc
from auditor.expected import list_failed
from reference.release_by_hand import geographic, make, planar, sort_requests
from trajcloak.auditor import audit
from trajcloak.auditor.id_checks import count_numbers
from trajcloak.auditor.search import Words
from trajcloak.options import LogColumns


def with_ids(example, rename):
    """Rename all users of an example."""
    for row in [*example.log, *example.policy]:
        row["user_id"] = rename(row["user_id"])
    example.columns["user_id"] = _find_id_type(example.log)
    return example


def _find_id_type(log):
    return pa.string() if isinstance(log[0]["user_id"], str) else pa.int64()


def planted_planar(attribute, value, kind, rename=None, **changes):
    """Make the planar example anew, with another value of an attribute in each request."""
    base = planar(**changes)
    rows = [dict(row) for row in base.log]
    for row in rows:
        if any(row.get(name) is not None for name in base.attributes):
            row[attribute] = value(row)
        if rename is not None:
            row["user_id"] = rename(row["user_id"])
    return make(
        rows,
        base.columns | {"user_id": _find_id_type(rows), attribute: kind},
        k=changes.get("k", 3),
        attributes=base.attributes,
        every=1,
        region=base.manifest["region"],
        height=base.manifest["height"],
        group=changes.get("group"),
    )


def geographic_with(rows):
    """Make the geographic example of other rows."""
    base = geographic()
    return make(
        rows,
        base.columns,
        k=4,
        attributes=base.attributes,
        every="60s",
        max_gap="120s",
        length=4,
        suppressed=[("device-0005", 0)],
    )


def test_short_ids_in_a_column_of_numbers(find_failed):
    example = planted_planar("amount", lambda row: row["user_id"], pa.int32())
    assert find_failed(example) == {"user ids"}


def test_short_ids_in_a_column_of_floats(find_failed):
    example = planted_planar("amount", lambda row: float(row["user_id"]), pa.float64())
    assert find_failed(example) == {"user ids"}


def test_short_ids_in_a_column_of_text(find_failed):
    example = planted_planar("category", lambda row: f"sent by {row['user_id']}", pa.string())
    assert find_failed(example) == {"user ids"}


def test_short_ids_where_bundles_are_few(find_failed):
    def group(_, users):
        return [users[:12], users[12:24], users[24:]]

    example = planted_planar("amount", lambda row: row["user_id"], pa.int32(), group=group)
    assert find_failed(example) == {"user ids"}


def test_numbers_that_are_no_ids_pass(find_failed):
    example = planted_planar(
        "amount", lambda row: (row["user_id"] * 7 + row["time"]) % 36, pa.int32()
    )
    assert find_failed(example) == set()


def test_text_id_in_one_request(find_failed):
    example = geographic()
    row = next(row for row in example.log if row.get("query"))
    row["query"] = f"call {row['user_id']} back"
    assert find_failed(geographic_with(example.log)) == {"user ids"}


@pytest.mark.parametrize("file", ["bundles.parquet", "requests.parquet"])
def test_text_id_in_parquet_metadata(find_failed, file):
    example = geographic()
    example.extra_metadata[file] = {"note": "from device-0003"}
    assert find_failed(example) == {file.split(".")[0] + " file", "user ids"}


def test_text_id_in_the_manifest(find_failed):
    example = geographic()
    example.manifest["software"] = "trajcloak of device-0003"
    assert find_failed(example) == {"manifest", "user ids"}


def test_escaped_text_id_in_the_manifest(find_failed):
    example = with_ids(geographic(), lambda user: user.replace("device", "gerät"))
    example.manifest["algorithm"] = "gerät-0003"
    assert find_failed(example) == {"manifest", "user ids"}


def test_text_id_as_a_column_name(find_failed):
    example = geographic()
    example.extra_columns["requests.parquet"] = {"device-0003": pa.nulls(len(example.requests))}
    assert {"requests file", "user ids"} <= find_failed(example)


def test_text_id_as_a_file_name(find_failed):
    failed = find_failed(
        geographic(), lambda paths: (paths.release / "device-0003.txt").write_text("")
    )
    assert failed == {"release folder", "user ids"}


def test_text_id_behind_the_last_column(find_failed):
    def hide(paths):
        path = paths.release / "requests.parquet"
        content = path.read_bytes()
        length = int.from_bytes(content[-8:-4], "little") + 8
        path.write_bytes(content[:-length] + b"device-0003" + content[-length:])

    assert find_failed(geographic(), hide) == {"requests file", "user ids"}


def test_long_number_in_a_request(find_failed):
    example = with_ids(geographic(), lambda user: 7_000_000_000 + int(user[-4:]) * 7919)
    row = next(row for row in example.requests if row["query"])
    row["query"] = "order 7000023757 (express)"
    sort_requests(example)
    assert find_failed(example) == {"requests", "user ids"}


def test_long_number_in_metadata(find_failed):
    example = with_ids(geographic(), lambda user: 7_000_000_000 + int(user[-4:]) * 7919)
    example.manifest["software"] = "trajcloak 7000023757"
    assert find_failed(example) == {"manifest", "user ids"}


def test_dense_numbers_in_requests_are_chance(find_failed):
    example = with_ids(geographic(), lambda user: 100_000 + int(user[-4:]))
    assert find_failed(example) == set()


@pytest.mark.parametrize("first", [100_000, 7])
def test_own_id_among_the_numbers_of_a_text(find_failed, first):
    example = planted_planar(
        "category",
        lambda row: f"{row['user_id'] % 3} x {first + row['user_id']} y",
        pa.string(),
        rename=lambda user: first + user,
    )
    assert find_failed(example) == {"user ids"}


def test_many_ids_in_texts_are_no_chance(find_failed):
    example = planted_planar(
        "category",
        lambda row: f"call {100_000 + row['user_id'] * 17 % 37}",
        pa.string(),
        rename=lambda user: 100_000 + user,
    )
    assert find_failed(example) == {"user ids"}


def test_many_ids_in_the_manifest_are_no_chance(find_failed):
    example = with_ids(planar(), lambda user: 100_000 + user)
    example.manifest["software"] = "trajcloak " + " ".join(str(100_000 + u) for u in range(1, 37))
    assert find_failed(example) == {"manifest", "user ids"}


def test_few_ids_in_texts_of_many_numbers_are_chance():
    numbers = Words(pa.array([str(100_000 + 7 * number) for number in range(1000)]))
    few = " ".join(str(100_000 + number) for number in range(20)).encode()
    assert numbers.find_numbers_in(few)[1] > 0.01
    assert count_numbers(numbers, few) == 0
    assert count_numbers(numbers, few + b" 100028") == 4
    assert count_numbers(numbers, b"100028 x 5") == 1
    assert count_numbers(numbers, b"100028 x 5", b" ".join([few] * 2)) == 0
    assert count_numbers(numbers, b"100028", vocabulary=b"100028") == 0


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.decimal128(20, 0), Decimal),
        (pa.decimal128(20, 3), Decimal),
        (pa.timestamp("us"), lambda user: datetime(1970, 1, 1) + timedelta(microseconds=user)),
        (pa.timestamp("ms"), lambda user: datetime(1970, 1, 1) + timedelta(seconds=user)),
        (pa.duration("ms"), lambda user: timedelta(milliseconds=user)),
        (pa.date32(), lambda user: date(1970, 1, 1) + timedelta(days=user)),
    ],
)
def test_ids_in_disguise(find_failed, kind, value):
    example = planted_planar("amount", lambda row: value(row["user_id"]), kind)
    assert find_failed(example) == {"user ids"}


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.binary(12)])
@pytest.mark.parametrize("spell", ["Device-{:05}".format, "D{}".format])
def test_ids_in_bytes(find_failed, kind, spell):
    def choose(row):
        # The least and the greatest value, which are in the statistics, too, are no ids.
        user = row["user_id"]
        return ["!", "~", spell(user)][user % 3].encode().ljust(12, b"\0")

    example = planted_planar("category", choose, kind, rename=spell)
    assert find_failed(example) == {"user ids"}


@pytest.mark.parametrize("respell", [str.upper, lambda user: user.replace("-", "").title()])
@pytest.mark.parametrize("plain", [True, False])
def test_tokens_respelled(find_failed, respell, plain):
    def rename(user):
        token = uuid.UUID(int=0xABCDEF << 100 | int(user[-4:]))
        return str(token) if plain else token.hex

    example = with_ids(geographic(), rename)
    row = next(row for row in example.requests if row["query"])
    row["query"] = f"for {respell(str(uuid.UUID(example.policy[0]['user_id'])))}"
    sort_requests(example)
    assert find_failed(example) == {"requests", "user ids"}


def test_ids_that_are_words_of_the_format_pass(find_failed):
    names = ["bundles", "Lambert", "geometry", "origin", "parquet", "instant"]
    names += [f"person-{number}" for number in range(14)]
    example = with_ids(geographic(), lambda user: names[int(user[-4:])])
    assert find_failed(example) == set()


def test_id_that_is_a_word_of_the_time_zone_passes(tmp_path):
    log, release, policy = (tmp_path / name for name in ("log.parquet", "release", "policy"))
    names = ["berlin", "EUROPE", "max_suppressed", *(f"person-{number}" for number in range(17))]
    table = {
        "user_id": names * 2,
        "time": [datetime(2024, 5, 1, 8, minute) for minute in (0, 1) for _ in names],
        "x": [float(number) for number in range(20)] * 2,
        "y": [float(number) for number in range(20)] * 2,
        "what": ["a"] * 40,
    }
    pq.write_table(pa.table(table), log)
    columns = LogColumns(requests=("what",), tz="Europe/Berlin")
    tc.anonymize(tc.read_log(log, columns), k=5).write(release, policy=policy)
    assert list_failed(audit(log, release, policy)) == set()


def test_words_are_found_wherever_they_stand():
    words = Words(pa.array(["alpha", "beta", "gamma", "β-ray", "delta", ""]))
    found = words.find_in("alphabeta β-rays gamm".encode())
    assert found.tolist() == [True, True, False, True, False, False]
    assert not Words(pa.array([], pa.string())).find_in(b"alpha").any()
    assert not words.find_in(b"").any()


def test_words_are_found_across_chunks(monkeypatch):
    monkeypatch.setattr("trajcloak.auditor.search.CHUNK", 8)
    words = Words(pa.array(["needle", "haystack-and-more", "absent"]))
    text = b"x" * 5 + b"needle" + b"y" * 6 + b"haystack-and-more"
    assert words.find_in(text).tolist() == [True, True, False]


def test_numbers_are_found_whole():
    words = Words(pa.array(["123456", "777777"]))
    found, by_chance = words.find_numbers_in(b"a123456b 7777777 77777")
    assert found.tolist() == [True, False]
    assert by_chance == pytest.approx(2e-6)
