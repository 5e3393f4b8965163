"""A release with damage goes in; answers come out, or an error that says what is wrong.

The first byte says what is damaged, the second how; the rest are numbers that say where. So files
stay whole JSON or Parquet as often as not, and the damage gets past the first checks.
"""

import json
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import trajcloak as tc
from trajcloak.auditor import audit_files
from trajcloak.options import WGS84
from trajcloak.parquet.thrift import MAGIC, TAIL, Field, Items, Struct, decode_struct, encode_struct
from trajcloak.query import open_published
from trajcloak.report import write_report_page

FILES = ("manifest.json", "bundles.parquet", "requests.parquet")
EVERYWHERE = (-1e6, -1e6, 1e6, 1e6)
VALUES: tuple[Any, ...] = (
    None, True, 0, 1, -1, 2, 3, 10**9, 2**31, 2**63, 10**400, 0.0, -0.5, 1e-300, 1e308,
    float("nan"), float("inf"), "", "5", "mbr", "quad", "EPSG:3857", "\x1b[31m\u202e", "\ud800",
    [], ["what"], {},
    [[[]]], {"a": 1}, "2024-05-06T08:00:00", "60s", 12.5,
)  # fmt: skip
"""What fields of a manifest are replaced by."""

TYPES = (
    pa.int8(), pa.int32(), pa.int64(), pa.uint64(), pa.float32(), pa.float64(), pa.string(),
    pa.binary(), pa.bool_(), pa.timestamp("us"), pa.timestamp("ns", "UTC"), pa.date32(),
    pa.decimal128(38, 5), pa.duration("us"), pa.large_string(), pa.string_view(),
)  # fmt: skip
NUMBERS = (0, 1, -1, 2, 127, -128, 2**31 - 1, 2**31, -(2**31), 2**53, 2**63 - 1, -(2**63), 10**12)


@cache
def make_release() -> Path:
    """Make a small log, its release and its policy file, once; returns their folder."""
    folder = Path(tempfile.mkdtemp())
    rng = np.random.default_rng(0)
    num_users, length = 12, 3
    table = {
        "user_id": np.repeat(np.arange(num_users), length),
        "time": np.tile(np.datetime64("2024-05-06T08:00", "us") + 60_000_000 * np.arange(length),
                        num_users),
        "x": rng.integers(0, 100, num_users * length).astype(float),
        "y": rng.integers(0, 100, num_users * length).astype(float),
        "what": rng.choice(["a", "b", None], num_users * length),
    }  # fmt: skip
    pq.write_table(pa.table(table), folder / "log.parquet")
    made = tc.anonymize(
        folder / "log.parquet", k=3, requests="what", algorithm="traj-anon", threads=1
    )
    made.save(folder / "release", folder / "policy.parquet")
    return folder


