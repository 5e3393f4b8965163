"""What is hidden in Parquet files beside their values, one by one."""

import base64
import zlib
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import trajcloak as tc
from reference.release_by_hand import geographic, planar
from trajcloak.auditor import audit
from trajcloak.options import LogColumns
from trajcloak.parquet.thrift import (
    BINARY,
    I64,
    LIST,
    STRUCT,
    Field,
    Items,
    decode_struct,
    encode_struct,
)

ROW_GROUPS, METADATA, CREATED_BY = 4, 5, 6
COLUMNS, CHUNK, CHUNK_METADATA, STATISTICS = 1, 3, 8, 12
NULLS, DISTINCT, MAX, MIN = 3, 4, 5, 6
UNKNOWN = 100


def rewrite(path, change, hidden=b""):
    """Change the footer of a file, and put bytes in front of it."""
    content = path.read_bytes()
    length = int.from_bytes(content[-8:-4], "little")
    footer = decode_struct(content[-8 - length : -8])
    change(footer)
    spelled = encode_struct(dict(sorted(footer.items())))
    tail = spelled + len(spelled).to_bytes(4, "little") + b"PAR1"
    path.write_bytes(content[: -8 - length] + hidden + tail)


def find_chunk(footer, number):
    return footer[ROW_GROUPS].value.items[0][COLUMNS].value.items[number][CHUNK].value


def put(struct, number, field):
    """Set a field; fields are written in the order of their numbers."""
    struct[number] = field
    ordered = dict(sorted(struct.items()))
    struct.clear()
    struct.update(ordered)


def note(key, value):
    return {1: Field(BINARY, key), 2: Field(BINARY, value)}


@pytest.mark.parametrize("file", ["bundles", "requests"])
def test_bytes_before_the_footer(find_failed, file):
    def hide(paths):
        users = " ".join(row["user_id"] for row in example.policy)
        rewrite(paths.release / f"{file}.parquet", lambda _: None, zlib.compress(users.encode()))

    example = geographic()
    assert find_failed(example, hide) == {f"{file} file"}


def test_bytes_between_columns(find_failed):
    def hide(paths):
        path = paths.release / "requests.parquet"
        content = path.read_bytes()
        path.write_bytes(content[:4] + b"jane" + content[4:])

        def move(footer):
            for number in range(5):
                chunk = find_chunk(footer, number)
                for offset in (9, 11):
                    chunk[offset].value += 4

        rewrite(path, move)

    assert find_failed(planar(), hide) == {"requests file"}


def test_another_writer(find_failed):
    def change(footer):
        footer[CREATED_BY] = Field(BINARY, b"jane doe is in bundle 3")

    failed = find_failed(planar(), lambda p: rewrite(p.release / "requests.parquet", change))
    assert failed == {"requests file"}


def test_metadata_of_a_piece(find_failed):
    def change(footer):
        notes = Field(LIST, Items(STRUCT, [note(b"who", b"jane")]))
        put(find_chunk(footer, 3), CHUNK_METADATA, notes)

    failed = find_failed(planar(), lambda p: rewrite(p.release / "requests.parquet", change))
    assert failed == {"requests file"}


@pytest.mark.parametrize(
    "inner",
    [
        lambda schema: schema.with_metadata({"who": "jane"}),
        lambda schema: pa.schema([f.with_metadata({"who": "jane"}) for f in schema]),
    ],
)
def test_another_arrow_schema(find_failed, inner):
    def damage(paths):
        path = paths.release / "requests.parquet"
        encoded = base64.b64encode(inner(pq.read_schema(path)).serialize().to_pybytes())

        def change(footer):
            footer[METADATA] = Field(LIST, Items(STRUCT, [note(b"ARROW:schema", encoded)]))

        rewrite(path, change)

    assert find_failed(planar(), damage) == {"requests file"}


