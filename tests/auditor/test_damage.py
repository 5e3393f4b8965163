"""Damage to a release or its policy, one kind at a time: each is found, by the right check.

``DAMAGES`` names for each world (see ``released.py``) what is done, and which checks must fail.
"""

import json
import random
import re
import shutil
from datetime import timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from auditor.damages import (
    BUNDLES,
    FILES,
    PARTS,
    POLICY,
    REQUESTS,
    append_bytes,
    change_footer,
    change_parts,
    change_text,
    convert,
    edit,
    exchange_parts,
    find_absent,
    find_marker,
    find_next_part,
    find_rare,
    get_chunk,
    hide_in_dictionary,
    insert_bytes,
    link,
    move_members,
    publish,
    put,
    read_manifest,
    set_column,
    set_fields,
    set_value,
    show_linked,
    show_withheld_set,
    split_a_bundle,
    swap,
    widen_first,
    write_manifest,
    write_otherwise,
)
from auditor.expected import list_failed
from auditor.released import WORLDS


@pytest.fixture(scope="module")
def worlds(tmp_path_factory):
    """Make each world once, when it is first asked for."""
    made = {}

    def get(name):
        if name not in made:
            made[name] = WORLDS[name](tmp_path_factory.mktemp("worlds") / "world")
        return made[name]

    return get


