"""Damage to whole files, one by one; tests name exactly the checks that must notice."""

import json
import os
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from auditor.expected import NEEDS_CONTENTS
from reference.release_by_hand import planar
from trajcloak.auditor.findings import CHECKS


@pytest.mark.parametrize("name", ["bundles.parquet", "requests.parquet"])
@pytest.mark.parametrize("kept", [0, 100, -20])
def test_truncated_parquet(find_failed, name, kept):
    def truncate(paths):
        path = paths.release / name
        path.write_bytes(path.read_bytes()[:kept])

    failed = find_failed(planar(), truncate)
    assert failed >= {name.split(".")[0] + " file"} | NEEDS_CONTENTS


def test_damaged_page(find_failed):
    def damage(paths):
        path = paths.release / "bundles.parquet"
        content = bytearray(path.read_bytes())
        content[4:200] = bytes(196)
        path.write_bytes(content)

    assert "bundles file" in find_failed(planar(), damage)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b"\xff", b'{"k": 2, "k": 3}'])
def test_damaged_manifest(find_failed, content):
    def damage(paths):
        (paths.release / "manifest.json").write_bytes(content)

    kept = {
        "release folder",
        "bundles file",
        "requests file",
        "policy file",
        "policy private",
    }
    assert find_failed(planar(), damage) == set(CHECKS) - kept


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("k", 1),
        ("k", True),
        ("k", 3.0),
        ("format_version", 2),
        ("crs", "nowhere"),
        ("height", -1),
        ("windows", 10**400),
        ("cost", 10**400),
        ("region", {"x_min": 0, "y_min": 0}),
        ("withheld", {}),
        ("parameters", {}),
    ],
)
def test_unusable_manifest_field(find_failed, name, value):
    def damage(paths):
        path = paths.release / "manifest.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {name: value}))

    assert "manifest" in find_failed(planar(), damage)


def test_unknown_manifest_field(find_failed):
    example = planar()
    example.manifest["note"] = "anything"
    assert find_failed(example) == {"manifest"}


@pytest.mark.parametrize("name", ["bundles.parquet", "requests.parquet", "manifest.json"])
def test_missing_file(find_failed, name):
    failed = find_failed(planar(), lambda paths: (paths.release / name).unlink())
    assert "release folder" in failed


def test_extra_file(find_failed):
    failed = find_failed(planar(), lambda paths: (paths.release / "notes.txt").write_text("x"))
    assert failed == {"release folder"}


@pytest.mark.skipif(os.name != "posix", reason="modes are those of POSIX")
@pytest.mark.parametrize("mode", [0o640, 0o604])
def test_policy_readable_by_others(find_failed, mode):
    assert find_failed(planar(), lambda paths: paths.policy.chmod(mode)) == {"policy private"}


def test_policy_inside_the_release(find_failed):
    def move(paths):
        inside = paths.release / "policy.parquet"
        shutil.move(paths.policy, inside)
        paths.policy.symlink_to(inside)

    assert find_failed(planar(), move) == {"release folder", "policy private"}


def test_damaged_policy(find_failed):
    def truncate(paths):
        paths.policy.write_bytes(paths.policy.read_bytes()[:50])

    assert find_failed(planar(), truncate) == {"policy file"} | NEEDS_CONTENTS


def test_policy_with_other_columns(find_failed):
    def rename(paths):
        table = pq.read_table(paths.policy)
        pq.write_table(table.rename_columns(["window", "user", "bundle_id"]), paths.policy)

    assert find_failed(planar(), rename) == {"policy file"} | NEEDS_CONTENTS


@pytest.mark.parametrize(
    "software", ["trajcloak", "trajcloak 0.1.0 of 12:100000", "trajcloak 100000", "other 0.1.0"]
)
def test_other_software(find_failed, software):
    example = planar()
    example.manifest["software"] = software
    assert find_failed(example) == {"manifest"}


def test_unknown_algorithm(find_failed):
    example = planar()
    example.manifest["algorithm"] = "nonsense"
    assert find_failed(example) == {"manifest"}


@pytest.mark.parametrize(
    "respell",
    [
        lambda fields, text: json.dumps(dict(reversed(fields.items())), indent=2) + "\n",
        lambda fields, text: text + " \t",
        lambda fields, text: text.replace('"trajcloak', '"\\u0074rajcloak'),
    ],
)
def test_manifest_spelled_otherwise(find_failed, respell):
    def damage(paths):
        path = paths.release / "manifest.json"
        text = path.read_text()
        path.write_text(respell(json.loads(text), text))

    assert find_failed(planar(), damage) == {"manifest"}


@pytest.mark.parametrize("name", ["bundles.parquet", "requests.parquet"])
def test_column_twice(find_failed, name):
    def repeat(paths):
        table = pq.read_table(paths.release / name)
        last = table.column_names[3]
        pq.write_table(table.append_column(last, table[last]), paths.release / name)

    assert name.split(".")[0] + " file" in find_failed(planar(), repeat)


@pytest.mark.parametrize("kind", [pa.int32(), pa.uint64(), pa.int8()])
def test_policy_with_other_integers(find_failed, kind):
    def convert(paths):
        table = pq.read_table(paths.policy)
        pq.write_table(table.set_column(1, "user_id", table["user_id"].cast(kind)), paths.policy)

    assert find_failed(planar(), convert) == set()


def test_policy_with_an_integer_beyond_the_log(find_failed):
    def convert(paths):
        table = pq.read_table(paths.policy)
        users = pa.array([2**64 - 1, *table["user_id"].to_pylist()[1:]], pa.uint64())
        pq.write_table(table.set_column(1, "user_id", users), paths.policy)

    assert "one bundle per user" in find_failed(planar(), convert)
