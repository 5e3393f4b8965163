"""A release folder: the names of its files, where these may stand, and how to read them.

The format is described in ``docs/data-model.md``; :mod:`.published_rows` writes it.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from trajcloak.errors import InputError, OptionError
from trajcloak.options import PER_INSTANT
from trajcloak.output import check_new
from trajcloak.parquet.memory_check import check_parquet
from trajcloak.release.manifest_schema import Manifest, find_manifest_problems

BUNDLES_FILE = "bundles.parquet"
REQUESTS_FILE = "requests.parquet"
MANIFEST_FILE = "manifest.json"
POLICY_FILE, PARTS_FILE = "policy.parquet", "policy-parts.parquet"
"""Private files, never inside a release."""

NUM_KEYS = 3
"""Columns of ``requests.parquet`` before the attributes."""

MAX_MANIFEST_BYTES = 1 << 20


def read_manifest(path: str | Path) -> Manifest:
    """Read the manifest of a release; every field is there, and of the right type.

    Examples
    --------
    >>> manifest = read_manifest("release")
    >>> manifest["k"], manifest["users"]
    (50, 600)
    """
    file = Path(path) / MANIFEST_FILE
    manifest: Manifest = parse_manifest(file)
    for problem in find_manifest_problems(manifest):
        raise InputError(
            f"{file}: {problem}; expected a release as this version of trajcloak writes it; fetch "
            f"it again, and audit it"
        )
    return manifest


def parse_manifest(file: Path) -> Any:
    """Parse the file of a manifest, whatever JSON it holds."""
    try:
        if not file.parent.exists():
            raise FileNotFoundError
        if file.parent.is_file():
            raise NotADirectoryError
        if not file.is_file() or file.stat().st_size > MAX_MANIFEST_BYTES:
            raise ValueError("it is no file, or too long")
        manifest = json.loads(file.read_bytes().decode("utf-8"))
        # Fails if a text holds half a character, which could not be printed.
        json.dumps(manifest, ensure_ascii=False).encode()
    except FileNotFoundError:
        raise InputError(
            f"{file.parent}: there is no such folder; expected that of a release; check the path"
        ) from None
    except NotADirectoryError:
        raise InputError(
            f"{file.parent}: is a file; expected the folder of a release; check the path, and the "
            f"order of paths"
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(
            f"{file}: cannot be read as JSON; expected the manifest of a release; check the path"
        ) from error
    return manifest


@dataclass(frozen=True)
class PublishedTable:
    """A Parquet file of a release that can be read safely; made by :func:`open_table`."""

    file: Path  # Its name in messages.
    schema: pa.Schema  # The names and types of its columns.
    content: Path | pa.Buffer  # Where it is: on disk, or in memory.

    def check_types(self, types: Mapping[str, pa.DataType]) -> None:
        """Raise unless the file has these columns, among others."""
        for name, type_ in types.items():
            if name not in self.schema.names or self.schema.field(name).type != type_:
                raise damage_error(self.file, f"it has no column '{name}' of type {type_}")

    def read(self, names: Sequence[str]) -> pa.Table:
        """Read some columns, text as dictionaries."""
        missing = set(names) - set(self.schema.names)
        if missing:
            raise damage_error(self.file, f"it has no column '{min(missing)}'")
        columns = list(names)
        with (
            _refuse_damage(self.file),
            pq.ParquetFile(self.content, read_dictionary=columns) as parquet,
        ):
            table = parquet.read(columns=columns)
            table.validate(full=True)
        return table

    def read_first(self, names: Sequence[str]) -> pa.RecordBatch:
        """Read the first row of some columns."""
        with _refuse_damage(self.file), pq.ParquetFile(self.content) as parquet:
            for batch in parquet.iter_batches(1, columns=list(names)):
                return batch
        raise damage_error(self.file, "it has fewer rows than it says")


def open_table(file: Path, content: pa.Buffer | None = None) -> PublishedTable:
    """Open a Parquet file of a release; reads no values yet.

    ``content`` are its bytes, if they are in memory; they were made here, and can be trusted.
    """
    with _refuse_damage(file):
        if content is None:
            check_parquet(file)
        source = file if content is None else content
        with pq.ParquetFile(source) as parquet:
            schema = parquet.schema_arrow
        names = schema.names
    if len(set(names)) < len(names):
        raise damage_error(file, "two of its columns have one name")
    return PublishedTable(file, schema, source)


def damage_error(file: Path, what: str) -> InputError:
    """Build the error for a file that is not as those of a release are."""
    return InputError(
        f"{file}: {what}; expected a release as docs/data-model.md says; fetch it again, and "
        f"audit it"
    )


@contextmanager
def _refuse_damage(file: Path) -> Iterator[None]:
    """Turn all that reading a damaged file raises into one error."""
    try:
        yield
    except (OSError, ValueError, pa.ArrowException) as error:
        # What Arrow says may quote values.
        is_ours = not isinstance(error, OSError | UnicodeError | pa.ArrowException)
        raise InputError(
            f"{file}: cannot be read{f': {error}' if is_ours else ''}; expected a Parquet file of "
            f"a release; check the path, or fetch it again"
        ) from error


def name_private_files(policy: Path | None, parts_per: str | None) -> list[Path]:
    """Name the private files of a release; none if no policy file is asked for.

    ``parts_per`` is what a part keeps its members for.

    Examples
    --------
    >>> [file.name for file in name_private_files(Path("who.parquet"), "instant")]
    ['who.parquet', 'who-parts.parquet']
    """
    if policy is None:
        return []
    beside = policy.parent / f"{policy.stem}-parts{policy.suffix}"
    return [policy, beside] if parts_per == PER_INSTANT else [policy]


def check_outside_releases(
    path: Path, what: str, option: str, new_release: Path | None = None
) -> None:
    """Raise if a file that is no part of a release would stand inside one, or inside a new one."""
    for folder in (path.resolve(), *path.resolve().parents):
        if folder == new_release or _is_release(folder):
            raise OptionError(
                f"{path}: {what} would stand inside the release {folder.name}; expected a "
                f"private place outside it; pass another --{option}"
            )


def _is_release(folder: Path) -> bool:
    """Whether a folder holds a release. One that cannot be looked into cannot be written to."""
    try:
        return (folder / MANIFEST_FILE).exists() and (folder / BUNDLES_FILE).exists()
    except OSError:
        return False


def check_outputs(release: Path, private: Sequence[Path]) -> None:
    """Raise early if the outputs of a run cannot be written where the caller wants them."""
    check_new(release)
    for policy in private:
        check_outside_releases(policy, "the policy file", "policy", release.resolve())
        check_new(policy)


def check_outside_log(sources: Iterable[Any], outputs: Sequence[Path]) -> None:
    """Raise if an output would stand inside a folder of the log.

    The next run would read it as a part of the log; and a release is to be given away. ``sources``
    are logs as callers give them: paths, lists of paths, tables or None.
    """
    parts = [
        part
        for given in sources
        for part in (given if isinstance(given, list | tuple) else [given])
    ]
    for folder in [Path(part) for part in parts if isinstance(part, str | Path)]:
        for output in outputs:
            if folder.resolve() in output.resolve().parents:
                raise OptionError(
                    f"{output}: would stand inside the folder of the log {folder}; expected a "
                    f"place outside it; pass another path"
                )
