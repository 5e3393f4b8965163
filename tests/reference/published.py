"""What a release must be, checked by plain loops over its files and the rows of the log."""

import json
from collections import Counter, defaultdict

import pyarrow.parquet as pq
import pyproj


def find_faults(release, policy, rows, k):
    """List what is wrong with a release and its policy file.

    ``rows``: (user, time, x, y, request) of the log. A row that stands at an instant must be
    inside the cloak of its user's bundle there; what is published must have been sent by a
    user of the bundle; bundles have at least k users, who are in no other bundle.
    """
    bundles = pq.read_table(release / "bundles.parquet").to_pylist()
    requests = pq.read_table(release / "requests.parquet").to_pylist()
    manifest = json.loads((release / "manifest.json").read_text(encoding="utf-8"))
    mapped = pq.read_table(policy).to_pylist()
    faults = []
    members = defaultdict(set)
    for row in mapped:
        members[row["window"], row["bundle_id"]].add(row["user_id"])
    for pair, number in Counter((row["window"], row["user_id"]) for row in mapped).items():
        if number > 1:
            faults.append(f"a user of window {pair[0]} is in {number} bundles")
    if set(members) != {(row["window"], row["bundle_id"]) for row in bundles}:
        faults.append("the policy has other bundles than the release")
    for row in bundles:
        size = len(members[row["window"], row["bundle_id"]])
        if size < k or size != row["users"]:
            faults.append(f"a bundle has {size} users, and says {row['users']}")
    sent = defaultdict(set)
    for user, _, _, _, request in rows:
        sent[user].add(request)
    for row in requests:
        senders = members[row["window"], row["bundle_id"]]
        if not any(row["what"] in sent[user] for user in senders):
            faults.append("a request was sent by nobody of its bundle")
    return faults + _find_outside(bundles, mapped, manifest["crs"], rows)


def _find_outside(bundles, mapped, crs, rows):
    to_plane = (lambda x, y: (x, y)) if crs is None else (
        pyproj.Transformer.from_crs("OGC:CRS84", crs, always_xy=True).transform
    )  # fmt: skip
    cloaks = {}
    for row in bundles:
        cloaks[row["window"], row["bundle_id"], row.get("t_start", row["instant"])] = row
    bundles_of = defaultdict(list)
    for row in mapped:
        bundles_of[row["user_id"]].append((row["window"], row["bundle_id"]))
    faults = []
    for user, time, x, y, _ in rows:
        for pair in bundles_of[user]:
            cloak = cloaks.get((*pair, time))
            if cloak is not None:
                at_x, at_y = to_plane(x, y)
                inside_x = cloak["x_min"] <= at_x <= cloak["x_max"]
                if not (inside_x and cloak["y_min"] <= at_y <= cloak["y_max"]):
                    faults.append("a location is outside its cloak")
    return faults
