"""Damaged releases: each command refuses them with one message, and no command crashes."""

import json
import os
import shutil
import struct

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import trajcloak as tc
from trajcloak.parquet import memory_check
from trajcloak.parquet.thrift import MAGIC, NUM_ROWS, ROW_GROUPS, TAIL, decode_struct, encode_struct
from trajcloak.query import open_published

COMMANDS = {
    "query": ("query", "release", "--region=-1e6,-1e6,1e6,1e6", "--by", "category"),
    "report": ("report", "release", "-o", "report.html"),
    "utility": ("utility", "log.parquet", "release", "--policy", "policy.parquet"),
    "audit": ("audit", "log.parquet", "release", "--policy", "policy.parquet"),
}


def write_manifest(text):
    def damage(folder):
        (folder / "release" / "manifest.json").write_bytes(text)

    return damage


def change_manifest(change):
    def damage(folder):
        file = folder / "release" / "manifest.json"
        manifest = json.loads(file.read_text())
        change(manifest)
        file.write_text(json.dumps(manifest))

    return damage


def put(value, *path):
    """Put a value into a field of the manifest."""

    def change(manifest):
        for name in path[:-1]:
            manifest = manifest[name]
        manifest[path[-1]] = value

    return change_manifest(change)


def drop(*path):
    def change(manifest):
        for name in path[:-1]:
            manifest = manifest[name]
        del manifest[path[-1]]

    return change_manifest(change)


def change_table(name, change):
    def damage(folder):
        file = folder / "release" / f"{name}.parquet"
        pq.write_table(change(pq.read_table(file)), file)

    return damage


def put_cell(name, column, value):
    """Put a value into the first row of a column."""

    def change(table):
        field = table.schema.field(column)
        values = pa.array([value, *table[column].to_pylist()[1:]], field.type)
        return table.set_column(table.schema.get_field_index(column), field, values)

    return change_table(name, change)


def cast_column(name, column, type_):
    def change(table):
        at = table.schema.get_field_index(column)
        return table.set_column(at, column, table[column].cast(type_, safe=False))

    return change_table(name, change)


def change_footer(name, change):
    def damage(folder):
        file = folder / "release" / f"{name}.parquet"
        data = file.read_bytes()
        length = int.from_bytes(data[-TAIL : -len(MAGIC)], "little")
        footer = decode_struct(data[-TAIL - length : -TAIL])
        change(footer)
        text = encode_struct(footer)
        file.write_bytes(data[: -TAIL - length] + text + struct.pack("<I", len(text)) + MAGIC)

    return damage


def claim_rows(number, *, also_in_groups):
    def change(footer):
        footer[NUM_ROWS].value = number
        for group in footer[ROW_GROUPS].value.items if also_in_groups else ():
            group[3].value = number
            for chunk in group[1].value.items:
                chunk[3].value[5].value = number

    return change


def repeat_chunk(footer):
    """Let thousands of columns share the bytes of one."""
    chunks = footer[ROW_GROUPS].value.items[0][1].value.items
    chunks.extend(chunks[:1] * 5000)


def write_file(name, data):
    def damage(folder):
        (folder / "release" / name).write_bytes(data)

    return damage


def cut_file(name, share):
    def damage(folder):
        file = folder / "release" / name
        data = file.read_bytes()
        file.write_bytes(data[: int(len(data) * share)])

    return damage


def make_folder(name):
    def damage(folder):
        (folder / "release" / name).unlink()
        (folder / "release" / name).mkdir()

    return damage


def make_pipe(name):
    def damage(folder):
        (folder / "release" / name).unlink()
        os.mkfifo(folder / "release" / name)

    return damage


def make_link(name, target):
    def damage(folder):
        (folder / "release" / name).unlink()
        (folder / "release" / name).symlink_to(target)

    return damage


def delete(name):
    def damage(folder):
        (folder / "release" / name).unlink()

    return damage


def swap_files(folder):
    release = folder / "release"
    shutil.move(release / "bundles.parquet", release / "other")
    shutil.move(release / "requests.parquet", release / "bundles.parquet")
    shutil.move(release / "other", release / "requests.parquet")


