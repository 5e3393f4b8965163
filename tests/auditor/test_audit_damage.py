"""Each damage is planted alone; the test names exactly the checks that must notice."""

import json
import os
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from reference.release_by_hand import (
    EDGES,
    geographic,
    planar,
    rectangle_wkb,
    refresh,
    sort_requests,
)
from trajcloak.auditor.findings import CHECKS

NEEDS_CONTENTS = {
    "windows",
    "one bundle per user",
    "at least k users",
    "locations",
    "request rows",
    "requests",
    "rare values",
    "counts",
    "costs",
    "withheld",
    "ingest",
    "user ids",
}


@pytest.mark.parametrize("make", [planar, geographic])
@pytest.mark.parametrize("cloak", ["mbr", "quad"])
@pytest.mark.parametrize("missing", ["withhold", "hold"])
def test_undamaged(find_failed, make, cloak, missing):
    assert find_failed(make(cloak=cloak, missing=missing, height=7)) == set()


def test_user_moved_to_another_bundle(find_failed):
    example = planar()
    first, last = example.policy[0], example.policy[-1]
    first["bundle_id"], last["bundle_id"] = last["bundle_id"], first["bundle_id"]
    assert find_failed(example) == {"locations", "requests"}


def test_cloak_shrunk(find_failed):
    example = planar()
    row = example.bundles[-1]
    row["x_max"] = row["x_min"] + 16.0
    refresh(example)
    assert find_failed(example) == {"locations"}


def test_location_just_outside_a_cloak(find_failed):
    example = planar()
    log_row = next(row for row in example.log if row["user_id"] == example.policy[-1]["user_id"])
    for row in example.log:
        if row["user_id"] == log_row["user_id"] and row["time"] == log_row["time"]:
            row["x"] = example.bundles[-4]["x_max"] + 1e-9
    assert find_failed(example) == {"locations"}


def test_bundle_below_k(find_failed):
    def group(_, users):
        return [users[:2], *(users[start : start + 4] for start in range(2, 30, 4)), users[30:]]

    assert find_failed(planar(group=group)) == {"at least k users"}


def test_wrong_users_column(find_failed):
    example = planar()
    for row in example.bundles:
        if row["bundle_id"] == 5:
            row["users"] += 1
    assert find_failed(example) == {"at least k users"}


def test_users_column_changes_within_a_bundle(find_failed):
    example = planar()
    example.bundles[1]["users"] += 1
    assert find_failed(example) == {"bundle rows"}


def test_request_added(find_failed):
    example = planar()
    example.requests.append(example.requests[0] | {"category": "planted", "amount": 1})
    sort_requests(example)
    refresh(example)
    assert find_failed(example) == {"requests"}


def test_request_removed(find_failed):
    example = planar()
    del example.requests[10]
    refresh(example)
    assert find_failed(example) == {"requests"}


def test_request_moved_to_another_instant(find_failed):
    example = geographic()
    row = next(row for row in example.requests if row["instant"] == 1)
    row["instant"] = 2
    sort_requests(example)
    refresh(example)
    assert "requests" in find_failed(example)


def test_request_moved_to_another_bundle(find_failed):
    example = planar()
    example.requests[0] |= {"bundle_id": 11, "category": "second", "amount": 77}
    sort_requests(example)
    refresh(example)
    assert find_failed(example) == {"requests"}


def test_request_duplicated(find_failed):
    example = planar()
    example.requests.insert(3, dict(example.requests[3]))
    refresh(example)
    assert find_failed(example) == {"request rows"}


def test_requests_out_of_order(find_failed):
    example = planar()
    same = [r for r in example.requests if (r["bundle_id"], r["instant"]) == (0, 0)]
    assert len(same) > 1
    example.requests[0], example.requests[1] = example.requests[1], example.requests[0]
    assert find_failed(example) == {"request rows"}


def test_request_of_another_window(find_failed):
    example = geographic()
    example.requests[0]["window"] = 1
    assert find_failed(example) == {"request rows", "requests"}


def test_requests_need_null_first(find_failed):
    example = planar()
    row = next(row for row in example.requests if row["category"] is None)
    at = example.requests.index(row)
    example.requests.remove(row)
    key = row["bundle_id"], row["instant"]
    while (example.requests[at]["bundle_id"], example.requests[at]["instant"]) == key:
        at += 1
    example.requests.insert(at, row)
    assert find_failed(example) == {"request rows"}


def test_wrong_cost(find_failed):
    example = planar()
    example.manifest["cost"] *= 1 + 1e-8
    assert find_failed(example) == {"costs"}


def test_wrong_mean_cloak_area(find_failed):
    example = planar()
    example.manifest["mean_cloak_area"] += 1
    assert find_failed(example) == {"costs"}


