"""Run the notebooks and keep what they show.

``python -m docs.tools.notebook`` (``make notebook``) runs each in an empty folder, where it makes a
release, and stores the outputs in the notebook, so that the site shows them.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parents[1] / "tutorials"
NOTEBOOKS = [
    FOLDER / f"{name}.ipynb"
    for name in ("frame-to-answer", "frames-to-answers", "release-to-answer")
]


def run(path: Path, folder: Path) -> nbformat.NotebookNode:
    """Run a notebook in a folder; raises where a cell fails."""
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(notebook, resources={"metadata": {"path": str(folder)}})
    ran: nbformat.NotebookNode = client.execute()
    return ran


def main() -> None:
    """Run each notebook where nothing is, and store it."""
    for path in NOTEBOOKS:
        with TemporaryDirectory() as folder:
            notebook = run(path, Path(folder))
        for cell in notebook.cells:
            # When a cell ran is nobody's business, and would differ in every run.
            cell.metadata.pop("execution", None)
        notebook.metadata["language_info"] = {"name": "python"}
        nbformat.write(notebook, path)


if __name__ == "__main__":
    main()
