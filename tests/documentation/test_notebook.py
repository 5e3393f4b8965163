"""The notebooks run; the one for consumers on a release made on the spot."""

import json
import shutil
import subprocess
import sys

import pytest

from docs.tools import notebook
from documentation.pages import PROJECT

TUTORIALS = PROJECT / "docs/tutorials"
NOTEBOOKS = sorted(path.stem for path in TUTORIALS.glob("*.ipynb"))
NOTEBOOK = TUTORIALS / "release-to-answer.ipynb"
MOST_BYTES = 200_000
MOST_LINES = 15
RUN = "import sys; from pathlib import Path; from docs.tools import notebook; " \
      "notebook.run(*map(Path, sys.argv[1:]))"  # fmt: skip


def run_notebook(folder, path=NOTEBOOK) -> subprocess.CompletedProcess[str]:
    """In a process of its own: the tools of notebooks warn of what is not ours."""
    return subprocess.run(
        [sys.executable, "-c", RUN, str(path), str(folder)],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.needs_jit
@pytest.mark.parametrize("name", NOTEBOOKS)
def test_notebook_runs(made, tmp_path, name):
    if name == NOTEBOOK.stem:
        shutil.copytree(made / "release", tmp_path / "release")
    ran = run_notebook(tmp_path, TUTORIALS / f"{name}.ipynb")
    assert ran.returncode == 0, ran.stderr


@pytest.mark.slow
@pytest.mark.needs_jit
def test_a_bound_that_does_not_hold_is_seen(made, tmp_path):
    """The notebook checks the bounds itself: a release that lies about its users is caught."""
    shutil.copytree(made / "release", tmp_path / "release")
    copy = tmp_path / "changed.ipynb"
    copy.write_text(NOTEBOOK.read_text().replace("AS upper\\n", "- 10000 AS upper\\n"))
    ran = run_notebook(tmp_path, copy)
    assert ran.returncode != 0
    assert "AssertionError" in ran.stderr


def read_code(name: str) -> list[dict]:
    notebook = json.loads((TUTORIALS / f"{name}.ipynb").read_text())
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_stored_outputs_are_small_and_whole(name):
    code = read_code(name)
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    kinds = {output["output_type"] for cell in code for output in cell["outputs"]}
    assert kinds == {"execute_result", "display_data"}
    assert (TUTORIALS / f"{name}.ipynb").stat().st_size < MOST_BYTES


def test_from_a_frame_to_an_answer_is_short():
    lines = [line for cell in read_code("frame-to-answer") for line in cell["source"]]
    written = [line for line in lines if line.strip() and not line.startswith("#")]
    assert len(written) <= MOST_LINES
    assert any(".plot(" in line for line in written)
    assert any(".count(" in line for line in written)


def test_every_notebook_is_run_by_make():
    assert sorted(path.stem for path in notebook.NOTEBOOKS) == NOTEBOOKS
