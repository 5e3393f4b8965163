"""``trajcloak convert``."""

from dataclasses import asdict
from pathlib import Path

import click

from trajcloak.cli import shared_options as shared
from trajcloak.cli.grouped import GroupedCommand, option
from trajcloak.cli.printing import facts_table, out, print_json, progress_bars
from trajcloak.options import MOVEMENT_FORMATS


@click.command("convert", cls=GroupedCommand)
@click.argument("source", nargs=-1, required=True, type=shared.PATH)
@option("-o", "--output", required=True, type=shared.PATH, help="Log to create: .parquet or .csv.")
@option(
    "--format",
    "format_",
    type=click.Choice(MOVEMENT_FORMATS),
    help="Format of the source.  [default: as the names of its files tell]",
)
@option(
    "--geographic",
    is_flag=True,
    help="Take x and y of SUMO for longitude and latitude.  [default: as the comment at the top "
    "of the file says]",
)
@shared.json_option
def command(
    source: tuple[Path, ...], output: Path, format_: str | None, geographic: bool, as_json: bool
) -> None:
    """Turn movement data of other formats into a log.

    SOURCE is a file, a folder or a glob, also compressed (.gz): output of
    Brinkhoff's generator, floating-car data of SUMO, GeoLife trajectories, cab
    traces or GPX tracks.
    """
    from trajcloak.movement import convert_log

    with progress_bars(hidden=as_json) as progress:
        log = convert_log(source, output, format=format_, geographic=geographic, progress=progress)
    if as_json:
        print_json({"log": str(output), **asdict(log)})
        return
    facts = [
        ("format", log.format),
        ("files", f"{log.files:,}"),
        ("users", f"{log.users:,}"),
        ("rows", f"{log.rows:,}"),
        ("points skipped", f"{sum(log.skipped.values()):,}"),
        *((f"  {reason.replace('_', ' ')}", f"{n:,}") for reason, n in log.skipped.items()),
        ("columns", ", ".join(log.columns)),
    ]
    out.print(facts_table(f"Log: {output}", facts))
