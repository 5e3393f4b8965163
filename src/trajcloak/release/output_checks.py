"""Where the outputs of a run may stand: nothing private inside a release, nothing in the log."""

from collections.abc import Sequence
from pathlib import Path

from trajcloak.errors import OptionError
from trajcloak.options import PER_INSTANT
from trajcloak.output import check_new
from trajcloak.release.reading import BUNDLES_FILE, MANIFEST_FILE


def name_private_files(policy: Path | None, parts_per: str | None) -> list[Path]:
    """Name the private files of a release; none if no policy file is asked for.

    ``parts_per`` is what a part keeps its members for.

    Examples
    --------
    >>> [file.name for file in name_private_files(Path("who.parquet"), "instant")]
    ['who.parquet', 'who-parts.parquet']
    """
    if policy is None:
        return []
    beside = policy.with_name(f"{policy.stem}-parts{policy.suffix}")
    return [policy, beside] if parts_per == PER_INSTANT else [policy]


def check_outside_releases(
    path: Path, what: str = "the policy file", option: str = "policy"
) -> None:
    """Raise if a file that is no part of a release would stand inside one."""
    for folder in path.resolve().parents:
        if (folder / MANIFEST_FILE).exists() and (folder / BUNDLES_FILE).exists():
            raise OptionError(
                f"{path}: {what} would stand inside the release {folder}; expected a "
                f"private place outside it; pass another --{option}"
            )


def check_outputs(release: Path, private: Sequence[Path]) -> None:
    """Raise early if the outputs of a run cannot be written where the caller wants them."""
    check_new(release)
    for policy in private:
        check_outside_releases(policy)
        if release.resolve() in (policy.resolve(), *policy.resolve().parents):
            raise OptionError(
                f"{policy}: the policy file would stand inside the release {release}; expected a "
                f"private place outside it; pass another --policy"
            )
        check_new(policy)


def check_outside_log(sources: Sequence[Path], outputs: Sequence[Path]) -> None:
    """Raise if an output would stand inside a folder of the log.

    The next run would read it as a part of the log; and a release is to be given away.
    """
    for folder in sources:
        for output in outputs:
            if folder.is_dir() and folder.resolve() in output.resolve().parents:
                raise OptionError(
                    f"{output}: would stand inside the folder of the log {folder}; expected a "
                    f"place outside it; pass another path"
                )