def break_text(table):
    """Put bytes that are no UTF-8 into a text column."""
    column = pa.array([b"\xff\xfe"] * len(table), pa.binary())
    text = pa.Array.from_buffers(pa.string(), len(table), column.buffers())
    return table.set_column(table.schema.get_field_index("category"), "category", text)


def shift(column, number):
    """Add a number to all values of a column."""

    def change(table):
        at, type_ = table.schema.get_field_index(column), table.schema.field(column).type
        return table.set_column(at, column, pc.add(table[column], pa.scalar(number, type_)))

    return change


def nest(table):
    column = pa.array([[1]] * len(table))
    return table.set_column(table.schema.get_field_index("category"), "category", column)


def far_future(table):
    column = pa.array([2**62] * len(table)).cast(pa.timestamp("us"))
    return table.set_column(table.schema.get_field_index("category"), "category", column)


MANIFESTS = {
    "not JSON": (write_manifest(b"{"), "cannot be read as JSON"),
    "not UTF-8": (write_manifest(b'{"k": "\xff"}'), "cannot be read as JSON"),
    "UTF-16": (write_manifest('{"k": 5}'.encode("utf-16")), "cannot be read as JSON"),
    "empty": (write_manifest(b""), "cannot be read as JSON"),
    "a list": (write_manifest(b"[]"), "'manifest' has a value that"),
    "deep": (write_manifest(b"[" * 100_000), "cannot be read as JSON"),
    "long": (write_manifest(b" " * (1 << 21) + b"{}"), "cannot be read as JSON"),
    "many digits": (write_manifest(b'{"k": ' + b"9" * 10_000 + b"}"), "cannot be read as JSON"),
    "version": (put(2, "format_version"), "'format_version' has a value that"),
    "k as text": (put("5", "k"), "'k' has a value that"),
    "k negative": (put(-5, "k"), "'k' has a value that"),
    "k huge": (put(10**400, "k"), "'k' has a value that"),
    "k float": (put(5.0, "k"), "'k' has a value that"),
    "k true": (put(True, "k"), "'k' has a value that"),
    "k missing": (drop("k"), "'k' is missing"),
    "side 0": (put(0, "region", "side"), "'region.side' has a value that"),
    "side negative": (put(-1.0, "region", "side"), "'region.side' has a value that"),
    "side NaN": (put(float("nan"), "region", "side"), "'region.side' has a value that"),
    "side infinite": (put(float("inf"), "region", "side"), "'region.side' has a value that"),
    "side tiny": (put(1e-12, "region", "side"), "'height' is too large for the region"),
    "corner huge": (put(1e308, "region", "x_min"), "'region.x_min' has a value that"),
    "no region": (put(None, "region"), "'region' has a value that"),
    "height": (put(10**9, "height"), "'height' has a value that"),
    "height text": (put("9", "height"), "'height' has a value that"),
    "crs unknown": (put("+proj=nowhere", "crs"), "'crs' has a value that"),
    "crs of degrees": (put("EPSG:4326", "crs"), "'crs' has a value that"),
    "crs of Mars": (put("ESRI:103885", "crs"), "'crs' has a value that"),
    "crs a number": (put(27700, "crs"), "'crs' has a value that"),
    "cloak": (put("circle", "cloak"), "'cloak' has a value that"),
    "users 0": (put(0, "users"), "'users' has a value that"),
    "cost infinite": (put(float("inf"), "cost"), "'cost' has a value that"),
    "cost huge": (put(10**4000, "cost"), "'cost' has a value that"),
    "withheld": (put(3, "withheld"), "'withheld' has a value that"),
    "withheld text": (put("3", "withheld", "users"), "'withheld.users' has a value that"),
    "parameters": (put([], "parameters"), "'parameters' has a value that"),
    "no every": (drop("parameters", "every"), "'parameters.every' is missing"),
    "every": (put("60 parsecs", "parameters", "every"), "'parameters.every' has a value that"),
    "clip": (put("a,b", "parameters", "clip"), "'parameters.clip' has a value that"),
    "drop": (put("all", "parameters", "drop"), "'parameters.drop' has a value that"),
    "requests": (put(["a", "a"], "parameters", "requests"), "'parameters.requests' has a"),
    "request names": (put([1], "parameters", "requests"), "'parameters.requests' has a"),
    "ingest": (put({}, "ingest"), "'ingest.rows' is missing"),
    "interval": (put("often", "ingest", "interval"), "'ingest.interval' has a value that"),
    "dropped": (put({"dogs": 1}, "ingest", "dropped"), "'ingest.dropped' has a value that"),
    "blocks": (put("3", "parameters", "blocks"), "'parameters.blocks' has a value that"),
    "unknown": (put(1, "who"), "1 fields of 'manifest' are not those of the format"),
    "a folder": (make_folder("manifest.json"), "cannot be read as JSON"),
    "a pipe": (make_pipe("manifest.json"), "cannot be read as JSON"),
    "gone": (delete("manifest.json"), "cannot be read as JSON"),
}  # fmt: skip
TRILLION = 10**12
FILES = {
    "no Parquet": (write_file("bundles.parquet", b"PAR1" * 9), "bundles.parquet: cannot be read"),
    "empty": (write_file("bundles.parquet", b""), "bundles.parquet: cannot be read: it is too"),
    "cut": (cut_file("bundles.parquet", 0.5), "bundles.parquet: cannot be read: it does not"),
    "requests cut": (cut_file("requests.parquet", 0.9), "requests.parquet: cannot be read"),
    "a folder": (make_folder("bundles.parquet"), "bundles.parquet: cannot be read: it is no file"),
    "a pipe": (make_pipe("requests.parquet"), "requests.parquet: cannot be read: it is no file"),
    "a device": (make_link("bundles.parquet", "/dev/zero"), "cannot be read: it is no file"),
    "a link to nothing": (make_link("bundles.parquet", "nothing"), "cannot be read: it is no"),
    "a loop": (make_link("bundles.parquet", "bundles.parquet"), "cannot be read: it is no file"),
    "gone": (delete("requests.parquet"), "requests.parquet: cannot be read: it is no file"),
    "swapped": (swap_files, "bundles.parquet: it has no column 'x_min' of type double"),
    "footer": (
        change_footer("bundles", claim_rows(TRILLION, also_in_groups=False)),
        "its number of rows is not that of its row groups",
    ),
    "footer and groups": (
        change_footer("bundles", claim_rows(TRILLION, also_in_groups=True)),
        "bytes claim 1,000,000,000,000 rows, which would take",
    ),
    "footer of requests": (
        change_footer("requests", claim_rows(TRILLION, also_in_groups=True)),
        "bytes claim 1,000,000,000,000 rows, which would take",
    ),
    "negative rows": (
        change_footer("bundles", claim_rows(-5, also_in_groups=True)), "a page is no count"
    ),
    "shared bytes": (change_footer("bundles", repeat_chunk), "claim more bytes than the file has"),
    "no rows": (change_table("bundles", lambda table: table.slice(0, 0)), "rows are missing"),
    "a row": (change_table("bundles", lambda table: table.slice(1)), "rows are missing"),
    "reversed": (
        change_table("bundles", lambda t: t.take(list(reversed(range(len(t)))))),
        "rows are missing or out of order",
    ),
    "instants below 0": (
        change_table("bundles", shift("instant", -9)),
        "rows are missing or out of order",
    ),
    "no users": (put_cell("bundles", "users", 0), "1 rows have no users, or no rectangle"),
    "users null": (put_cell("bundles", "users", None), "values are missing"),
    "users text": (cast_column("bundles", "users", pa.string()), "no column 'users' of type int32"),
    "NaN": (put_cell("bundles", "x_min", float("nan")), "1 rows have no users, or no rectangle"),
    "infinite": (put_cell("bundles", "y_max", float("inf")), "1 rows have no users, or no"),
    "outside": (put_cell("bundles", "y_min", -1e9), "1 rows have no users, or no rectangle"),
    "edges": (cast_column("bundles", "x_min", pa.float32()), "no column 'x_min' of type double"),
    "moments": (put_cell("bundles", "t_end", None), "the first instant has no duration"),
    "no duration": (put_cell("bundles", "t_end", 0), "the first instant has no duration"),
    "beyond all time": (
        change_table(
            "bundles",
            lambda t: t.set_column(
                4, "t_end", pa.array([2**63 - 1] * len(t)).cast(pa.timestamp("us"))
            ),
        ),
        "moments beyond all calendars",
    ),
    "seconds": (cast_column("bundles", "t_start", pa.timestamp("s")), "no timestamps in micro"),
    "a zone": (
        cast_column("bundles", "t_start", pa.timestamp("us", "Asia/Tokyo")), "no timestamps in"
    ),
    "two names": (
        change_table("bundles", lambda t: t.append_column("users", t["users"])),
        "two of its columns have one name",
    ),
    "another attribute": (
        change_table("requests", lambda t: t.append_column("who", t["category"])),
        "its columns are not those that the manifest lists",
    ),
    "nested": (change_table("requests", nest), "a column has lists or records"),
}  # fmt: skip
REQUESTS = {
    "requests reversed": (
        change_table("requests", lambda t: t.take(list(reversed(range(len(t)))))),
        "requests are",
    ),
    "other instants": (
        change_table("requests", shift("instant", 9)),
        "at instants that their bundle does not have",
    ),
    "unknown bundles": (
        change_table("requests", shift("bundle_id", 99)),
        "requests are out of order, or of unknown bundles",
    ),
    "bundle null": (put_cell("requests", "bundle_id", None), "values are missing"),
    "text that is none": (change_table("requests", break_text), "requests.parquet: cannot be read"),
    "far future": (change_table("requests", far_future), "values that Python cannot hold"),
}
DAMAGES = {
    f"{of}, {name}": damage
    for of, damages in (("manifest", MANIFESTS), ("file", FILES), ("requests", REQUESTS))
    for name, damage in damages.items()
}


