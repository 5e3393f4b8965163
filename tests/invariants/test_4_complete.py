"""Invariant 4. A release appears complete or not at all."""

import contextlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow.parquet as pq
import pytest
from hypothesis import given

import trajcloak as tc
from invariants.common import EXAMPLE, FILES, property_test, require
from runs import anonymize
from small_logs import dense_logs, list_tree, new_folder, read_rows
from trajcloak import output
from trajcloak.release import result as result_module
from trajcloak.release.result import RunResult


class StoppedError(Exception):
    """Stands for anything that ends a run: a full disk, a signal."""


def check_invariant_4(result: RunResult) -> None:
    """Stop the writing at every step; look at the final name before and after each."""
    with new_folder() as folder:
        steps = write_stopping_at(result, folder / "release", None)
        require(steps >= 3, "invariant 4: the files are not all written through known steps")
        complete = list_tree(folder)
        names = [name.removeprefix("release/") for name in complete if name != "release"]
        require(names == FILES, "invariant 4: other files than those of a release")
        with contextlib.suppress(tc.OutputError):
            result.write(folder / "release")
            require(False, "invariant 4: an existing release was written again")
        require(list_tree(folder) == complete, "invariant 4: an existing release was changed")
    for step in range(steps):
        with new_folder() as folder:
            try:
                write_stopping_at(result, folder / "release", step)
            except StoppedError:
                require(list_tree(folder) == {}, "invariant 4: part of a release was left")
            else:
                raise AssertionError("invariant 4: a failure was swallowed")


def write_stopping_at(result: RunResult, path: Path, stop: int | None) -> int:
    """Write a release, and raise before step ``stop``; returns the number of steps."""
    num_steps = 0

    def watch(original: Callable[..., Any]) -> Callable[..., Any]:
        def step(*args: Any, **more: Any) -> Any:
            nonlocal num_steps
            require(not path.exists(), "invariant 4: the release is there before it is complete")
            if num_steps == stop:
                raise StoppedError
            num_steps += 1
            return original(*args, **more)

        return step

    with (
        mock.patch.object(result_module, "join_row_groups", watch(result_module.join_row_groups)),
        mock.patch.object(pq.ParquetWriter, "close", watch(pq.ParquetWriter.close)),
        mock.patch.object(json, "dumps", watch(json.dumps)),
        mock.patch.object(Path, "write_text", watch(Path.write_text)),
    ):
        # A head of its own each time: what one has built once is not built again.
        replace(result, _head=replace(result._head)).write(path)
    return num_steps


def test_invariant_4_a_release_is_complete_or_absent():
    @property_test(10)
    @given(dense_logs())
    def holds(drawn):
        check_invariant_4(anonymize(read_rows(drawn.rows), drawn.k, **drawn.run_options))

    holds()


@contextlib.contextmanager
def write_in_place(path):
    path.mkdir()
    yield path


@contextlib.contextmanager
def write_beside_and_forget(path):
    staging = path.with_name(path.name + ".tmp")
    output.check_new(path)
    staging.mkdir()
    yield staging
    staging.rename(path)


@contextlib.contextmanager
def write_what_there_is(path):
    with output.new_folder(path) as staging, contextlib.suppress(StoppedError):
        yield staging


@contextlib.contextmanager
def replace_what_is_there(path):
    if path.exists():
        (path / "manifest.json").write_bytes(b"{}")
    with output.new_folder(path) as staging:
        yield staging


@pytest.mark.parametrize(
    "broken", [write_in_place, write_beside_and_forget, write_what_there_is, replace_what_is_there]
)
def test_invariant_4_is_seen_to_fail(monkeypatch, broken):
    result = anonymize(read_rows(EXAMPLE.rows), 3)
    check_invariant_4(result)
    monkeypatch.setattr(result_module, "new_folder", broken)
    monkeypatch.setattr(result_module, "check_outputs", lambda release, private: None)
    with pytest.raises(AssertionError, match="invariant 4:"):
        check_invariant_4(result)