DAMAGES = {
    "one log": {
        # The folder and the private file.
        "a file more": (lambda w: (w.release / "notes.txt").write_text("u"), {"release folder"}),
        "a hidden file": (lambda w: (w.release / ".u700000").touch(), {"release folder"}),
        "a folder more": (lambda w: (w.release / "more").mkdir(), {"release folder"}),
        "a file is a link": (link(BUNDLES), {"release folder"}),
        "no bundles": (lambda w: (w.release / BUNDLES).unlink(), {"release folder", "bundles"}),
        "no requests": (lambda w: (w.release / REQUESTS).unlink(), {"release folder", "requests"}),
        "no manifest": (lambda w: (w.release / "manifest.json").unlink(), {"manifest", "log"}),
        "a policy for all to read": (lambda w: w.policy.chmod(0o644), {"policy"}),
        "a policy that is no Parquet": (lambda w: w.policy.write_bytes(b"PAR1"), {"policy"}),
        # Members.
        "two members exchanged": (move_members, {"bundles"}),
        "a member less": (edit(POLICY, lambda t: t.slice(1)), {"one bundle per user", "bundles"}),
        "a member twice": (
            edit(POLICY, lambda t: pa.concat_tables([t, t.slice(0, 1)])),
            {"policy"},
        ),
        "a stranger": (put(POLICY, "user_id", 0, 5), {"policy"}),
        "a user who does not take part": (
            lambda w: put(POLICY, "user_id", 0, find_absent(w))(w),
            {"one bundle per user"},
        ),
        "a bundle of two": (split_a_bundle, {"at least k users", "bundles"}),
        "bundles numbered from 1": (
            convert(POLICY, "bundle_id", lambda c: pc.add(c, 1)),
            {"policy"},
        ),
        "windows exchanged": (
            convert(POLICY, "window", lambda c: pc.subtract(pa.scalar(1, pa.int32()), c)),
            {"policy"},
        ),
        "a bundle in two windows": (put(POLICY, "window", 0, 1), {"policy"}),
        "no window of the log": (
            convert(POLICY, "window", lambda c: pc.add(c, pa.scalar(7, pa.int32()))),
            {"policy"},
        ),
        "ids as text": (convert(POLICY, "user_id", lambda c: c.cast(pa.string())), {"policy"}),
        "a policy with a column more": (
            edit(POLICY, lambda t: t.append_column("part", pa.nulls(t.num_rows, pa.int32()))),
            {"policy"},
        ),
        # Values of bundles.
        "a wider cloak": (put(BUNDLES, "x_max", 3, lambda x: x + 1024 / 64), {"bundles"}),
        "a narrower cloak": (put(BUNDLES, "x_min", 3, lambda x: x + 1024 / 64), {"bundles"}),
        "an edge off by the least": (
            put(BUNDLES, "y_min", 0, lambda y: np.nextafter(y, 1e9)),
            {"bundles"},
        ),
        "an edge that is no number": (put(BUNDLES, "y_max", 0, float("nan")), {"bundles"}),
        "cloaks of two instants exchanged": (
            swap(BUNDLES, ["x_min", "y_min", "x_max", "y_max", "geometry"], 0, 1),
            {"bundles"},
        ),
        "bundles exchanged": (
            swap(BUNDLES, ["x_min", "y_min", "x_max", "y_max", "geometry", "users"], 0, 4),
            {"bundles"},
        ),
        "rows exchanged": (
            edit(BUNDLES, lambda t: t.take(pa.array([1, 0, *range(2, t.num_rows)]))),
            {"bundles"},
        ),
        "users one more": (put(BUNDLES, "users", 0, lambda n: n + 1), {"bundles"}),
        "another window": (put(BUNDLES, "window", 0, 1), {"bundles"}),
        "another bundle": (put(BUNDLES, "bundle_id", 0, 9), {"bundles"}),
        "another instant": (put(BUNDLES, "instant", 0, 1), {"bundles"}),
        "another polygon": (put(BUNDLES, "geometry", 0, lambda g: g[:-1] + b"\1"), {"bundles"}),
        "a longer polygon": (put(BUNDLES, "geometry", 0, lambda g: g + b"u700000"), {"bundles"}),
        "a row less": (edit(BUNDLES, lambda t: t.slice(1)), {"bundles"}),
        "a row twice": (edit(BUNDLES, lambda t: pa.concat_tables([t, t.slice(0, 1)])), {"bundles"}),
        "no rows": (edit(BUNDLES, lambda t: t.slice(0, 0)), {"bundles"}),
        "a null": (put(BUNDLES, "users", 2, None), {"bundles"}),
        "a column more": (
            edit(BUNDLES, lambda t: t.append_column("who", pa.array(["u"] * t.num_rows))),
            {"bundles"},
        ),
        "a column less": (edit(BUNDLES, lambda t: t.drop_columns("users")), {"bundles"}),
        "columns in another order": (
            edit(BUNDLES, lambda t: t.select(t.column_names[::-1])),
            {"bundles"},
        ),
        "wider numbers": (convert(BUNDLES, "window", lambda c: c.cast(pa.int64())), {"bundles"}),
        "no metadata": (edit(BUNDLES, lambda t: t.replace_schema_metadata(None)), {"bytes"}),
        # Values of requests.
        "a request less": (edit(REQUESTS, lambda t: t.slice(1)), {"requests"}),
        "no requests shown": (edit(REQUESTS, lambda t: t.slice(0, 0)), {"requests"}),
        "a request never sent": (publish("what", "library"), {"requests"}),
        "a rare request": (lambda w: publish("what", find_rare(w))(w), {"requests"}),
        "a set that is not eligible": (show_withheld_set, {"requests"}),
        "a request twice": (
            edit(REQUESTS, lambda t: pa.concat_tables([t.slice(0, 1), t])),
            {"requests"},
        ),
        "requests exchanged": (swap(REQUESTS, ["what", "level"], 0, 20), {"requests"}),
        "requests out of order": (
            edit(REQUESTS, lambda t: t.take(pa.array([1, 0, *range(2, t.num_rows)]))),
            {"requests"},
        ),
        "a request of another bundle": (put(REQUESTS, "bundle_id", 0, 1), {"requests"}),
        "a request of another instant": (put(REQUESTS, "instant", 0, 1), {"requests"}),
        "a request of another window": (put(REQUESTS, "window", 0, 1), {"requests"}),
        "another value": (put(REQUESTS, "what", 0, "u700000"), {"requests"}),
        "a value that is a user's id": (put(REQUESTS, "level", 0, 700_000), {"requests"}),
        "no value": (put(REQUESTS, "what", 0, None), {"requests"}),
        "a blank more": (put(REQUESTS, "what", 0, lambda text: f"{text} "), {"requests"}),
        "numbers as text": (
            convert(REQUESTS, "level", lambda c: c.cast(pa.string())),
            {"requests"},
        ),
        "narrower numbers": (
            convert(REQUESTS, "level", lambda c: c.cast(pa.int32())),
            {"requests"},
        ),
        "an attribute less": (edit(REQUESTS, lambda t: t.drop_columns("level")), {"requests"}),
        "an attribute of another name": (
            edit(REQUESTS, lambda t: t.rename_columns([*t.column_names[:-1], "u700000"])),
            {"requests"},
        ),
        # The same values in other bytes.
        "metadata": (write_otherwise(BUNDLES, metadata={b"u": b"700000"}), {"bytes"}),
        "metadata of a column": (
            write_otherwise(
                REQUESTS, schema=lambda s: s.set(0, s.field(0).with_metadata({b"u": b"7"}))
            ),
            {"bytes"},
        ),
        "field ids": (
            write_otherwise(
                BUNDLES,
                schema=lambda s: s.set(
                    0, s.field(0).with_metadata({b"PARQUET:field_id": b"700000"})
                ),
            ),
            {"bytes"},
        ),
        "no nulls allowed": (
            write_otherwise(REQUESTS, schema=lambda s: s.set(0, s.field(0).with_nullable(False))),
            {"bytes"},
        ),
        "sorting columns": (
            write_otherwise(BUNDLES, sorting_columns=[pq.SortingColumn(3, True)]),
            {"bytes"},
        ),
        "row groups": (write_otherwise(BUNDLES, row_group_size=7), {"bytes"}),
        "pages": (write_otherwise(REQUESTS, data_page_size=64, write_batch_size=8), {"bytes"}),
        "another compression": (
            write_otherwise(REQUESTS, compression="gzip", compression_level=5),
            {"bytes"},
        ),
        "another level": (write_otherwise(BUNDLES, compression_level=9), {"bytes"}),
        "no statistics": (write_otherwise(BUNDLES, write_statistics=False), {"bytes"}),
        "a page index": (write_otherwise(REQUESTS, write_page_index=True), {"bytes"}),
        "other pages": (write_otherwise(REQUESTS, data_page_version="2.0"), {"bytes"}),
        "no dictionaries": (write_otherwise(REQUESTS, use_dictionary=False), {"bytes"}),
        "another version of Parquet": (write_otherwise(BUNDLES, version="1.0"), {"bytes"}),
        "a checksum of pages": (write_otherwise(BUNDLES, write_page_checksum=True), {"bytes"}),
        "a text in an unused dictionary entry": (
            hide_in_dictionary(REQUESTS, "what", "user 700000 was here"),
            {"bytes"},
        ),
        "a text in a dictionary of polygons": (
            hide_in_dictionary(BUNDLES, "geometry", b"user 700000 was here"),
            {"bytes"},
        ),
        "bytes at the end": (append_bytes(BUNDLES, b"u700000"), {"bytes"}),
        "bytes at the start": (insert_bytes(BUNDLES, 4, b"u700000"), {"bytes"}),
        "more rows in the footer": (
            change_footer(BUNDLES, lambda f: set_value(f, 3, f[3].value + 17)),
            {"bundles", "bytes"},
        ),
        "a footer of 10^12 rows": (
            change_footer(BUNDLES, lambda f: set_value(f, 3, 10**12)),
            {"bundles"},
        ),
        "another writer": (
            change_footer(
                REQUESTS, lambda f: set_value(f, 6, b"parquet-cpp-arrow version 700000.0.1")
            ),
            {"bytes"},
        ),
        "another offset": (
            change_footer(BUNDLES, lambda f: set_value(f[4].value.items[0], 5, 700_000)),
            {"bytes"},
        ),
        "another size": (
            change_footer(BUNDLES, lambda f: set_value(get_chunk(f), 6, 700_000)),
            {"bytes"},
        ),
        "statistics of another value": (
            change_footer(BUNDLES, lambda f: set_value(get_chunk(f)[12].value, 5, b"\7\0\0\0")),
            {"bytes"},
        ),
        # The manifest.
        "a manifest that is no JSON": (
            lambda w: (w.release / "manifest.json").write_text("{"),
            {"manifest"},
        ),
        "a list as manifest": (
            lambda w: (w.release / "manifest.json").write_text("[1]"),
            {"manifest"},
        ),
        "deep nesting": (
            lambda w: (w.release / "manifest.json").write_text("[" * 10**5 + "]" * 10**5),
            {"manifest"},
        ),
        "a field more": (set_fields(who=700_000), {"figures"}),
        "a figure more": (set_fields(withheld__requests=0), {"figures"}),
        "users as a figure": (set_fields(ingest__who=[700_000, 700_013]), {"figures"}),
        "a parameter more": (set_fields(parameters__who="u"), {"manifest"}),
        "a key twice": (change_text('  "k": 3,', '  "k": 700000,\n  "k": 3,'), {"bytes"}),
        "keys in another order": (
            lambda w: write_manifest(w, dict(reversed(read_manifest(w).items())), sort_keys=False),
            {"bytes"},
        ),
        "other blanks": (lambda w: write_manifest(w, read_manifest(w), indent=1), {"bytes"}),
        "a number with a fraction": (
            change_text('"format_version": 1', '"format_version": 1.0'),
            {"manifest"},
        ),
        "a figure with a fraction": (change_text('"windows": 2', '"windows": 2.0'), {"figures"}),
        "a truth instead of a number": (
            change_text('"windows": 2', '"windows": true'),
            {"figures"},
        ),
        "cost off by a billionth": (
            lambda w: set_fields(cost=read_manifest(w)["cost"] * (1 + 1e-9))(w),
            {"figures"},
        ),
        "cost off by the least": (
            lambda w: set_fields(cost=float(np.nextafter(read_manifest(w)["cost"], 0)))(w),
            {"figures"},
        ),
        "cost that is no number": (set_fields(cost=float("nan")), {"figures"}),
        "k one less": (set_fields(k=2), {"figures"}),
        "k one more": (set_fields(k=4), {"figures"}),
        "k beyond the members": (set_fields(k=50, parameters__members=None), {"at least k users"}),
        "k as text": (set_fields(k="3"), {"manifest"}),
        "k of 1": (set_fields(k=1), {"manifest"}),
        "less members than k": (set_fields(parameters__members=2), {"manifest"}),
        "members not asked for": (set_fields(parameters__members=5), {"at least k users"}),
        "another attacker": (set_fields(attacker="tp-aware"), {"figures"}),
        "parts that are not there": (set_fields(parts={"users": 2, "per": "window"}), {"policy"}),
        "a software with a note": (set_fields(software="trajcloak 0.1 u700000"), {"manifest"}),
        "an unknown algorithm": (set_fields(algorithm="magic"), {"manifest"}),
        "side 0": (set_fields(region__side=0), {"manifest"}),
        "a region elsewhere": (set_fields(region__x_min=1e6), {"log"}),
        "a tiny region": (set_fields(region__side=1.0), {"log"}),
        "height 10^9": (set_fields(height=10**9), {"manifest"}),
        "another height": (set_fields(height=5), {"bundles"}),
        "a foreign crs": (set_fields(crs="EPSG:3857"), {"figures"}),
        "a crs that is none": (set_fields(crs="u700000"), {"manifest"}),
        "another origin": (set_fields(parameters__origin=1), {"log"}),
        "another step": (set_fields(parameters__every=2), {"bundles"}),
        "a step of 0": (set_fields(parameters__every=0), {"manifest"}),
        "a step as text": (set_fields(parameters__every="1s"), {"log"}),
        "a shorter gap": (set_fields(parameters__max_gap=1), {"one bundle per user"}),
        "another length": (set_fields(parameters__length=3), {"bundles"}),
        "positions held": (set_fields(parameters__missing="hold"), {"one bundle per user"}),
        "hours of integer times": (set_fields(parameters__windows="08:00-09:00"), {"log"}),
        "a clip that cuts rows off": (
            set_fields(parameters__clip="0.0,0.0,500.0,500.0"),
            {"bundles"},
        ),
        "a clip spelled otherwise": (set_fields(parameters__clip="0,0,5000,5000"), {"manifest"}),
        "a speed that rows exceed": (set_fields(parameters__max_speed=1.0), {"log"}),
        "teleports dropped": (
            set_fields(parameters__max_speed=1.0, parameters__drop="teleport"),
            {"one bundle per user"},
        ),
        "rare requests kept": (set_fields(parameters__rare="keep"), {"requests"}),
        "rare at more bundles": (set_fields(parameters__rare_below=4), {"requests"}),
        "safe against linking": (set_fields(parameters__link_safe=True), {"requests"}),
        "attributes in another order": (
            set_fields(parameters__requests=["level", "what"]),
            {"log"},
        ),
        "an attribute not named": (set_fields(parameters__requests=["what"]), {"log"}),
        "an attribute allowed that is none": (set_fields(parameters__allow=["who"]), {"log"}),
        "a time zone": (set_fields(parameters__tz="Europe/Berlin"), {"log"}),
        "a time zone that is none": (set_fields(parameters__tz="u700000"), {"manifest"}),
        "a parameter less": (
            lambda w: write_manifest(
                w,
                read_manifest(w)
                | {
                    "parameters": {
                        n: v for n, v in read_manifest(w)["parameters"].items() if n != "seed"
                    }
                },
            ),
            {"manifest"},
        ),
        "suppressed without being asked to": (
            lambda w: (
                edit(POLICY, lambda t: t.slice(0, t.num_rows - 1))(w),
                set_fields(suppressed=1)(w),
            ),
            {"one bundle per user"},
        ),
    },
    "two inputs": {
        "a moment shifted": (
            put(BUNDLES, "t_start", 0, lambda moment: moment + timedelta(microseconds=1)),
            {"bundles"},
        ),
        "times without a zone": (
            convert(BUNDLES, "t_start", lambda c: c.cast(pa.timestamp("us"))),
            {"bundles"},
        ),
        "another bounding box": (write_otherwise(BUNDLES, metadata={b"geo": b"{}"}), {"bytes"}),
        "a value off the list": (publish("what", "library"), {"requests"}),
        "a rare value instead of the marker": (
            lambda w: put(REQUESTS, "what", find_marker(w), "zoo")(w),
            {"requests"},
        ),
        "another attacker": (set_fields(attacker="report-aware"), {"figures"}),
        "no vocabulary": (set_fields(parameters__vocabulary=False), {"requests"}),
        "rare requests dropped": (set_fields(parameters__rare="drop"), {"requests"}),
        "safe against linking": (set_fields(parameters__link_safe=True), {"requests"}),
        "another centre": (
            lambda w: set_fields(crs=read_manifest(w)["crs"].replace("+lon_0=13.3", "+lon_0=13.4"))(
                w
            ),
            {"figures"},
        ),
        "another step": (set_fields(parameters__every="30s"), {"bundles"}),
        "a step of a microsecond": (set_fields(parameters__every="1us"), {"log"}),
        "a step of a microsecond, in one window": (
            set_fields(parameters__every="1us", parameters__length=None),
            {"log"},
        ),
        "a step spelled otherwise": (set_fields(parameters__every="1m"), {"log"}),
        "an origin spelled otherwise": (
            change_text('.000000Z",\n    "rare"', '.000Z",\n    "rare"'),
            {"log"},
        ),
        "another zone of the clock": (set_fields(parameters__tz="Asia/Tokyo"), {"figures"}),
    },
    "linked": {
        "not safe against linking": (set_fields(parameters__link_safe=False), {"requests"}),
        "a linked request": (show_linked, {"requests"}),
    },
    "quadrants": {
        "no quadrant": (put(BUNDLES, "x_max", 0, lambda x: x + 1e-3), {"cloaks"}),
        "no cells of the grid": (convert(BUNDLES, "x_min", lambda c: pc.add(c, 0.5)), {"cloaks"}),
        "a quadrant that does not hold its members": (
            swap(BUNDLES, ["x_min", "y_min", "x_max", "y_max", "geometry"], 0, 40),
            {"cloaks"},
        ),
        "the whole region at one instant": (widen_first, {"cloaks"}),
        "another tree": (set_fields(parameters__tree="u"), {"cloaks"}),
        "another algorithm": (set_fields(algorithm="refined"), {"bundles"}),
        "boxes": (set_fields(cloak="mbr"), {"bundles"}),
        "a row less": (edit(BUNDLES, lambda t: t.slice(1)), {"cloaks", "bundles"}),
        "cloaks as text": (convert(BUNDLES, "x_min", lambda c: c.cast(pa.string())), {"bundles"}),
    },
    "parts": {
        "a member in another part": (put(POLICY, "part", 0, lambda p: 1 - min(p, 1)), {"bundles"}),
        "parts exchanged": (exchange_parts, {"cloaks", "bundles"}),
        "a part of one": (
            lambda w: put(POLICY, "part", 0, find_next_part(w))(w),
            {"at least k users"},
        ),
        "parts numbered from 10^6": (put(POLICY, "part", 0, 10**6), {"policy"}),
        "a part below 0": (put(POLICY, "part", 0, -1), {"policy"}),
        "users of a part": (put(BUNDLES, "users", 0, lambda n: n + 1), {"bundles"}),
        "number of a part": (put(BUNDLES, "part", 0, 1), {"bundles"}),
        "larger parts asked for": (set_fields(parts__users=3), {"at least k users"}),
        "parts as large as bundles": (set_fields(parts__users=4), {"at least k users"}),
        "parts per day": (set_fields(parts__per="day"), {"manifest"}),
        "no parts": (set_fields(parts=None), {"policy"}),
    },
    "parts per instant": {
        "a second file for all to read": (lambda w: (w.folder / PARTS).chmod(0o640), {"policy"}),
        "a row less": (change_parts(lambda t: t.slice(1)), {"policy"}),
        "a row twice": (
            change_parts(lambda t: pa.concat_tables([t.slice(0, 1), t.slice(0, 1), t.slice(2)])),
            {"policy"},
        ),
        "an instant that is none": (
            change_parts(
                lambda t: set_column(t, "instant", pc.add(t["instant"], pa.scalar(1, pa.int32())))
            ),
            {"policy"},
        ),
        "members exchanged": (
            change_parts(lambda t: set_column(t, "part", t["part"].combine_chunks()[::-1])),
            {"bundles"},
        ),
    },
}


