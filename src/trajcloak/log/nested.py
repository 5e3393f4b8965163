"""Turn request columns that hold structs into one plain column, ``a.b``, for each field."""

from collections.abc import Iterator, Sequence

import pyarrow as pa

from trajcloak.errors import InputError

SEPARATOR = "."
"""Between the name of a struct and the name of its field."""

MAX_DEPTH = 32
"""Most levels of structs within each other."""


def list_roots(names: Sequence[str], present: Sequence[str]) -> list[str]:
    """List the columns of a file that hold some attributes: ``a`` for ``a.b``, each once."""
    return list(dict.fromkeys(_find_root(name, present) for name in names))


def flatten_columns(batch: pa.RecordBatch, names: Sequence[str]) -> dict[str, pa.Array]:
    """Select attributes of a batch by name; a struct becomes one attribute for each field.

    Raises
    ------
    InputError
        If a field is missing, a struct has none, or two attributes would have one name.
    """
    columns: dict[str, pa.Array] = {}
    for name in names:
        fields = list(_walk(name, _find(batch, name)))
        if not fields:
            raise InputError(
                f"request column '{name}' holds objects without fields; expected values; leave the "
                f"column out"
            )
        for path, column in fields:
            if path in columns:
                raise InputError(
                    f"request column '{path}' is there twice; expected each field once; rename "
                    f"one, or leave out the struct or its field"
                )
            columns[path] = column
    return columns


def _find_root(name: str, present: Sequence[str]) -> str:
    parts = name.split(SEPARATOR)
    for size in range(len(parts), 0, -1):
        root = SEPARATOR.join(parts[:size])
        if root in present:
            return root
    return name


def _find(batch: pa.RecordBatch, name: str) -> pa.Array:
    root = _find_root(name, batch.schema.names)
    column = batch.column(root)
    for field in name[len(root) :].split(SEPARATOR)[1:]:
        index = column.type.get_field_index(field) if pa.types.is_struct(column.type) else -1
        if index < 0:
            raise InputError(
                f"request column '{root}' has no field '{name[len(root) + 1 :]}'; expected it in "
                f"every file; name another --request"
            )
        column = column.flatten()[index]
    return column


def _walk(name: str, column: pa.Array, depth: int = 0) -> Iterator[tuple[str, pa.Array]]:
    if not pa.types.is_struct(column.type):
        yield name, column
        return
    if depth == MAX_DEPTH:
        raise InputError(
            f"a request column holds structs in more than {MAX_DEPTH} levels; expected few; name "
            f"single fields with --request=COLUMN.FIELD"
        )
    for field, values in zip(column.type, column.flatten(), strict=True):
        yield from _walk(f"{name}{SEPARATOR}{field.name}", values, depth + 1)