class _Choices:
    """Takes numbers off the input; zeros when it has ended."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def take(self, below: int) -> int:
        word = self._data[self._position : self._position + 2]
        self._position += 2
        return int.from_bytes(word, "little") % below

    @property
    def has_more(self) -> bool:
        return self._position < len(self._data)

    @property
    def rest(self) -> bytes:
        return self._data[self._position :]


def _replace_file(file: Path, choices: _Choices) -> None:
    file.write_bytes(choices.rest)


def _change_bytes(file: Path, choices: _Choices) -> None:
    data = bytearray(file.read_bytes())
    while choices.has_more:
        data[choices.take(len(data))] ^= choices.take(256)
    file.write_bytes(data)


def _cut(file: Path, choices: _Choices) -> None:
    data = file.read_bytes()
    start, stop = choices.take(len(data) + 1), choices.take(len(data) + 1)
    file.write_bytes(data[:start] + data[max(start, stop) :])


def _change_manifest(file: Path, choices: _Choices) -> None:
    file = file.parent / "manifest.json"
    manifest = json.loads(file.read_text())
    while choices.has_more:
        inner = manifest
        while True:
            name = sorted(inner)[choices.take(len(inner))]
            if not (isinstance(inner[name], dict) and inner[name] and choices.take(4)):
                break
            inner = inner[name]
        action = choices.take(len(VALUES) + 2)
        if action < len(VALUES):
            inner[name] = VALUES[action]
        elif action == len(VALUES) and len(inner) > 1:
            del inner[name]
        else:
            inner[f"more {choices.take(9)}"] = inner[name]
    file.write_text(json.dumps(manifest))


def _list_fields(struct: Struct) -> Iterator[Field]:
    for field in struct.values():
        yield field
        inner = field.value.items if isinstance(field.value, Items) else [field.value]
        for item in inner:
            if isinstance(item, dict):
                yield from _list_fields(item)


def _change_footer(file: Path, choices: _Choices) -> None:
    file = file if file.suffix == ".parquet" else file.parent / "bundles.parquet"
    data = file.read_bytes()
    length = int.from_bytes(data[-TAIL : -len(MAGIC)], "little")
    footer = decode_struct(data[-TAIL - length : -TAIL])
    fields = list(_list_fields(footer))
    while choices.has_more:
        field = fields[choices.take(len(fields))]
        if isinstance(field.value, bool):
            field.value = not field.value
        elif isinstance(field.value, int):
            change = choices.take(2 * len(NUMBERS))
            number = NUMBERS[change % len(NUMBERS)]
            field.value = number if change < len(NUMBERS) else field.value + number
        elif isinstance(field.value, bytes) and field.value:
            at = choices.take(len(field.value))
            changed = bytes([choices.take(256)])
            field.value = field.value[:at] + changed + field.value[at + 1 :]
        elif isinstance(field.value, Items) and field.value.items:
            at = choices.take(len(field.value.items))
            part = field.value.items[at : at + 1]
            field.value.items[at : at + 1] = part * (choices.take(2) * 2)
    text = encode_struct(footer)
    size = len(text).to_bytes(TAIL - len(MAGIC), "little")
    file.write_bytes(data[: -TAIL - length] + text + size + MAGIC)


def _change_table(file: Path, choices: _Choices) -> None:
    file = file if file.suffix == ".parquet" else file.parent / "requests.parquet"
    table = pq.read_table(file)
    while choices.has_more and table.num_columns and table.num_rows:
        at = choices.take(table.num_columns)
        name, column = table.column_names[at], table.column(at)
        action = choices.take(8)
        if action == 0:
            table = table.remove_column(at)
        elif action == 1:
            column = pc.if_else(pa.array(np.arange(len(column)) == choices.take(9)), None, column)
            table = table.set_column(at, name, column)
        elif action == 2:
            table = table.slice(choices.take(4), choices.take(table.num_rows + 1))
        elif action == 3:
            table = table.take(pa.array(np.roll(np.arange(table.num_rows), choices.take(99))))
        elif action == 4:
            table = table.append_column(f"{name}{'' if choices.take(2) else 2}", column)
        elif action == 5:
            table = table.take(pa.array(np.repeat(np.arange(table.num_rows), choices.take(3) + 1)))
        elif action == 6:
            type_ = TYPES[choices.take(len(TYPES))]
            table = table.set_column(at, name, column.cast(type_, safe=False))
        else:
            number = NUMBERS[choices.take(len(NUMBERS))]
            table = table.set_column(at, name, pc.add(column, pa.scalar(number, column.type)))
    codec = ("zstd", "snappy", "gzip", "none")[choices.take(4)]
    pq.write_table(table, file, compression=codec, use_dictionary=bool(choices.take(2)))


DAMAGES = (
    _change_manifest, _change_table, _change_footer, _change_bytes, _cut, _replace_file,
)  # fmt: skip


@contextmanager
def _damaged(data: bytes) -> Iterator[Path]:
    """Copy the release, with the damage that the input describes."""
    with tempfile.TemporaryDirectory() as folder:
        copied = Path(folder, "release")
        shutil.copytree(make_release() / "release", copied)
        damage = DAMAGES[data[0] % len(DAMAGES)] if data else _change_bytes
        name = FILES[data[1] % len(FILES)] if len(data) > 1 else FILES[0]
        # Damage that cannot be done leaves the files as they were.
        with suppress(pa.ArrowException, OverflowError, TypeError, ValueError):
            damage(copied / name, _Choices(data[2:]))
        yield copied


def _is_same(release: Path) -> bool:
    made = make_release() / "release"
    return all((release / name).read_bytes() == (made / name).read_bytes() for name in FILES)


def _ask(path: Path) -> None:
    """Ask a release each kind of question."""
    release = open_published(path)
    release.count(EVERYWHERE)
    instants = release.times.between(None, None)
    release.follow([(EVERYWHERE, instants[0])])
    for name in release.attributes:
        release.count_requests(EVERYWHERE, name)
    if release.manifest["crs"] is not None:
        release.place_region((13.0, 52.0, 13.5, 52.5), WGS84)


def read_release(data: bytes) -> bool:
    """Ask, show and audit a damaged release; tells whether it can be read.

    An audit never passes a file that is not, byte for byte, what was made.
    """
    with _damaged(data) as release, warnings.catch_warnings():
        warnings.simplefilter("ignore", tc.TrajcloakWarning)
        made = make_release()
        try:
            report = audit_files(made / "log.parquet", release, made / "policy.parquet")
            assert report.passed == _is_same(release), "the audit is wrong"
            _ask(release)
            write_report_page(release, release.parent / "page.html")
        except tc.TrajcloakError:
            return False
        assert (release.parent / "page.html").stat().st_size
        return True
