"""``trajcloak stream``."""

import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from trajcloak.cli import shared_options as shared
from trajcloak.cli.grouped import GroupedCommand, option
from trajcloak.cli.printing import err, note_whole_parts
from trajcloak.errors import InputError
from trajcloak.options import LogColumns

PIECE = 1 << 20
"""Bytes that are read at once."""

LOOK_AGAIN = 0.5
"""Seconds from one look into a followed folder to the next."""


@click.command("stream", cls=GroupedCommand)
@option(
    "-o", "--output", required=True, type=shared.PATH, help="Folder of the release, epoch by epoch."
)
@shared.k_option
@option(
    "--every",
    required=True,
    metavar="DURATION",
    help="Time from one instant to the next, such as 60s or 5m.",
)
@option(
    "--epoch",
    required=True,
    type=int,
    metavar="W",
    help="Instants for which bundles stay together: for so long, requests of one sender may be "
    "linked.",
)
@option(
    "--lag",
    default=0,
    metavar="D",
    help="Instants to wait before one is published; bundles become better.",
)
@option(
    "--late",
    metavar="DURATION",
    help="How long after its end an instant waits for reports.  [default: not at all]",
)
@option(
    "--hold",
    default=0,
    metavar="N",
    help="Instants for which the last known location counts if reports are missing.",
)
@option(
    "--parts",
    type=int,
    metavar="M",
    help="Show the members of each bundle in parts of at least M users, made anew at every "
    "instant; requests stay with the bundle.  [default: one area for all members]",
)
@option(
    "--request",
    "requests",
    multiple=True,
    metavar="NAME",
    help="Request attribute to publish; repeat for more. Nothing else of a request is read.",
)
@option(
    "--state",
    type=shared.PATH,
    help="Private folder of what the stream must know after a crash.  [default: OUTPUT-private]",
)
@option(
    "--policy",
    type=shared.PATH,
    help="Private map from users to bundles, which the audit needs.  "
    "[default: policy.parquet in --state]",
)
@option(
    "--follow",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Read the files of this folder, by name, as they arrive, instead of standard input.",
)
@option(
    "--format",
    "line_format",
    default="trajcloak",
    type=click.Choice(["trajcloak", "owntracks"]),
    help="Lines as described above, or those of mosquitto_sub -v with locations of OwnTracks.",
)
@option(
    "--region",
    "box",
    type=shared.Numbers(4, "x_min,y_min,x_max,y_max"),
    help="Rectangle to publish, in degrees or the reports' own units; whoever is outside counts "
    "as absent.  [default: around those who report first]",
)
@shared.height_option
@option(
    "--predictor",
    default="learned",
    type=click.Choice(["learned", "damped", "hold"]),
    help="How bundles are formed for the instants to come.",
)
@option(
    "--vocabulary",
    type=shared.PATH,
    callback=shared.take_vocabulary,
    help="Table with a column for each request attribute: the values that may be published.",
)
@option(
    "--rare",
    default="drop",
    type=click.Choice(["drop", "keep"]),
    help="Requests that few bundles of an instant show: drop them, or keep all.",
)
@option(
    "--rare-below",
    default=2,
    metavar="N",
    help="A request is rare if fewer than N bundles of the instant show it.",
)
@shared.threads_option
@option(
    "--json",
    "as_json",
    is_flag=True,
    help="At the end, print how many lines were not used, and why, as one JSON object on standard "
    "error.",
)
def command(
    output: Path,
    requests: tuple[str, ...],
    state: Path | None,
    policy: Path | None,
    follow: Path | None,
    line_format: str,
    box: tuple[float, float, float, float] | None,
    height: int | None,
    threads: int | None,
    every: str,
    late: str | None,
    as_json: bool,
    **settings: Any,
) -> None:
    """Publish location reports and requests while they arrive, instant by instant.

    Reads JSON lines from standard input, such as {"kind": "report", "user_id": "a", "time":
    "2026-03-02T08:00:03Z", "x": 1.5, "y": 2.5}, or with "lon" and "lat", and {"kind":
    "request", "user_id": "a", "time": "2026-03-02T08:00:05Z", "category": "food"}. Writes a JSON
    line for each bundle of an instant when the instant is over, and the release
    when an epoch is. If the run is interrupted, the same command goes on with the next epoch.
    """
    from trajcloak.online.online_options import OnlineOptions
    from trajcloak.online.stream_lines import LineParser, cut_lines
    from trajcloak.online.stream_run import Stream
    from trajcloak.online.stream_state import open_state
    from trajcloak.trajectories import parse_duration

    LogColumns(requests=requests)
    options = OnlineOptions(
        every=parse_duration(every, has_timestamps=True, name="every"),
        late=0 if late is None else parse_duration(late, has_timestamps=True, name="late"),
        **settings,
    )
    if not as_json:
        note_whole_parts(settings["parts"], options.k)
    state = state or output.parent / f"{output.name}-private"
    kept = {**vars(options), "requests": requests, "box": box, "height": height}
    pieces = _read_pieces() if follow is None else _follow_files(follow)
    with open_state(state, kept) as opened:
        stream = Stream(
            opened,
            output,
            policy or state / "policy.parquet",
            options,
            requests,
            box=box,
            height=height,
            threads=threads,
        )
        parser = LineParser(requests, line_format)
        try:
            for lines in cut_lines(pieces, parser.skipped):
                for text in lines:
                    line = parser.parse(text)
                    if line is None:
                        continue
                    for published in stream.take(line):
                        click.echo(published)
        finally:
            _print_counts(stream.counts + parser.skipped, as_json)


def _read_pieces() -> Iterator[bytes]:
    """Read standard input as it comes; ends with it."""
    try:
        while piece := os.read(sys.stdin.fileno(), PIECE):
            yield piece
    except OSError as error:
        raise _cannot_be_read("standard input", error) from error


def _follow_files(folder: Path) -> Iterator[bytes]:
    """Read the files of a folder in the order of their names, and those that arrive later.

    Hidden files are unfinished, and not read. Nor is what is added to a file that has been read,
    or a file that is renamed or removed before. Ends when the run is interrupted.
    """
    last = ""
    while True:
        try:
            names = sorted(f.name for f in folder.iterdir() if f.is_file() and f.name[0] != ".")
            for name in names:
                if name > last:
                    with suppress(FileNotFoundError), (folder / name).open("rb") as file:
                        last = name
                        while piece := file.read(PIECE):
                            yield piece
                        # A file's last line may lack its end.
                        yield b"\n"
        except OSError as error:
            raise _cannot_be_read(str(folder), error) from error
        time.sleep(LOOK_AGAIN)


def _cannot_be_read(what: str, error: OSError) -> InputError:
    return InputError(
        f"{what}: cannot be read ({error.strerror or type(error).__name__}); expected lines of a "
        f"stream; check that it is there, and its permissions, and start the stream again"
    )


def _print_counts(counts: Counter[str], as_json: bool) -> None:
    """Say how many lines were not used, and why; private."""
    if as_json:
        click.echo(json.dumps({"not_used": counts}), err=True)
        return
    listed = ", ".join(f"{reason}: {count:,}" for reason, count in sorted(counts.items()))
    err.print(f"Not used, private: {listed or 'none'}.", soft_wrap=True)
