"""Run the notebook and keep what it shows.

``python -m docs.tools.notebook`` (``make notebook``) runs it in an empty folder, where it makes a
release, and stores the outputs in the notebook, so that the site shows them.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import nbformat
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parents[1] / "tutorials/release-to-answer.ipynb"


def run(folder: Path) -> nbformat.NotebookNode:
    """Run the notebook in a folder; raises where a cell fails."""
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    client = NotebookClient(notebook, resources={"metadata": {"path": str(folder)}})
    ran: nbformat.NotebookNode = client.execute()
    return ran


def main() -> None:
    """Run the notebook where nothing is, and store it."""
    with TemporaryDirectory() as folder:
        notebook = run(Path(folder))
    for cell in notebook.cells:
        # When a cell ran is nobody's business, and would differ in every run.
        cell.metadata.pop("execution", None)
    notebook.metadata["language_info"] = {"name": "python"}
    nbformat.write(notebook, NOTEBOOK)


if __name__ == "__main__":
    main()
