"""A release folder as its consumers find it: the names of its files, and how to read them.

The format is described in ``docs/data-model.md``; :mod:`.published_rows` writes it.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from trajcloak.errors import InputError

BUNDLES_FILE = "bundles.parquet"
REQUESTS_FILE = "requests.parquet"
MANIFEST_FILE = "manifest.json"
POLICY_FILE, PARTS_FILE = "policy.parquet", "policy-parts.parquet"
"""Private files, never inside a release."""

FORMAT_VERSION = 1
NUM_KEYS = 3
"""Columns of ``requests.parquet`` before the attributes."""

Manifest = dict[str, Any]


def read_manifest(path: str | Path) -> Manifest:
    """Read the manifest of a release.

    Raises
    ------
    InputError
        If there is none, or it cannot be read.

    Examples
    --------
    >>> manifest = read_manifest("release")
    >>> manifest["k"], manifest["users"]
    (50, 600)
    """
    file = Path(path) / MANIFEST_FILE
    try:
        manifest = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(
            f"{file}: cannot be read; expected the manifest of a release; check the path"
        ) from error
    if not isinstance(manifest, dict) or manifest.get("format_version") != FORMAT_VERSION:
        raise InputError(
            f"{file}: not a manifest of format version {FORMAT_VERSION}; expected a release made "
            f"by this version of trajcloak"
        )
    return manifest


def read_schema(file: Path) -> pa.Schema:
    """Read the names and types of the columns of a file of a release."""
    try:
        return pq.read_schema(file)
    except (OSError, pa.ArrowException) as error:
        raise _unreadable(file) from error


def read_columns(file: Path, names: Sequence[str]) -> pa.Table:
    """Read some columns of a file of a release, text as dictionaries."""
    missing = set(names) - set(read_schema(file).names)
    if missing:
        raise InputError(
            f"{file}: has no column '{min(missing)}'; expected the files of a release as "
            f"docs/data-model.md lists them; audit the release"
        )
    try:
        return pq.read_table(file, columns=list(names), read_dictionary=list(names))
    except (OSError, pa.ArrowException) as error:
        raise _unreadable(file) from error


def _unreadable(file: Path) -> InputError:
    return InputError(f"{file}: cannot be read; expected a file of a release; check the path")
