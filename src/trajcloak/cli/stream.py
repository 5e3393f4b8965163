"""``trajcloak stream``."""

import json
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trajcloak.cli import shared_options as shared
from trajcloak.cli.grouped import GroupedCommand, option, request_option
from trajcloak.cli.printing import err, note_whole_parts, print_note
from trajcloak.errors import InputError
from trajcloak.options import LogColumns
from trajcloak.progress import silent
from trajcloak.quantities import show_count

if TYPE_CHECKING:
    from trajcloak.online.stream_run import Stream

GOES_ON = "the same command goes on with the next epoch"
"""What to do after a run was ended."""

COMPILING = "compiling, once per installation; the first instants take longer"

PIECE = 1 << 20
"""Bytes that are read at once."""

LOOK_AGAIN = 0.5
"""Seconds from one look into a followed folder to the next."""

PACKED = (".gz", ".bz2", ".zst", ".xz", ".zip")
"""Ends of the names of files that are compressed."""


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
@request_option(
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
    type=shared.Numbers("x_min,y_min,x_max,y_max"),
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
@shared.vocabulary_option
@request_option(
    "--rare",
    default="drop",
    type=click.Choice(["drop", "keep"]),
    help="Requests that few bundles of an instant show: drop them, or keep all.",
)
@request_option(
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
    help="At the end, print what was published, how many lines were not used, and why, as one JSON "
    "object on standard error.",
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
    from trajcloak.compilation import follow_compilation
    from trajcloak.online.online_options import OnlineOptions
    from trajcloak.online.stream_lines import LineParser, cut_lines
    from trajcloak.online.stream_run import Stream
    from trajcloak.online.stream_state import open_state
    from trajcloak.trajectories import parse_duration

    LogColumns(requests=requests)
    parse = partial(parse_duration, has_timestamps=True, has_log=False)
    options = OnlineOptions(
        every=parse(every, name="every"),
        late=0 if late is None else parse(late, name="late"),
        **settings,
    )
    if not as_json:
        note_whole_parts(settings["parts"], options.k)
    state = state or output.parent / f"{output.name}-private"
    kept = {**vars(options), "requests": requests, "box": box, "height": height}
    pieces = _read_pieces() if follow is None else _follow_files(follow)
    note_once = cache(partial(print_note, COMPILING))
    listen = silent if as_json else lambda *_: note_once()
    with _interruptible(state), follow_compilation(listen), open_state(state, kept) as opened:
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
        is_restarted = opened.start is not None
        if is_restarted and not as_json:
            _print_continuation(opened.next_epoch, opened.withheld_epoch)
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
            counts = stream.counts + parser.skipped
            _print_end(stream, counts, options.k, is_restarted=is_restarted, as_json=as_json)


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
            packed = [name for name in names if name > last and name.lower().endswith(PACKED)]
            if packed:
                raise InputError(
                    f"{folder / packed[0]}: is compressed; expected lines of a stream; unpack it "
                    f"under a hidden name, rename it, remove the compressed one, and start the "
                    f"stream again"
                )
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


@contextmanager
def _interruptible(state: Path) -> Iterator[None]:
    """Let SIGTERM, which service managers send, end the stream as Ctrl-C does.

    The process ends by the signal all the same, after all is printed.
    """
    from trajcloak.online.stream_state import SETTINGS_FILE

    received: list[int] = []

    def stop(number: int, _: object) -> None:
        received.append(number)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    except KeyboardInterrupt:
        message = (GOES_ON,) if (state / SETTINGS_FILE).exists() else ()
        if received:
            click.echo(f"Ended; {GOES_ON if message else 'nothing was published'}.", err=True)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.raise_signal(signal.SIGTERM)
        raise KeyboardInterrupt(*message) from None
    finally:
        signal.signal(signal.SIGTERM, before)


def _print_continuation(next_epoch: int, withheld: int | None) -> None:
    """Say that an earlier run began the stream."""
    rest = (
        "" if withheld is None else f"; the rest of epoch {withheld}, which was begun, is withheld"
    )
    err.print(
        f"The stream goes on with epoch {next_epoch:,}, or a later one if reports are later{rest}.",
        soft_wrap=True,
    )


def _print_end(
    stream: "Stream", counts: Counter[str], k: int, *, is_restarted: bool, as_json: bool
) -> None:
    """Say what was published in this run, how many lines were not used, and why; private."""
    if as_json:
        told = {
            "not_used": counts,
            "published": {"instants": stream.num_instants, "epochs": stream.num_epochs},
            "began": stream.has_begun,
            "continued": is_restarted,
            "incomplete_epoch": stream.has_incomplete_epoch,
        }
        click.echo(json.dumps(told), err=True)
        return
    listed = ", ".join(f"{reason}: {count:,}" for reason, count in sorted(counts.items()))
    err.print(f"Not used, private: {listed or 'none'}.", soft_wrap=True)
    # An error says enough of a stream that did not begin.
    if stream.has_begun or not isinstance(sys.exc_info()[1], Exception):
        _print_published(stream, k, is_restarted=is_restarted)


def _print_published(stream: "Stream", k: int, *, is_restarted: bool) -> None:
    """Say how much was published in this run, or why nothing was."""
    begin = "go on" if is_restarted else "begin"
    if not stream.is_agreed:
        text = (
            f"The stream did not {begin}: fewer than k = {k} users have reported times close to "
            f"each other; expected reports of at least so many within an epoch; send more lines, "
            f"or pass a lower --k."
        )
    elif not stream.has_begun:
        text = (
            f"The stream did not {begin}: fewer than k = {k} users have reported a time after its "
            f"first instant, which would close it; expected later reports; send more lines."
        )
    else:
        text = (
            f"Published in this run: {show_count(stream.num_instants, 'instant')}, "
            f"{show_count(stream.num_epochs, 'complete epoch')}."
        )
        if stream.has_incomplete_epoch:
            text += " Instants of an epoch that is not complete are not in the release."
    err.print(text, soft_wrap=True)