@pytest.mark.parametrize(
    ("file", "number", "field", "value"),
    [
        ("requests", 3, MAX, Field(BINARY, b"zzzz")),
        ("requests", 3, MIN, Field(BINARY, b"aaaa")),
        ("requests", 3, NULLS, Field(I64, 12345)),
        ("requests", 3, DISTINCT, Field(I64, 12345)),
        ("requests", 4, MAX, Field(BINARY, (100_000).to_bytes(8, "little"))),
        ("bundles", 3, MAX, Field(BINARY, bytes(8))),
        ("bundles", 3, MIN, Field(BINARY, (2**63 - 1).to_bytes(8, "little"))),
        ("bundles", 8, MAX, Field(BINARY, bytes(93))),
    ],
)
def test_wrong_statistics(find_failed, file, number, field, value):
    def change(footer):
        put(find_chunk(footer, number)[STATISTICS].value, field, value)

    failed = find_failed(planar(), lambda p: rewrite(p.release / f"{file}.parquet", change))
    assert failed == {f"{file} file"}


@pytest.mark.parametrize("file", ["bundles", "requests"])
@pytest.mark.parametrize(
    "find",
    [
        lambda footer: footer,
        lambda footer: find_chunk(footer, 2),
        lambda footer: find_chunk(footer, 2)[STATISTICS].value,
    ],
)
def test_fields_that_parquet_does_not_have(find_failed, file, find):
    def change(footer):
        put(find(footer), UNKNOWN, Field(BINARY, zlib.compress(b"jane, joe, jim")))

    failed = find_failed(planar(), lambda p: rewrite(p.release / f"{file}.parquet", change))
    assert failed == {f"{file} file"}


@pytest.mark.parametrize("name", ["bundles.parquet", "requests.parquet", "manifest.json"])
def test_links(find_failed, name):
    def move(paths):
        elsewhere = paths.release.parent / name
        (paths.release / name).rename(elsewhere)
        (paths.release / name).symlink_to(elsewhere)

    assert find_failed(planar(), move) == {"release folder"}


@pytest.mark.parametrize("addition", [" +title=jane", " +x_0=1000", " +x_0=0"])
def test_more_in_the_projection(find_failed, addition):
    example = geographic()
    example.manifest["crs"] += addition
    assert "parameters" in find_failed(example)


DAY = datetime(2024, 5, 1)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([-5, 3, None], pa.int8()),
        ([5, 200, 2**64 - 1], pa.uint64()),
        ([5, 2**32 - 1, None], pa.uint32()),
        ([0.0, -1.0, float("inf")], pa.float64()),
        ([float("nan"), None, 1.5], pa.float32()),
        ([float("nan")] * 3, pa.float64()),
        ([None] * 3, pa.float64()),
        ([None] * 3, pa.null()),
        ([True, False, None], pa.bool_()),
        (["ä", "", "zoo" * 3000], pa.string()),
        (["ä", "", "zoo"], pa.large_string()),
        (["ä", "", "zoo"], pa.dictionary(pa.int32(), pa.string())),
        ([1, 2, 1], pa.dictionary(pa.int32(), pa.int64())),
        ([b"\xff", b"", b"\0"], pa.binary()),
        ([b"\xff", b"a", b"\0"], pa.binary(1)),
        ([Decimal("1.5"), None, Decimal(-3)], pa.decimal128(9, 2)),
        ([DAY, DAY - timedelta(1), None], pa.timestamp("ns")),
        ([DAY.replace(tzinfo=UTC)] * 3, pa.timestamp("ms", "Europe/Berlin")),
        ([date(1960, 1, 1), None, date(2000, 1, 1)], pa.date32()),
        ([timedelta(1), timedelta(-1), None], pa.duration("us")),
    ],
)
def test_attributes_of_all_types_pass(tmp_path, values, kind):
    log, release, policy = (tmp_path / name for name in ("log.parquet", "release", "policy"))
    rows = range(60)
    table = {
        "user_id": pa.array([row // 2 for row in rows]),
        "time": pa.array([row % 2 for row in rows]),
        "x": pa.array([float(row * 7 % 31) for row in rows]),
        "y": pa.array([float(row * 5 % 31) for row in rows]),
        "what": pa.array(["a"] * 60),
        "value": pa.array([values[row % 3] for row in rows], kind),
    }
    pq.write_table(pa.table(table), log)
    columns = LogColumns(requests=("what", "value"))
    result = tc.anonymize(tc.read_log(log, columns), k=5, allow=("value",))
    result.write(release, policy=policy)
    failed = {c.name: c.detail for c in audit(log, release, policy).checks if not c.passed}
    assert failed == {}