@pytest.mark.parametrize(
    "name",
    ["windows", "instants", "users", "bundles", "smallest_bundle", "requests", "generalised"],
)
def test_wrong_count(find_failed, name):
    example = geographic()
    example.manifest[name] += 1
    assert find_failed(example) == {"counts"}


@pytest.mark.parametrize("name", ["users", "requests"])
def test_wrong_withheld(find_failed, name):
    example = geographic()
    example.manifest["withheld"][name] += 1
    assert find_failed(example) == {"withheld"}


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("rows", 1),
        ("repeated", 99),
        ("users", 19),
        ("start", "2024-05-01T08:01:00Z"),
        ("end", "2024-05-01T08:01:00Z"),
        ("instants", 3),
        ("interval", None),
        ("interval", {"p5": "1s", "median": "60s", "p95": "70s"}),
        ("long_gaps", 77),
        ("user_instants", {"reported": 1, "interpolated": 1, "held": 1, "missing": 1}),
        ("crs", None),
        ("zone", "Europe/Berlin"),
    ],
)
def test_wrong_report_on_the_log(find_failed, name, wrong):
    example = geographic()
    example.manifest["ingest"][name] = wrong
    assert find_failed(example) == {"ingest"}


@pytest.mark.parametrize(
    "reason", ["missing_location", "window_below_k", "suppressed", "rare_value"]
)
@pytest.mark.parametrize("name", ["user_windows", "requests"])
def test_wrong_reason(find_failed, reason, name):
    example = geographic()
    example.manifest["withheld"]["why"][reason][name] += 1
    assert find_failed(example) == {"withheld"}


def test_wrong_suppressed(find_failed):
    example = geographic()
    example.manifest["suppressed"] += 1
    assert find_failed(example) == {"one bundle per user"}


def test_missing_window(find_failed):
    example = geographic(suppressed=())
    for table in (example.bundles, example.requests, example.policy):
        table[:] = [row for row in table if row["window"] == 0]
    refresh(example)
    assert find_failed(example) == {"windows", "one bundle per user", "withheld"}


def test_window_below_k_is_published(find_failed):
    example = geographic(k=2, suppressed=())
    example.manifest["k"] = 4
    assert find_failed(example) == {"windows", "at least k users"}


def test_user_missing_from_the_policy(find_failed):
    example = planar(k=2, group=lambda _, users: [users[:3], users[3:20], users[20:]])
    del example.policy[20]
    refresh(example)
    assert {"one bundle per user", "withheld"} <= find_failed(example)


def test_user_twice_in_the_policy(find_failed):
    example = planar()
    example.policy.append(example.policy[0] | {"bundle_id": 11})
    refresh(example)
    assert find_failed(example) == {"one bundle per user"}


def test_unknown_user_in_the_policy(find_failed):
    example = planar()
    example.policy.append(example.policy[0] | {"user_id": 99})
    assert find_failed(example) == {"one bundle per user"}


def test_unknown_bundle_in_the_policy(find_failed):
    example = planar()
    example.policy[0]["bundle_id"] = 99
    assert "one bundle per user" in find_failed(example)


def test_user_who_does_not_take_part(find_failed):
    example = geographic()
    example.policy.append({"window": 0, "user_id": "device-0018", "bundle_id": 0})
    refresh(example)
    assert find_failed(example) == {"one bundle per user", "withheld"}


def test_bundle_ids_permuted(find_failed):
    example = planar()
    swap = {0: 3, 3: 0}
    for table in (example.bundles, example.requests, example.policy):
        for row in table:
            row["bundle_id"] = swap.get(row["bundle_id"], row["bundle_id"])
    example.bundles.sort(key=lambda row: (row["bundle_id"], row["instant"]))
    sort_requests(example)
    assert find_failed(example) == {"bundle order"}


def test_rows_out_of_order(find_failed):
    example = planar()
    example.bundles.reverse()
    assert find_failed(example) == {"bundle order"}


def test_bundle_ids_with_a_gap(find_failed):
    example = planar()
    for table in (example.bundles, example.requests, example.policy):
        for row in table:
            row["bundle_id"] += 1
    assert find_failed(example) == {"bundle rows"}


def test_bundle_without_a_row(find_failed):
    example = planar()
    del example.bundles[5]
    refresh(example)
    assert find_failed(example) == {"bundle rows", "bundle order"} | NEEDS_CONTENTS


def test_no_bundles(find_failed):
    def empty(paths):
        path = paths.release / "bundles.parquet"
        pq.write_table(pq.read_table(path).slice(0, 0), path)

    assert "bundle rows" in find_failed(planar(), empty)


def test_cloak_off_the_grid(find_failed):
    example = planar()
    example.bundles[-1]["x_max"] += 0.25
    refresh(example)
    assert find_failed(example) == {"cloaks"}


def test_cloak_outside_the_region(find_failed):
    example = planar()
    example.bundles[-1]["x_max"] = 1040.0
    refresh(example)
    assert find_failed(example) == {"cloaks", "locations"}