@pytest.mark.parametrize(
    ("world", "damage"), [(world, name) for world, damages in DAMAGES.items() for name in damages]
)
def test_damage_is_found(worlds, tmp_path, world, damage):
    damaged = worlds(world).copy(tmp_path / "damaged")
    change, expected = DAMAGES[world][damage]
    change(damaged)
    report = damaged.audit()
    assert expected <= list_failed(report)
    assert not report.passed
    assert "Do not publish this release." in report.verdict
    details = " ".join(check.detail for check in report.checks)
    assert not re.search(r"7000|own\d", details)


def mutate(rng, data):
    """Change some bytes: turn bits, or insert, remove, repeat or blank out a stretch."""
    at, size = rng.randrange(len(data)), rng.choice([1, 1, 2, 8, 40])
    new = {
        "turn": bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 : at + size],
        "insert": rng.randbytes(size) + data[at : at + size],
        "remove": b"",
        "repeat": 2 * data[at : at + size],
        "blank": bytes(size),
        "draw": rng.randbytes(size),
    }[rng.choice(["turn", "turn", "insert", "remove", "repeat", "blank", "draw"])]
    return data[:at] + new + data[at + size :]


FREE = {"software", "seed", "effort", "tree", "max_gap", "rare_below"}
"""Fields of a manifest that may be others, with the same release."""


