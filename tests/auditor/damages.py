"""What can be done to a release or its policy: functions that damage a world."""

import json
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from auditor.released import WORDS, write_canonical
from trajcloak.parquet.thrift import decode_struct, encode_struct

BUNDLES, REQUESTS = "bundles.parquet", "requests.parquet"
POLICY, PARTS = "policy.parquet", "policy-parts.parquet"
FILES = (BUNDLES, REQUESTS, "manifest.json")


def edit(name, change):
    """Damage the table of a file."""
    return lambda world: world.change(name, change)


def set_column(table, column, values):
    return table.set_column(table.column_names.index(column), column, values)


def convert(name, column, change):
    """Change a column of a file."""
    return edit(name, lambda table: set_column(table, column, change(table[column])))


def put(name, column, row, value):
    """Set a value of a file."""

    def change(values):
        listed = values.to_pylist()
        listed[row] = value(listed[row]) if callable(value) else value
        return pa.array(listed, values.type)

    return convert(name, column, change)


def swap(name, columns, one, other):
    """Exchange the values of two rows in some columns of a file."""

    def change(table):
        order = np.arange(table.num_rows)
        order[[one, other]] = order[[other, one]]
        for column in columns:
            table = set_column(table, column, table[column].take(pa.array(order)))
        return table

    return edit(name, change)


def set_fields(**fields):
    """Change fields of the manifest, and spell it as usual."""

    def damage(world):
        manifest = read_manifest(world)
        for name, value in fields.items():
            *path, last = name.split("__")
            inner = manifest
            for step in path:
                inner = inner[step]
            inner[last] = value
        write_manifest(world, manifest)

    return damage


def read_manifest(world):
    return json.loads((world.release / "manifest.json").read_text(encoding="utf-8"))


def write_manifest(world, manifest, **spelling):
    spelling = {"indent": 2, "sort_keys": True, "ensure_ascii": False} | spelling
    text = json.dumps(manifest, **spelling) + "\n"
    (world.release / "manifest.json").write_text(text, encoding="utf-8")


def change_text(old, new, count=1):
    """Replace text of the manifest."""

    def damage(world):
        path = world.release / "manifest.json"
        text = path.read_text(encoding="utf-8")
        assert old in text
        path.write_text(text.replace(old, new, count), encoding="utf-8")

    return damage


def add_request(**values):
    """Publish one more request in the first set that has any, where it sorts last."""

    def change(table):
        first = table.slice(0, 1).to_pylist()[0] | values
        more = pa.Table.from_pylist([first], table.schema)
        return pa.concat_tables([table, more]).sort_by(
            [(name, "ascending") for name in table.column_names]
        )

    return edit(REQUESTS, change)


def write_otherwise(name, **options):
    """Write the same table with other settings of the encoder."""

    def damage(world):
        path = world.release / name
        table = pq.read_table(path)
        if "schema" in options:
            table = table.cast(options["schema"](table.schema))
        if "metadata" in options:
            table = table.replace_schema_metadata(
                (table.schema.metadata or {}) | options["metadata"]
            )
        rest = {n: v for n, v in options.items() if n not in ("schema", "metadata")}
        pq.write_table(table, path, **{"compression": "zstd", "compression_level": 1} | rest)

    return damage


def change_footer(name, change):
    """Change the footer of a Parquet file, which is Thrift."""

    def damage(world):
        path = world.release / name
        data = path.read_bytes()
        length = int.from_bytes(data[-8:-4], "little")
        footer = decode_struct(data[-8 - length : -8])
        change(footer)
        text = encode_struct(footer)
        path.write_bytes(data[: -8 - length] + text + len(text).to_bytes(4, "little") + b"PAR1")

    return damage


def get_chunk(footer, column=0):
    """The metadata of a column in the first row group."""
    return footer[4].value.items[0][1].value.items[column][3].value


def set_value(struct, number, value):
    struct[number].value = value


def hide_in_dictionary(name, column, text):
    """Put a text that no row has into the dictionary of a column."""

    def damage(world):
        path = world.release / name
        table = pq.read_table(path)
        encoded = table[column].combine_chunks().dictionary_encode()
        words = pa.concat_arrays([encoded.dictionary, pa.array([text])])
        hidden = pa.DictionaryArray.from_arrays(encoded.indices, words)
        pq.write_table(set_column(table, column, hidden), path, compression="zstd")

    return damage


def append_bytes(name, text):
    def damage(world):
        path = world.release / name
        path.write_bytes(path.read_bytes() + text)

    return damage


