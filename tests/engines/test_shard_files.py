"""Files of values: each complete or not there, read piece by piece, and gone in the end."""

import pickle
import shutil
import stat
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import trajcloak as tc
from trajcloak.engines import shard_files
from trajcloak.engines.shard_files import Pieces, Scratch, is_whole, read_pieces, write_chunks

VALUES = [
    {"a": np.arange(7, dtype=np.int32), "b": np.linspace(0, 1, 1001).reshape(77, 13)[:, ::2]},
    None,
    (pa.array(["x", None, "yz"]), pa.table({"c": [1, 2], "d": ["e", "f"]})),
    np.empty((0, 3), np.uint32),
    [np.arange(300_000), "text", np.asfortranarray(np.arange(6).reshape(2, 3))],
]


@pytest.fixture
def folder(tmp_path):
    scratch = Scratch(tmp_path)
    yield scratch
    scratch.close()
    assert list(tmp_path.iterdir()) == []


def same(left, right):
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[k], right[k]) for k in left)
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, np.ndarray):
        return left.dtype == right.dtype and np.array_equal(left, right)
    return left == right


@pytest.mark.parametrize("mapped", [1, 1 << 24])
def test_pieces_are_read_one_by_one(tmp_path, monkeypatch, mapped):
    monkeypatch.setattr(shard_files, "MAPPED", mapped)
    path = tmp_path / "0"
    write_chunks([VALUES], path)
    for number in (3, 0, 4, 2, 1):
        assert same(next(read_pieces(path, number)), VALUES[number])
    assert [file.name for file in tmp_path.iterdir()] == ["0"]


@pytest.mark.parametrize("mapped", [1, 1 << 24])
def test_arrays_are_as_kernels_expect_them(tmp_path, monkeypatch, mapped):
    """Writable, or they are of another type to compiled code; the file stays as it is."""
    monkeypatch.setattr(shard_files, "MAPPED", mapped)
    path = tmp_path / "0"
    write_chunks([[np.arange(3, dtype=np.int8), np.arange(5)]], path)
    before = path.read_bytes()
    array = next(read_pieces(path, 1))
    assert array.flags.writeable
    assert array.flags.aligned
    assert array.ctypes.data % 8 == 0
    array[:] = 7
    del array
    assert path.read_bytes() == before


def test_a_value_that_cannot_be_written_leaves_no_file(tmp_path):
    with pytest.raises((AttributeError, pickle.PicklingError)):
        write_chunks([[np.arange(9), lambda: None]], tmp_path / "0")
    assert list(tmp_path.iterdir()) == []


def test_another_try_writes_the_same_file_anew(tmp_path):
    path = tmp_path / "0"
    write_chunks([[np.arange(1 << 22)]], path)
    first = next(read_pieces(path, 0))
    write_chunks([[np.arange(1 << 22)]], path)
    assert same(first, next(read_pieces(path, 0)))


def test_a_file_that_was_cut_short_is_not_taken_for_a_whole_one(tmp_path):
    path = tmp_path / "0"
    write_chunks([[np.arange(1000)]], path)
    whole = path.read_bytes()
    for size in (0, 9, 200, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(tc.OutputError, match="shorter than it was"):
            next(read_pieces(path, 0))


def test_chunks_are_read_one_after_another(tmp_path):
    write_chunks(([i, np.full(3, i)] for i in range(4)), tmp_path / "0")
    write_chunks([[4, np.full(3, 4)]], tmp_path / "1")
    assert Pieces(tmp_path, 2, 0).read() == [0, 1, 2, 3, 4]
    assert [array[0] for array in Pieces(tmp_path, 2, 1).read()] == [0, 1, 2, 3, 4]


def test_a_call_that_yields_nothing(tmp_path):
    write_chunks([], tmp_path / "0")
    assert is_whole(tmp_path / "0")
    assert Pieces(tmp_path, 1, 0).read() == []


def test_a_chunk_is_written_before_the_next_one_is_made(tmp_path):
    """No more than one chunk is held."""
    made = []

    def make():
        for i in range(3):
            if made:
                (file,) = tmp_path.iterdir()
                assert file.stat().st_size >= 80_000 * i
            made.append(np.full(10_000, i))
            yield [made[-1]]

    write_chunks(make(), tmp_path / "0")
    assert len(made) == 3


def test_a_file_that_is_gone_is_named(tmp_path):
    with pytest.raises(tc.OutputError, match=r"No such file or directory.*scratch="):
        Pieces(tmp_path / "stage", 1, 0).read()


def test_the_folder_is_private(tmp_path, folder):
    (made,) = tmp_path.iterdir()
    assert stat.S_IMODE(made.stat().st_mode) == 0o700


def test_handles_read_the_same_in_another_process(folder):
    write_chunks([[1, 2]], folder.folder / "0")
    handles = Pieces(folder.folder, 1, 1)
    copy = pickle.loads(pickle.dumps(handles))
    assert copy.read() == [2]
    assert copy[0].read() == 2


def test_nobody_writes_into_a_folder_that_is_removed(folder):
    folder.close()
    with pytest.raises(tc.OutputError, match="scratch="):
        write_chunks([[1]], folder.folder / "0")


def test_a_folder_that_is_being_written_to_is_removed(tmp_path, monkeypatch):
    """A file that appeared while others are removed would keep the folder."""
    scratch = Scratch(tmp_path)
    remove = shutil.rmtree

    def remove_while_somebody_writes(path: Path, **options: bool) -> None:
        with pytest.raises(tc.OutputError):
            write_chunks([[1]], scratch.folder / "0")
        remove(path, **options)

    monkeypatch.setattr(shutil, "rmtree", remove_while_somebody_writes)
    scratch.close()
    assert list(tmp_path.iterdir()) == []


def test_handles_of_a_stage_are_a_sequence():
    handles = Pieces(Path("stage"), 3, 5)
    assert [piece.job for piece in handles] == [0, 1, 2]
    assert handles[-1].job == 2
    assert [piece.job for piece in handles[1:]] == [1, 2]
    with pytest.raises(IndexError):
        handles[3]
