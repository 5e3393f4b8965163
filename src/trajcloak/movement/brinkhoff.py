"""Output of Brinkhoff's network-based generator of moving objects.

One line per object and time stamp, separated by tabs: what happens (``newpoint``,
``point``, ``disappearpoint``), id, report number, class, time, x, y, speed, and the
place of the next node.
"""

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from trajcloak.movement.places import find_bad_place
from trajcloak.movement.source import Source
from trajcloak.movement.text import BadLine, Layout, read_tables

ACTIONS = pa.array(["newpoint", "point", "disappearpoint"])

LAYOUT = Layout(
    separator="\t",
    fields=("action", "id", "report", "class", "time", "x", "y", "speed", "next_x", "next_y"),
    types={
        "action": pa.string(),
        "id": pa.int64(),
        "class": pa.int64(),
        "time": pa.int64(),
        "x": pa.float64(),
        "y": pa.float64(),
        "speed": pa.float64(),
    },
)


def read(source: Source) -> Iterator[pa.RecordBatch]:
    """Yield the points of all files, which are parts of one run of the generator."""
    for file in source.files:
        for table in read_tables(source, file, LAYOUT, _shape):
            yield from table.to_batches()


def _shape(table: pa.Table) -> pa.Table:
    if not pc.all(pc.is_in(table["action"], ACTIONS)).as_py():
        raise BadLine(
            f"field 'action' is not known; expected one of {', '.join(ACTIONS.to_pylist())}"
        )
    if bad := find_bad_place(table, geographic=False):
        raise BadLine(bad[1])
    if not pc.all(pc.is_finite(table["speed"])).as_py():
        raise BadLine("field 'speed' is not finite; expected a number")
    return table.select(["id", "time", "x", "y", "class", "speed"]).rename_columns(
        ["user_id", "time", "x", "y", "class", "speed"]
    )
