"""The notebook for consumers runs, on a release made on the spot."""

import json
import shutil
import subprocess
import sys

import pytest

from documentation.pages import PROJECT

NOTEBOOK = PROJECT / "docs/tutorials/release-to-answer.ipynb"
MOST_BYTES = 200_000
RUN = "import sys; from pathlib import Path; from docs.tools import notebook; {change}; " \
      "notebook.run(Path(sys.argv[1]))"  # fmt: skip


def run_notebook(folder, change="pass") -> subprocess.CompletedProcess[str]:
    """In a process of its own: the tools of notebooks warn of what is not ours."""
    return subprocess.run(
        [sys.executable, "-c", RUN.format(change=change), str(folder)],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.needs_jit
def test_notebook_runs(made, tmp_path):
    shutil.copytree(made / "release", tmp_path / "release")
    ran = run_notebook(tmp_path)
    assert ran.returncode == 0, ran.stderr


@pytest.mark.slow
@pytest.mark.needs_jit
def test_a_bound_that_does_not_hold_is_seen(made, tmp_path):
    """The notebook checks the bounds itself: a release that lies about its users is caught."""
    shutil.copytree(made / "release", tmp_path / "release")
    copy = tmp_path / "changed.ipynb"
    copy.write_text(NOTEBOOK.read_text().replace("AS upper\\n", "- 10000 AS upper\\n"))
    ran = run_notebook(tmp_path, f"notebook.NOTEBOOK = Path({str(copy)!r})")
    assert ran.returncode != 0
    assert "AssertionError" in ran.stderr


def test_stored_outputs_are_small_and_whole():
    notebook = json.loads(NOTEBOOK.read_text())
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    kinds = {output["output_type"] for cell in code for output in cell["outputs"]}
    assert kinds == {"execute_result", "display_data"}
    assert NOTEBOOK.stat().st_size < MOST_BYTES
