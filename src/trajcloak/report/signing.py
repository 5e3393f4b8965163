"""The end of the page: a line to sign, and exactly which files are signed for."""

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path

from trajcloak.report.markup import Element, element, table
from trajcloak.version import __version__

MOST_FILES = 12
"""Files of a log that are listed one by one."""

Digests = dict[str, str]
"""SHA-256 by what it is of."""


def digest_files(files: Iterable[Path]) -> list[str]:
    """Compute the SHA-256 of each file."""
    digests = []
    for path in files:
        with path.open("rb") as file:
            digests.append(hashlib.file_digest(file, "sha256").hexdigest())
    return digests


def digest_private(log: Sequence[Path], policy: Path) -> Digests:
    """Compute the SHA-256 of the files of a log, if they are few, and of the policy file.

    That of many files is of the list of theirs, a line each, as ``sha256sum FILES | cut -c 1-64``
    prints them.
    """
    digests = digest_files(log)
    if len(log) <= MOST_FILES:
        listed = {
            f"log: {path.name}" if len(log) == 1 else f"log, file {number}: {path.name}": digest
            for number, (path, digest) in enumerate(zip(log, digests, strict=True), 1)
        }
    else:
        lines = "".join(f"{digest}\n" for digest in digests)
        whole = hashlib.sha256(lines.encode()).hexdigest()
        listed = {f"log: list of the SHA-256 of its {len(log):,} files": whole}
    return {**listed, f"policy file: {policy.name}": digest_files([policy])[0]}


def build_footer(release: Digests, private: Digests | None) -> Element:
    """Build the line to sign, with the files of the release and, if given, the private ones."""
    use = "Private: not for publication."
    if private is None:
        use = "Public: made from the release alone."
    digests = {**{f"release: {name}": d for name, d in release.items()}, **(private or {})}
    return element(
        "footer",
        table(
            ["file", "SHA-256"],
            ([name, element("code", digest)] for name, digest in digests.items()),
            caption="The files that this page is about, and that a signature is for",
            class_="digests",
        ),
        element("p", "Reviewed by", class_="sign"),
        element("p", "Date and signature", class_="sign"),
        element("p", f"Page made by trajcloak {__version__}. {use}"),
    )