def insert_bytes(name, at, text):
    def damage(world):
        path = world.release / name
        data = path.read_bytes()
        path.write_bytes(data[:at] + text + data[at:])

    return damage


def move_members(world):
    """Exchange two members of different bundles of a window."""
    table = pq.read_table(world.policy)
    bundle = table["bundle_id"].to_pylist()
    swap(POLICY, ["user_id"], 0, bundle.index(1))(world)


def split_a_bundle(world):
    """Give the last bundle's users to two bundles of fewer users each."""
    table = pq.read_table(world.policy)
    bundle = table["bundle_id"].to_numpy().copy()
    bundle[-2:] = bundle.max() + 1
    write_canonical(world.policy, set_column(table, "bundle_id", pa.array(bundle)))


def show_withheld_set(world):
    """Publish a request in a set that is not eligible."""
    log = pq.read_table(world.log).filter(pc.field("what").is_valid())
    policy = pq.read_table(world.policy).to_pylist()
    bundle_of = {(row["window"], row["user_id"]): row["bundle_id"] for row in policy}
    shown = {
        (row["bundle_id"], row["instant"])
        for row in pq.read_table(world.release / REQUESTS).to_pylist()
    }
    for row in log.to_pylist():
        window = row["time"] // 4
        place = bundle_of.get((window, row["user_id"])), row["time"]
        if place[0] is not None and place not in shown:
            add_request(
                window=window, bundle_id=place[0], instant=row["time"], what=row["what"],
                level=row["level"],
            )(world)  # fmt: skip
            return
    raise AssertionError("every set is shown")


def publish(column, value):
    return add_request(**{column: value})


def link(name):
    def damage(world):
        path = world.release / name
        shutil.move(path, world.folder / name)
        path.symlink_to(world.folder / name)

    return damage


def find_absent(world):
    """The id of a user who does not take part in the first window."""
    users = set(pq.read_table(world.log)["user_id"].to_pylist())
    policy = pq.read_table(world.policy).filter(pc.field("window") == 0)
    return min(users - set(policy["user_id"].to_pylist()))


def find_rare(world):
    """A value of the log that is not published."""
    shown = pq.read_table(world.release / REQUESTS)["what"].to_pylist()
    return min(set(pq.read_table(world.log)["what"].drop_null().to_pylist()) - set(shown))


def show_linked(world):
    """Publish a request that was sent, and withheld."""
    policy = pq.read_table(world.policy).to_pylist()
    bundle_of = {(row["window"], row["user_id"]): row["bundle_id"] for row in policy}
    shown = pq.read_table(world.release / REQUESTS).to_pylist()
    start = min(pq.read_table(world.log)["time"].to_pylist())
    for row in pq.read_table(world.request_log).to_pylist():
        instant = (row["time"] - start).seconds // 60
        window = instant // 4
        place = {
            "window": window,
            "bundle_id": bundle_of[window, row["user_id"]],
            "instant": instant,
        }
        entry = place | {"what": row["what"], "level": row["level"]}
        if entry not in shown and row["what"] in WORDS:
            add_request(**entry)(world)
            return
    raise AssertionError("all requests are shown")


def find_marker(world):
    return pq.read_table(world.release / REQUESTS)["what"].to_pylist().index("(other)")


def widen_first(world):
    """Make the first cloak the whole region."""
    region = read_manifest(world)["region"]
    (x, y), side = (region["x_min"], region["y_min"]), region["side"]
    for name, value in {"x_min": x, "y_min": y, "x_max": x + side, "y_max": y + side}.items():
        put(BUNDLES, name, 0, value)(world)


def exchange_parts(world):
    """Number the parts of all bundles backwards, in the policy and the release."""
    table = pq.read_table(world.policy)
    part, bundle = table["part"].to_numpy(), table["bundle_id"].to_numpy()
    last = np.array([part[bundle == b].max() for b in range(bundle.max() + 1)])
    backwards = pa.array((last[bundle] - part).astype(np.int32))
    write_canonical(world.policy, set_column(table, "part", backwards))


def find_next_part(world):
    table = pq.read_table(world.policy)
    part, bundle = table["part"].to_numpy(), table["bundle_id"].to_numpy()
    return int(part[bundle == bundle[0]].max()) + 1


def change_parts(change):
    """Damage the second policy file, of parts per instant."""

    def damage(world):
        path = world.folder / PARTS
        pq.write_table(change(pq.read_table(path)), path, store_schema=False)

    return damage
