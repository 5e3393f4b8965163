"""Files and folders that appear complete or not at all."""

import errno
import os
import stat
from pathlib import Path

import pytest

import trajcloak as tc
from small_logs import list_tree
from trajcloak.output import PRIVATE, PUBLIC, check_new, move, new_file, new_folder

LONG = "x" * 300


@pytest.fixture
def open_umask():
    """With umask 0, only the mode given decides about permissions."""
    before = os.umask(0)
    yield
    os.umask(before)


def fill(staging: Path, is_folder: bool) -> None:
    (staging / "part" if is_folder else staging).write_text("done")


KINDS = pytest.mark.parametrize(
    ("new", "is_folder"), [(new_folder, True), (new_file, False)], ids=["folder", "file"]
)


@KINDS
def test_it_appears_at_the_end(tmp_path, new, is_folder):
    path = tmp_path / "out"
    with new(path) as staging:
        assert staging.parent == tmp_path, "a rename must stay in one file system"
        assert staging.name.startswith(".")
        fill(staging, is_folder)
        assert not path.exists()
    assert [child.name for child in tmp_path.iterdir()] == ["out"]
    assert (path / "part" if is_folder else path).read_text() == "done"


@KINDS
def test_a_folder_that_cannot_be_looked_up(tmp_path, new, is_folder):
    """Its name is too long, or it stands in a folder of somebody else."""
    with pytest.raises(tc.OutputError, match="cannot be written"), new(tmp_path / LONG / "out"):
        pass
    assert list_tree(tmp_path) == {}


@KINDS
@pytest.mark.parametrize("error", [RuntimeError("x"), KeyboardInterrupt(), AssertionError("x")])
def test_a_failure_leaves_nothing(tmp_path, new, is_folder, error):
    def write_half():
        with new(tmp_path / "out") as staging:
            fill(staging, is_folder)
            raise error

    with pytest.raises(type(error)):
        write_half()
    assert list_tree(tmp_path) == {}


@KINDS
def test_an_error_of_the_system_says_what_to_do(tmp_path, new, is_folder):
    def write_half():
        with new(tmp_path / "out") as staging:
            fill(staging, is_folder)
            raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(tc.OutputError) as caught:
        write_half()
    assert "out: cannot be written (No space left on device)" in str(caught.value)
    assert "nothing was left behind; check the disk's free space" in str(caught.value)
    assert isinstance(caught.value, OSError)
    assert list_tree(tmp_path) == {}


@KINDS
@pytest.mark.parametrize("kind", ["file", "folder", "link", "dangling link"])
def test_nothing_is_overwritten(tmp_path, new, is_folder, kind):
    path = tmp_path / "out"
    (tmp_path / "other").mkdir()
    if kind == "file":
        path.write_text("mine")
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to(tmp_path / ("other" if kind == "link" else "nowhere"))
    before = list_tree(tmp_path)

    def write():
        with new(path):
            raise AssertionError("not reached")

    with pytest.raises(tc.OutputError, match="out: exists already; expected a new path"):
        write()
    assert list_tree(tmp_path) == before


@KINDS
def test_what_appears_in_the_meantime_is_kept(tmp_path, new, is_folder):
    def write():
        with new(tmp_path / "out") as staging:
            fill(staging, is_folder)
            (tmp_path / "out").write_text("of another process")

    with pytest.raises(tc.OutputError, match="exists already"):
        write()
    assert list_tree(tmp_path) == {"out": b"of another process"}


def test_there_is_no_folder_to_write_into(tmp_path):
    with pytest.raises(tc.OutputError, match=r"there is no folder .*; expected one .*; create it"):
        check_new(tmp_path / "nowhere" / "out")
    (tmp_path / "file").write_text("")
    with pytest.raises(tc.OutputError, match="there is no folder"):
        check_new(tmp_path / "file" / "out")


def test_no_permission(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(tc.OutputError, match=r"no permission to write into .*; choose another"):
        check_new(tmp_path / "out")


@pytest.mark.parametrize("mode", [PRIVATE, PUBLIC], ids=oct)
def test_a_file_has_its_mode_all_along(tmp_path, mode, open_umask):
    with new_file(tmp_path / "out", mode) as staging:
        assert stat.S_IMODE(staging.stat().st_mode) == mode
        staging.write_text("done")
        assert stat.S_IMODE(staging.stat().st_mode) == mode
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == mode


def test_the_private_mode_is_the_owners_alone():
    assert PRIVATE == 0o600


def test_a_file_is_copied_from_another_disk(tmp_path, monkeypatch, open_umask):
    """Renaming works within one disk only."""
    source, path = tmp_path / "source", tmp_path / "path"
    source.write_text("done")
    rename = os.rename

    def refuse(here, there, **options):
        if Path(here) == source:
            raise OSError(errno.EXDEV, "another disk")
        rename(here, there, **options)

    monkeypatch.setattr(os, "rename", refuse)
    move(source, path, PRIVATE)
    assert path.read_text() == "done"
    assert not source.exists()
    assert stat.S_IMODE(path.stat().st_mode) == PRIVATE
