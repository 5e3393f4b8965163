"""Files of values: each complete or not there, read piece by piece, and gone in the end."""

import pickle
import shutil
import stat
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import trajcloak as tc
from trajcloak.engines import scratch as scratch_module
from trajcloak.engines.scratch import Pieces, Scratch, read_piece, write_pieces

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
    monkeypatch.setattr(scratch_module, "MAPPED", mapped)
    path = tmp_path / "0"
    write_pieces(VALUES, path)
    for number in (3, 0, 4, 2, 1):
        assert same(read_piece(path, number), VALUES[number])
    assert [file.name for file in tmp_path.iterdir()] == ["0"]


@pytest.mark.parametrize("mapped", [1, 1 << 24])
def test_arrays_are_as_kernels_expect_them(tmp_path, monkeypatch, mapped):
    """Writable, or they are of another type to compiled code; the file stays as it is."""
    monkeypatch.setattr(scratch_module, "MAPPED", mapped)
    path = tmp_path / "0"
    write_pieces([np.arange(3, dtype=np.int8), np.arange(5)], path)
    before = path.read_bytes()
    array = read_piece(path, 1)
    assert array.flags.writeable
    assert array.flags.aligned
    assert array.ctypes.data % 8 == 0
    array[:] = 7
    del array
    assert path.read_bytes() == before


def test_a_value_that_cannot_be_written_leaves_no_file(tmp_path):
    with pytest.raises((AttributeError, pickle.PicklingError)):
        write_pieces([np.arange(9), lambda: None], tmp_path / "0")
    assert list(tmp_path.iterdir()) == []


def test_another_try_writes_the_same_file_anew(tmp_path):
    path = tmp_path / "0"
    write_pieces([np.arange(1 << 22)], path)
    first = read_piece(path, 0)
    write_pieces([np.arange(1 << 22)], path)
    assert same(first, read_piece(path, 0))


def test_a_file_that_was_cut_short_is_not_taken_for_a_whole_one(tmp_path):
    path = tmp_path / "0"
    write_pieces([np.arange(1000)], path)
    whole = path.read_bytes()
    for size in (0, 9, 200, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(tc.OutputError, match="shorter than it was"):
            read_piece(path, 0)


def test_a_file_that_is_gone_is_named(folder):
    stage = folder.new_stage()
    with pytest.raises(tc.OutputError, match=r"No such file or directory.*--scratch"):
        Pieces(stage, 1, 0).read()


def test_the_folder_is_private(tmp_path, folder):
    (made,) = tmp_path.iterdir()
    assert stat.S_IMODE(made.stat().st_mode) == 0o700


def test_files_go_with_the_last_handle_and_not_with_a_copy(folder):
    stage = folder.new_stage()
    write_pieces([1, 2], stage.get_file(0))
    handles = Pieces(stage, 1, 1)
    path = stage.folder
    del stage
    copy = pickle.loads(pickle.dumps(handles))
    assert copy.read() == [2]
    del copy
    piece = handles[0]
    del handles
    assert piece.read() == 2
    del piece
    assert not path.exists()


def test_nobody_writes_into_a_folder_that_is_removed(folder):
    stage = folder.new_stage()
    folder.close()
    with pytest.raises(tc.OutputError, match="--scratch"):
        write_pieces([1], stage.get_file(0))
    with pytest.raises(tc.OutputError, match="--scratch"):
        folder.new_stage()


def test_a_folder_that_is_being_written_to_is_removed(tmp_path, monkeypatch):
    """A file that appeared while others are removed would keep the folder."""
    scratch = Scratch(tmp_path)
    stage = scratch.new_stage()
    remove = shutil.rmtree

    def remove_while_somebody_writes(path: Path, **options: bool) -> None:
        with pytest.raises(tc.OutputError):
            write_pieces([1], stage.get_file(0))
        remove(path, **options)

    monkeypatch.setattr(shutil, "rmtree", remove_while_somebody_writes)
    scratch.close()
    assert list(tmp_path.iterdir()) == []


def test_handles_of_a_stage_are_a_sequence(folder):
    handles = Pieces(folder.new_stage(), 3, 5)
    assert [piece.job for piece in handles] == [0, 1, 2]
    assert handles[-1].job == 2
    assert [piece.job for piece in handles[1:]] == [1, 2]
    with pytest.raises(IndexError):
        handles[3]