def test_the_release_is_read_by_every_command(copied, run):
    for name, args in COMMANDS.items():
        assert run(*args).code in ((0, 3) if name == "audit" else (0,)), name


def test_a_field_that_only_some_manifests_have(copied):
    put(3, "parameters", "blocks")(copied)
    assert open_published(copied / "release").manifest["parameters"]["blocks"] == 3


@pytest.mark.parametrize("name", DAMAGES)
def test_damaged_releases_are_refused(copied, run, name):
    damage, message = DAMAGES[name]
    damage(copied)
    with pytest.raises(tc.InputError, match=message):
        open_published(copied / "release").count_requests((-1e6, -1e6, 1e6, 1e6), "category")
    for args in COMMANDS.values():
        done = run(*args)
        if args[0] == "audit":
            assert done.code in (2, 3)
        else:
            assert done.code == 2
            assert done.err.startswith("Error: ")
            assert not (copied / "report.html").exists()


def test_a_file_that_repeats_values_is_refused_before_it_is_read(copied, run, monkeypatch):
    monkeypatch.setattr(memory_check, "SMALL", 1 << 20)
    file = copied / "release" / "requests.parquet"
    table = pq.read_table(file)
    many = table.take(pa.repeat(0, 200_000))
    pq.write_table(many, file, compression="zstd")
    assert file.stat().st_size < 10_000
    done = run(*COMMANDS["query"])
    assert done.code == 2
    assert "bytes claim 200,000 rows, which would take" in done.err


def test_a_page_that_unpacks_to_much_is_refused(copied, run, monkeypatch):
    monkeypatch.setattr(memory_check, "SMALL", 1 << 20)
    file = copied / "release" / "requests.parquet"
    table = pq.read_table(file)
    long = pa.array(["a" * (1 << 26), *table["category"].to_pylist()[1:]])
    at = table.schema.get_field_index("category")
    pq.write_table(table.set_column(at, "category", long), file, compression="zstd")
    assert file.stat().st_size < 100_000
    done = run(*COMMANDS["query"])
    assert done.code == 2
    assert "bytes of memory" in done.err


def test_an_encoding_that_grows_is_refused(copied, run):
    file = copied / "release" / "requests.parquet"
    table = pq.read_table(file)
    pq.write_table(
        table, file, use_dictionary=False, column_encoding={"category": "DELTA_BYTE_ARRAY"}
    )
    done = run(*COMMANDS["query"])
    assert done.code == 2
    assert "an encoding that grows without bound" in done.err
