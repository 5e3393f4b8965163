"""Small releases with their logs and policies, to be damaged."""

import random
import shutil
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from runs import anonymize
from trajcloak.auditor import audit_files
from trajcloak.options import LogColumns
from trajcloak.release.row_groups import encode_row_group, join_row_groups

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
WORDS = ["cafe", "bank", "zoo"]
VOCABULARY = {"what": [*WORDS, *(f"own{user}" for user in range(30))], "level": ["1", "2"]}


@dataclass(frozen=True)
class Released:
    """A log in files, its release and its policy, and how to audit them."""

    folder: Path
    k: int
    columns: LogColumns
    options: dict = field(default_factory=dict)
    request_log: Path | None = None

    @property
    def release(self):
        return self.folder / "release"

    @property
    def policy(self):
        return self.folder / "policy.parquet"

    @property
    def log(self):
        return self.folder / "log.parquet"

    def anonymize(self):
        made = anonymize(
            self.log,
            self.k,
            columns=self.columns,
            request_log=self.request_log,
            threads=1,
            **self.options,
        )
        made.write(self.release, self.policy)

    def audit(self, **options):
        words = self.options.get("vocabulary")
        given = {"request_log": self.request_log, "vocabulary": words} | options
        return audit_files(self.log, self.release, self.policy, self.columns, **given)

    def copy(self, folder):
        shutil.copytree(self.folder, folder)
        second = self.request_log and folder / self.request_log.name
        return Released(folder, self.k, self.columns, self.options, second)

    def change(self, name, change):
        """Change the table of a Parquet file, and encode it as the product does."""
        path = self.policy if name == "policy.parquet" else self.release / name
        write_canonical(path, change(pq.read_table(path)))


def write_canonical(path, table):
    """Write a table as the product does, so that only its values differ."""
    is_bundles = path.name == "bundles.parquet"
    values = table.schema.types[3:]
    all_text = path.name == "requests.parquet" and all(t == pa.string() for t in values)
    if all_text:
        for number in range(3, table.num_columns):
            encoded = table.column(number).cast(pa.dictionary(pa.int32(), pa.string()))
            table = table.set_column(number, table.column_names[number], encoded)
    batch = pa.record_batch(
        [column.combine_chunks() for column in table.columns], schema=table.schema
    )
    with path.open("wb") as stream:
        stores = is_bundles or (path.name == "requests.parquet" and not all_text)
        join_row_groups([encode_row_group(batch, store_schema=stores)], stream)


def draw_rows(seed, *, num_users=40, num_instants=8, skipping=0.0):
    """Draw rows of users who walk about in a town, some of them with a request."""
    rng = random.Random(seed)
    rows = []
    for user in range(num_users):
        x, y = rng.randint(100, 900), rng.randint(100, 900)
        for instant in range(num_instants):
            x, y = x + rng.randint(-20, 20), y + rng.randint(-20, 20)
            if rng.random() < skipping:
                continue
            row = {"user_id": 700_000 + 13 * user, "time": instant, "x": float(x), "y": float(y)}
            if rng.random() < 0.6:
                row |= {
                    "what": rng.choices([*WORDS, f"own{user}"], [5, 5, 5, 4])[0],
                    "level": rng.choice([None, 1, 2]),
                }
            rows.append({"what": None, "level": None} | row)
    return rows


def release_one_log(folder, **options):
    """Rows carry requests; users skip some instants, so that some sets are not eligible."""
    folder.mkdir()
    columns = LogColumns(requests=("what", "level"))
    asked = {"length": 4, "members": 4, "max_gap": "3", "rows_alike": True} | options
    made = Released(folder, 3, columns, asked)
    pq.write_table(pa.Table.from_pylist(draw_rows(1, skipping=0.1)), made.log)
    made.anonymize()
    return made


def release_two_inputs(folder, **options):
    """Locations in degrees with text ids and times; requests in a log of their own."""
    folder.mkdir()
    locations, requests = [], []
    for row in draw_rows(2):
        who = {"user_id": f"user-{row['user_id']}"}
        time = NOON + timedelta(minutes=row["time"])
        place = {"lon": 13.3 + row["x"] / 1e4, "lat": 52.4 + row["y"] / 1e4}
        locations.append({**who, "time": time, **place})
        if row["what"] is not None:
            sent = {"what": row["what"], "level": row["level"] and str(row["level"])}
            requests.append({**who, "time": time + timedelta(seconds=17), **sent})
    asked = {"length": 4, "vocabulary": VOCABULARY, "rare": "other"} | options
    columns = LogColumns(requests=("what", "level"))
    made = Released(folder, 3, columns, asked, folder / "requests.parquet")
    pq.write_table(pa.Table.from_pylist(locations), made.log)
    pq.write_table(pa.Table.from_pylist(requests), made.request_log)
    made.anonymize()
    return made


WORLDS = {
    "one log": release_one_log,
    "two inputs": release_two_inputs,
    "linked": lambda folder: release_two_inputs(folder, rare="keep", link_safe=True),
    "quadrants": lambda folder: release_one_log(folder, cloak="quad", algorithm="traj-anon"),
    "parts": lambda folder: release_one_log(folder, parts=2),
    "parts per instant": lambda folder: release_one_log(folder, parts=2, parts_per="instant"),
}