@pytest.mark.parametrize("edge", [float("nan"), float("inf"), 1e308])
def test_cloak_without_bounds(find_failed, edge):
    example = planar()
    example.bundles[-1]["y_max"] = edge
    cost, mean = example.manifest["cost"], example.manifest["mean_cloak_area"]
    refresh(example)
    example.manifest |= {"cost": cost, "mean_cloak_area": mean}
    assert "cloaks" in find_failed(example)


def test_cloak_without_an_area(find_failed):
    example = planar()
    example.bundles[-1]["x_max"] = example.bundles[-1]["x_min"]
    refresh(example)
    assert find_failed(example) == {"cloaks", "locations"}


def test_no_quadrant(find_failed):
    example = planar()
    example.manifest["cloak"] = "quad"
    assert find_failed(example) == {"cloaks"}


def test_semi_quadrant_cut_in_y(find_failed):
    example = planar(cloak="quad", group=lambda _, users: [users])
    for row in example.bundles:
        assert [row[edge] for edge in EDGES] == [0.0, 0.0, 1024.0, 1024.0]
        row["y_max"] = 512.0
    refresh(example)
    assert find_failed(example) == {"cloaks", "locations"}


def test_geometry_differs(find_failed):
    example = planar()
    example.bundles[7]["geometry"] = rectangle_wkb(0.0, 0.0, 16.0, 16.0)
    assert find_failed(example) == {"geometry"}


def test_geometry_is_longer(find_failed):
    example = planar()
    example.bundles[7]["geometry"] += b"\0"
    assert find_failed(example) == {"geometry"}


def test_shifted_moments(find_failed):
    example = geographic()
    for row in example.bundles:
        row["t_start"] += 1
    assert find_failed(example) == {"instants"}


def test_shifted_origin(find_failed):
    example = geographic()
    example.manifest["parameters"]["origin"] = "2024-05-01T07:59:00+00:00"
    expected = {"parameters", "instants", "bundle rows", "bundle order"} | NEEDS_CONTENTS
    assert find_failed(example) == expected


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("origin", "2024-05-01T08:00:00"),
        ("origin", 0),
        ("every", "soon"),
        ("every", "0s"),
        ("every", "1us"),
        ("every", f"{10**30}d"),
        ("max_gap", 60),
        ("max_gap", "-60s"),
    ],
)
def test_unusable_parameter(find_failed, name, value):
    example = geographic()
    example.manifest["parameters"][name] = value
    assert "parameters" in find_failed(example)


def test_huge_length_is_one_window(find_failed):
    example = planar()
    example.manifest["parameters"]["length"] = 2**61
    assert find_failed(example) == set()


def test_shorter_gap_than_was_used(find_failed):
    example = geographic()
    example.manifest["parameters"]["max_gap"] = "30s"
    assert "one bundle per user" in find_failed(example)


def test_region_too_small(find_failed):
    example = planar()
    example.manifest["region"]["side"] = 512.0
    example.manifest["height"] = 5
    assert find_failed(example) == {"region", "cloaks"}


def test_wrong_projection(find_failed):
    example = geographic()
    example.manifest["crs"] = example.manifest["crs"].replace("laea", "aeqd")
    assert find_failed(example) == {"parameters", "region"} | NEEDS_CONTENTS


def test_extra_column(find_failed):
    example = planar()
    hidden = pa.array([0] * len(example.requests))
    example.extra_columns["requests.parquet"] = {"hidden": hidden}
    assert find_failed(example) == {"requests file"} | NEEDS_CONTENTS


def test_extra_column_of_the_bundles(find_failed):
    example = planar()
    example.extra_columns["bundles.parquet"] = {"hidden": pa.array([0] * len(example.bundles))}
    failed = find_failed(example)
    assert {"bundles file", "bundle rows"} <= failed


def test_wrong_type(find_failed):
    example = planar()
    example.columns["amount"] = pa.int64()

    def narrow(paths):
        table = pq.read_table(paths.log)
        at = table.column_names.index("amount")
        pq.write_table(table.set_column(at, "amount", table["amount"].cast(pa.int32())), paths.log)

    assert find_failed(example, narrow) == {"requests file"} | NEEDS_CONTENTS


def test_extra_metadata(find_failed):
    example = planar()
    example.extra_metadata["requests.parquet"] = {"note": "anything"}
    assert find_failed(example) == {"requests file"}


def test_geo_metadata_with_another_bounding_box(find_failed):
    example = planar()

    def damage(paths):
        path = paths.release / "bundles.parquet"
        table = pq.read_table(path)
        geo = json.loads(table.schema.metadata[b"geo"])
        geo["columns"]["geometry"]["bbox"][0] += 1
        pq.write_table(table.replace_schema_metadata({"geo": json.dumps(geo)}), path)

    assert find_failed(example, damage) == {"geometry"}


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
