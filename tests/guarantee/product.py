"""Tiny worlds, published by the library itself."""

import csv
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from guarantee.worlds import Known, Senders, World
from reference.publishing import Publisher
from runs import anonymize
from small_logs import UNIT_CELLS, new_folder
from trajcloak.options import LogColumns
from trajcloak.release.result import RunResult

EVERY = 10
"""Seconds from an instant to the next."""

NAMES = ("what", "how")
"""The request attributes."""

CORNERS = ((0, 0), (9, 9), (0, 9), (9, 0))


class Product:
    """Publishes the worlds of a setting with ``anonymize``.

    Each bundle of the setting stays in a corner of its own, but what the library makes of that
    is what attackers know. Rows come at any second of their instant.

    Parameters
    ----------
    known
    is_text
        Whether to write files of text instead of tables.
    is_marked
        Two inputs: whether requests are rows of the same log that are no location reports.
    options
        More options of a run.

    Attributes
    ----------
    known
        The setting with the bundles that the library forms.
    """

    def __init__(
        self, known: Known, *, is_text: bool = False, is_marked: bool = False, **options: Any
    ) -> None:
        self.known = known
        self._is_text = is_text
        self._is_marked = is_marked
        self._options = options
        self._names = NAMES[: len(known.values[0])]
        self._rows = _locate(known)
        self._origin = 0
        with new_folder() as folder:
            result = self._anonymize(folder, ())
        self._origin = result.manifest["parameters"]["origin"]
        bundles: dict[int, dict[int, frozenset[Any]]] = {}
        for row in result.policy.to_pylist():
            of_window = bundles.setdefault(row["window"], {})
            members = of_window.get(row["bundle_id"], frozenset())
            of_window[row["bundle_id"]] = members | {row["user_id"]}
        self.known = replace(known, bundles=bundles)
        self._twin = Publisher(known.rows, known.windows, bundles, known.rules)
        self._tables: dict[bytes, pa.Table] = {}

    def publish(self, world: World) -> tuple[Hashable, Senders]:
        """Publish a world; what is shown must be what the slow twin shows."""
        with new_folder() as folder:
            result = self._anonymize(folder, world)
            result.write(folder / "release")
            files = {file.name: file.read_bytes() for file in (folder / "release").iterdir()}
        assert len(files) == 3
        table = self._read(files["requests.parquet"])
        shown = self._twin.publish(world)
        assert self._list_entries(table) == sorted(map(repr, set(shown.values()))), world
        assert result.manifest["requests"] == table.num_rows
        assert result.manifest["withheld"]["sets"] == self._twin.count_withheld_sets()
        self._check_types(table, set(shown.values()))
        return tuple(sorted(files.items())), self._twin.find_senders(world, shown)

    def _anonymize(self, folder: Path, world: World) -> RunResult:
        rules = self.known.rules
        options: dict[str, Any] = {
            "every": str(EVERY),
            "length": len(self.known.windows[0]),
            "missing": "hold",
            "algorithm": "traj-anon",
            "rare": rules.rare,
            "rare_below": rules.rare_below,
            "link_safe": rules.link_safe,
            "threads": 1,
            **UNIT_CELLS,
            **self._options,
        }
        if rules.vocabulary is not None:
            allowed = (sorted(values) for values in rules.vocabulary)
            options["vocabulary"] = dict(zip(self._names, allowed, strict=True))
        user, time, x, y = map(list, zip(*self._rows, strict=True))
        places = {"user_id": user, "time": time, "x": x, "y": y}
        columns = LogColumns(requests=self._names)
        if rules.one_log:
            options["rows_alike"] = True
            places |= self._name_values(_fill_rows(self.known, world))
        else:
            sent = {
                "user_id": [user for user, _, _ in world],
                # At other seconds than the reports.
                "time": [
                    self._origin + EVERY * instant + number % EVERY
                    for number, (_, instant, _) in enumerate(world)
                ],
            }
            sent |= self._name_values([values for *_, values in world])
            if self._is_marked:
                columns = LogColumns(requests=self._names, is_report="is_report")
                places = _append(places, sent)
            else:
                options["request_log"] = self._build(sent, folder / "requests.csv")
        source = self._build(places, folder / "log.csv")
        return anonymize(source, rules.k, columns=columns, **options)

    def _name_values(self, contents: Sequence[Sequence[Any]]) -> dict[str, list[Any]]:
        return {
            name: [values[number] for values in contents] for number, name in enumerate(self._names)
        }

    def _build(self, columns: dict[str, list[Any]], path: Path) -> Any:
        """Build a table, or write it to a file of text."""
        if self._is_text:
            with path.open("w", newline="") as file:
                writer = csv.writer(file)
                writer.writerow(columns)
                writer.writerows(zip(*columns.values(), strict=True))
            return path
        types = {"time": pa.int64(), "x": pa.float64(), "y": pa.float64()}
        return pa.table(
            {name: pa.array(c, types.get(name, pa.string())) for name, c in columns.items()}
        )

    def _read(self, file: bytes) -> pa.Table:
        if file not in self._tables:
            self._tables[file] = pq.read_table(pa.BufferReader(file))
        return self._tables[file]

    def _list_entries(self, table: pa.Table) -> list[str]:
        columns = [table[name].to_pylist() for name in ("window", "bundle_id", "instant")]
        values = [table[name].cast(pa.string()).to_pylist() for name in self._names]
        entries = zip(*columns, zip(*values, strict=True), strict=True)
        return sorted(map(repr, entries))

    def _check_types(self, table: pa.Table, published: set[Any]) -> None:
        """Types of text are found from what is published; those of a table stay."""
        if not published:
            return
        expected = self._twin.find_types(published) if self._is_text else ["text"] * 2
        for name, kind in zip(self._names, expected, strict=False):
            actual = str(table.schema.field(name).type).replace("double", "float64")
            assert actual.replace("large_", "").replace("string", "text") == kind, name


def _locate(known: Known) -> list[tuple[Any, int, float, float]]:
    """Give each row a second of its instant and a place near the others of its bundle."""
    rows = []
    repeats: Counter[Any] = Counter()
    for user, instant in known.rows:
        window = instant // len(known.windows[0])
        bundles = known.bundles[window].items()
        x, y = CORNERS[next((b for b, members in bundles if user in members), 0)]
        number = ord(user) - ord("a")
        second = (7 * number + 3 * instant + repeats[user, instant]) % EVERY
        repeats[user, instant] += 1
        rows.append((user, EVERY * instant + second, float(x + number % 3), float(y + number // 3)))
    return rows


def _append(places: dict[str, list[Any]], sent: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """Append requests to location reports, as rows that say that they are none."""
    num_places, num_sent = len(places["time"]), len(sent["time"])
    joined = {
        name: places.get(name, [None] * num_places) + sent.get(name, [None] * num_sent)
        for name in (*places, *sent)
    }
    return {**joined, "is_report": ["true"] * num_places + ["false"] * num_sent}


def _fill_rows(known: Known, world: World) -> list[tuple[Any, ...]]:
    """List what each row carries; of several rows of a user in an instant the first do."""
    left = list(world)
    contents = []
    for row in known.rows:
        found = next((request for request in left if request[:2] == row), None)
        if found is not None:
            left.remove(found)
        contents.append((None,) * len(known.values[0]) if found is None else found[2])
    assert not left
    return contents
