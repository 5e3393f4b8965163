"""Read a vocabulary: the public list of values that requests may have."""

from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from trajcloak.errors import InputError


def read_vocabulary(file: Path) -> dict[str, list[str]]:
    """Read a table with a column for each request attribute; empty cells are ignored.

    Raises
    ------
    InputError
        If it is no CSV or Parquet file, or cannot be read.
    """
    try:
        if file.suffix == ".parquet":
            table = pq.read_table(file)
        else:
            names = pyarrow.csv.open_csv(file).schema.names
            options = pyarrow.csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=True
            )
            table = pyarrow.csv.read_csv(file, convert_options=options)
        return {
            name: table[name].cast(pa.string()).drop_null().unique().to_pylist()
            for name in table.column_names
        }
    except (pa.ArrowException, OSError, UnicodeError):
        raise InputError(
            f"{file}: cannot be read; expected a CSV or Parquet table with a column of values for "
            f"each request attribute; check --vocabulary"
        ) from None