def list_differing(one, other):
    """List the fields in which two manifests differ."""
    differing = set()
    for name in one.keys() | other.keys():
        if isinstance(one.get(name), dict) and isinstance(other.get(name), dict):
            differing |= list_differing(one[name], other[name])
        elif one.get(name) != other.get(name):
            differing.add(name)
    return differing


def check_mutations(world, folder, seeds):
    """Mutate files of a release, or its policy: what differs is found, or the same table."""
    for seed in seeds:
        rng = random.Random(seed)
        mutated = world.copy(folder / str(seed))
        name = rng.choice([*FILES, POLICY])
        path = mutated.policy if name == POLICY else mutated.release / name
        before = path.read_bytes()
        path.write_bytes(mutate(rng, before))
        path.chmod(0o600)
        passed = mutated.audit().passed
        if path.read_bytes() == before:
            assert passed
        elif name == POLICY and passed:
            assert pq.read_table(path).equals(pq.read_table(world.policy))
        elif name == "manifest.json" and passed:
            assert list_differing(read_manifest(world), read_manifest(mutated)) <= FREE, seed
        else:
            assert not passed, (seed, name)
        shutil.rmtree(mutated.folder)


@pytest.mark.parametrize("world", ["one log", "quadrants"])
def test_few_mutations_of_bytes(worlds, tmp_path, world):
    check_mutations(worlds(world), tmp_path, range(40))


@pytest.mark.long
@pytest.mark.parametrize("world", WORLDS)
def test_many_mutations_of_bytes(worlds, tmp_path, world):
    check_mutations(worlds(world), tmp_path, range(1000, 2200))


def list_numbers(fields, path=()):
    """List where the numbers of a manifest are."""
    for name, value in fields.items():
        if isinstance(value, dict):
            yield from list_numbers(value, (*path, name))
        elif type(value) in (int, float):
            yield (*path, name)


@pytest.mark.parametrize("world", ["one log", "two inputs"])
def test_every_number_of_a_manifest_is_checked(worlds, tmp_path, world):
    damaged = worlds(world).copy(tmp_path / "damaged")
    right = read_manifest(damaged)
    numbers = [path for path in list_numbers(right) if path[-1] not in FREE]
    assert len(numbers) > 30
    for path in numbers:
        manifest = json.loads(json.dumps(right))
        inner = manifest
        for name in path[:-1]:
            inner = inner[name]
        inner[path[-1]] += 1
        write_manifest(damaged, manifest)
        assert not damaged.audit().passed, path
