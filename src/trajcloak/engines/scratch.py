"""A private folder for the files of one run, removed with all that is in it."""

import tempfile
import weakref
from pathlib import Path

from trajcloak.engines.shard_files import remove_folder
from trajcloak.errors import OutputError


class Scratch:
    """A private folder, removed when it is closed, garbage collected, or at exit.

    Parameters
    ----------
    parent
        Where to make it: a folder that the workers see under the same path.

    Raises
    ------
    OutputError
        If it cannot be made there.
    """

    def __init__(self, parent: Path) -> None:
        try:
            made = tempfile.mkdtemp(dir=parent.absolute(), prefix=".trajcloak-", suffix=".scratch")
        except OSError as error:
            raise OutputError(
                f"{parent}: no scratch folder can be made in it ({error.strerror}); expected a "
                f"folder to write into that the workers see, too; choose another --scratch"
            ) from None
        self.folder = Path(made)
        self.close = weakref.finalize(self, remove_folder, self.folder)
