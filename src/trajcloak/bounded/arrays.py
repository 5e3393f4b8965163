"""Small files of named arrays, which tell whether they are whole."""

import json
import zlib
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

WORD = 8
"""Bytes: the header's length takes as many, and each array starts at a multiple of it."""


def write_arrays(path: Path, arrays: Mapping[str, npt.ArrayLike]) -> None:
    """Write arrays, one after the other, after a header that says what they are."""
    plain = {name: np.asarray(array) for name, array in arrays.items()}
    content = b"".join(_fill_up(array.tobytes()) for array in plain.values())
    shapes = {name: (array.dtype.str, array.shape) for name, array in plain.items()}
    header = _fill_up(json.dumps({"check": zlib.crc32(content), "arrays": shapes}).encode())
    with path.open("wb") as file:
        file.write(len(header).to_bytes(WORD, "little") + header)
        file.write(content)


def read_arrays(path: Path) -> dict[str, npt.NDArray[Any]] | None:
    """Read arrays; None if there is no such file, or it is not whole."""
    if not path.exists():
        return None
    data = bytearray(path.read_bytes())
    start = WORD + int.from_bytes(data[:WORD], "little")
    try:
        header = json.loads(data[WORD:start].rstrip(b"\0"))
    except ValueError:
        return None
    if zlib.crc32(memoryview(data)[start:]) != header["check"]:
        return None
    arrays = {}
    for name, (type_, shape) in header["arrays"].items():
        arrays[name] = np.frombuffer(data, type_, prod(shape), start).reshape(shape)
        start += arrays[name].nbytes + -arrays[name].nbytes % WORD
    return arrays


def _fill_up(data: bytes) -> bytes:
    return data + bytes(-len(data) % WORD)
