"""``trajcloak anonymize``."""

import signal
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trajcloak.cli import shared_options as shared
from trajcloak.cli.grouped import GroupedCommand, bundle_option, combine, option, work_option
from trajcloak.cli.printing import (
    facts_table,
    note_whole_parts,
    out,
    print_json,
    progress_bars,
    to_markup,
)
from trajcloak.options import ALGORITHMS, AUTO, EFFORTS, KEEP, TREES, LogColumns
from trajcloak.progress import Progress
from trajcloak.quantities import Unit, list_ingest_facts, show_count

if TYPE_CHECKING:
    from trajcloak.engines.engine import Engine

IN_MEMORY, DASK, SPARK = "memory", "dask", "spark"
ENGINES_OF = {
    **dict.fromkeys(("scheduler", "workers", "tls_ca", "tls_cert", "tls_key"), (DASK,)),
    "master": (SPARK,),
    "scratch": (DASK, SPARK),
}
"""The engines that each option is for."""

ENGINE_OPTIONS = ("engine", *ENGINES_OF)
MOMENT = 0.01
"""Seconds until an interruption that Python dropped is raised again."""


engine_options = combine(
    work_option(
        "--engine",
        default=IN_MEMORY,
        type=click.Choice([IN_MEMORY, DASK, SPARK]),
        metavar="NAME",
        help="Where to work: memory (of this process), dask or spark (a cluster).",
    ),
    work_option(
        "--scheduler",
        metavar="ADDRESS",
        help="Scheduler of a dask cluster, such as tls://host:8786.  [default: processes on "
        "this machine]",
    ),
    work_option(
        "--workers",
        type=click.IntRange(min=1),
        help="Processes to start with --engine dask without --scheduler.  [default: one for "
        "each core]",
    ),
    work_option(
        "--tls-ca",
        type=shared.PATH,
        help="Certificate of the authority that has signed the scheduler's.  [default: as dask is "
        "configured]",
    ),
    work_option("--tls-cert", type=shared.PATH, help="Certificate to show to the scheduler."),
    work_option("--tls-key", type=shared.PATH, help="Private key of --tls-cert."),
    work_option(
        "--master",
        metavar="URL",
        help="Master of a Spark cluster, such as spark://host:7077 or yarn.  [default: all "
        "cores of this machine]",
    ),
    work_option(
        "--scratch",
        type=shared.PATH,
        metavar="DIR",
        help="Folder that client and workers share, as private as the log, in which shards "
        "wait between stages; emptied at the end.  [default: beside the release]",
    ),
)
"""Where a run is done."""


def parse_share(given: str | float) -> float:
    """Parse a share: ``1%`` or ``0.01``."""
    text = str(given).strip()
    try:
        return float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError:
        raise click.BadParameter(f"'{given}' is not a share such as 1% or 0.01") from None


@click.command("anonymize", cls=GroupedCommand)
@shared.log_argument
@option(
    "-o", "--output", required=True, type=shared.PATH, help="Folder of the release, to be created."
)
@shared.k_option
@bundle_option(
    "--algorithm",
    default=AUTO,
    show_default=False,
    metavar="NAME",
    shell_complete=lambda _ctx, _param, start: [n for n in ALGORITHMS if n.startswith(start)],
    help=f"How to bundle users: {', '.join(ALGORITHMS)}.  "
    "[default: refined for mbr cloaks, traj-anon for quad]",
)
@shared.cloak_option
@option(
    "--policy",
    type=shared.PATH,
    help="Also write the private map from users to bundles, which the audit needs.",
)
@shared.log_options
@shared.time_options
@shared.height_option
@shared.region_option
@bundle_option(
    "--suppress-above",
    type=float,
    metavar="AREA",
    help="Leave out users whose cloaks would sum to this area or more in a window.",
)
@bundle_option(
    "--max-suppressed",
    type=parse_share,
    metavar="SHARE",
    help="Leave out at most this share of users, such as 1%, where it saves most area.",
)
@bundle_option(
    "--tree", default="usb", type=click.Choice(TREES), help="Tree of the paper for traj-anon."
)
@bundle_option(
    "--effort", default="normal", type=click.Choice(EFFORTS), help="How hard refined tries."
)
@shared.seed_option
@shared.parts_options
@shared.request_options
@shared.rows_alike_option
@work_option(
    "--memory",
    metavar="SIZE",
    help="Most memory to use, such as 4GiB; the log may be larger and is worked on window by "
    "window. Never changes the result.  [default: the log is held in memory]",
)
@work_option(
    "--resume", is_flag=True, help="Continue an interrupted run with --memory, if there is one."
)
@engine_options
@shared.threads_option
@shared.json_option
def command(
    log: list[Path],
    output: Path,
    policy: Path | None,
    columns: LogColumns,
    request_log: Path | None,
    memory: str | None,
    resume: bool,
    threads: int | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Turn a request log into a release with at least K possible senders per request.

    LOG is a .csv, .tsv, .jsonl, .ndjson, .parquet, .arrow or .feather file, a folder of them, a
    glob, or - for standard input. With --request-log or --is-report, locations come from reports
    alone, and do not depend on requests.
    """
    from trajcloak.log.files import describe_columns
    from trajcloak.options import Options
    from trajcloak.pipeline import anonymize_files, anonymize_on
    from trajcloak.release.reading import check_outputs, check_outside_log, name_private_files

    started = time.monotonic()
    chosen = {name: options.pop(name) for name in ENGINE_OPTIONS}
    options = {name: value for name, value in options.items() if value is not None}
    asked = Options(**options)
    note_whole_parts(options.get("parts"), asked.bundle_size)
    if memory is None:
        if resume:
            raise click.UsageError("--resume goes with --memory only.")
        private = name_private_files(policy, asked.parts_per)
        check_outputs(output, private)
        outputs = [output, *private]
        if chosen["scratch"] is not None:
            outputs.append(chosen["scratch"] / "shards")
        check_outside_log([*log, request_log], outputs)
    elif chosen["engine"] != IN_MEMORY:
        raise click.UsageError(
            "--memory does not go with --engine: workers of a cluster have limits of their own."
        )
    with (
        progress_bars(hidden=as_json) as progress,
        start_engine(chosen, beside=output, threads=threads, progress=progress) as engine,
    ):
        if memory is None:
            release = anonymize_on(engine, log, columns, asked, request_log)
            release.write(output, policy, progress=progress)
        else:
            release = anonymize_files(
                log,
                output,
                policy,
                columns,
                asked,
                request_log=request_log,
                memory=memory,
                resume=resume,
                threads=threads,
                progress=progress,
            )
    manifest, figures = release.manifest, release.figures
    seconds = time.monotonic() - started
    read_as = describe_columns(log, columns)
    if as_json:
        print_json(
            {
                "release": str(output),
                "seconds": round(seconds, 3),
                "columns": read_as,
                "manifest": manifest,
                "private": figures,
            }
        )
        return
    print_summary(manifest, figures, output, policy, seconds, read_as)
    if not columns.requests:
        out.print(
            "No request column was named (--request COLUMN): areas are published, no requests."
        )


def print_summary(
    manifest: dict[str, Any],
    figures: dict[str, Any],
    output: Path,
    policy: Path | None,
    seconds: float,
    read_as: Mapping[str, str],
) -> None:
    """Show what a release holds, and what was left out.

    ``figures`` are the private ones, about requests; ``read_as`` says which columns were read.
    """
    from trajcloak.release.manifest import REASONS
    from trajcloak.release.reading import name_private_files

    unit = Unit(in_metres=manifest["crs"] is not None)
    withheld, num_sent = manifest["withheld"], figures["requests"]
    replaced, kept_rare = figures["replaced"], figures["kept_rare"]
    num_withheld = sum(figures["withheld"].values())
    share = f" ({num_withheld / num_sent:.1%})" if num_withheld else ""
    counted = figures["user_windows"]
    is_repeated = manifest["windows"] > 1 or max(counted.values()) > withheld["users"]
    times = " times" if is_repeated else ""
    suppressed, parts = manifest["suppressed"], manifest["parts"]
    facts = [
        ("users published", f"{manifest['users']:,}"),
        ("users withheld", f"{withheld['users']:,}"),
        *([("users suppressed", f"{suppressed:,}{times}")] if suppressed else []),
        ("requests in the log", f"{num_sent:,}"),
        ("requests published", f"{manifest['requests']:,} (distinct per bundle and instant)"),
        ("equal requests", f"{figures['equal']:,}"),
        ("requests withheld", f"{num_withheld:,}{share}"),
        *([("requests with a rare value replaced", f"{replaced:,}")] if replaced else []),
        *([("rare requests published", f"{kept_rare:,}")] if kept_rare else []),
        ("windows published", f"{manifest['windows']:,}"),
        ("instants published", f"{manifest['instants']:,}"),
        ("bundles", f"{manifest['bundles']:,}"),
        ("smallest bundle", f"{manifest['smallest_bundle']:,} users"),
        (
            "possible senders",
            f"at least {manifest['k']}, against the {manifest['attacker']} attacker",
        ),
        *([("parts", f"at least {parts['users']} users, per {parts['per']}")] if parts else []),
        (
            "mean area of a part" if parts else "mean cloak",
            unit.square(manifest["mean_cloak_area"]),
        ),
        ("cost", unit.area(manifest["cost"])),
        ("algorithm", f"{manifest['algorithm']}, {manifest['cloak']} cloaks"),
        ("time", f"{seconds:.1f} s"),
    ]
    out.print(facts_table("Log", [*read_as.items(), *list_ingest_facts(manifest["ingest"])]))
    out.print(facts_table(f"Release: {output}", facts))
    for reason, requests in figures["withheld"].items():
        users = counted.get(reason, 0)
        who = f"users {show_count(users, 'time')}" if times else show_count(users, "user")
        left_out = [who] * bool(users) + [show_count(requests, "request")] * bool(requests)
        if left_out:
            out.print(f"Not published ({REASONS[reason]}): {', '.join(left_out)}.")
    if withheld["sets"]:
        out.print(
            f"{show_count(withheld['sets'], 'set')} of requests have fewer than {manifest['k']} "
            f"members with a row, and are withheld; --members N makes them fewer."
        )
    if figures["withheld"]["rare"] and not manifest["requests"]:
        out.print(
            "No request is published. A request is rare if only one bundle of its window shows it. "
            "Pass a lower --k for more bundles, or see --rare."
        )
    if manifest["parameters"]["rare"] == KEEP and manifest["parameters"]["allow"]:
        names = ", ".join(manifest["parameters"]["allow"])
        out.print(f"Published although it may identify somebody (--allow): {to_markup(names)}.")
    if policy is None:
        out.print("No policy file was written; the audit needs one (--policy FILE).")
    else:
        out.print(
            f"The policy file {to_markup(str(policy))} is private: it says who is in which bundle."
        )
        for file in name_private_files(policy, parts and parts["per"])[1:]:
            out.print(
                f"So is {to_markup(str(file))}: it says who is in which part at each instant."
            )


@contextmanager
def start_engine(
    chosen: Mapping[str, Any], *, beside: Path, threads: int | None, progress: Progress
) -> "Iterator[Engine]":
    """Start or connect to the engine that the options name.

    ``chosen`` are the values of all :data:`ENGINE_OPTIONS`. The scratch folder stands beside the
    path ``beside``, if no other place is named.
    """
    _check_fits(chosen)
    if chosen["engine"] == IN_MEMORY:
        from trajcloak.engines.engine import MemoryEngine

        yield MemoryEngine(threads, progress)
        return
    parent = chosen["scratch"] or beside.parent
    opened: AbstractContextManager[Engine]
    if chosen["engine"] == SPARK:
        from trajcloak.engines.spark import open_spark

        opened = open_spark(parent, chosen["master"], progress=progress)
    else:
        from trajcloak.engines.dask import open_dask

        scheduler, workers = chosen["scheduler"], chosen["workers"]
        tls = chosen["tls_ca"], chosen["tls_cert"], chosen["tls_key"]
        opened = open_dask(parent, scheduler, workers, tls, progress=progress)
    with _interrupted_if_terminated(), opened as engine:
        yield engine


def _check_fits(chosen: Mapping[str, Any]) -> None:
    """Raise if an option is given that is for another engine, or that contradicts another."""
    for name, engines in ENGINES_OF.items():
        if chosen[name] is not None and chosen["engine"] not in engines:
            raise click.UsageError(
                f"--{name.replace('_', '-')} goes with --engine {' or '.join(engines)} only."
            )
    tls = [name for name in ENGINES_OF if name.startswith("tls") and chosen[name] is not None]
    if tls and chosen["scheduler"] is None:
        raise click.UsageError(
            f"--{tls[0].replace('_', '-')} goes with --scheduler only: a cluster on this machine "
            f"makes its own certificates."
        )
    if chosen["scheduler"] is not None and chosen["workers"] is not None:
        raise click.UsageError(
            "--workers does not go with --scheduler: a cluster that runs already has its workers."
        )


@contextmanager
def _interrupted_if_terminated() -> Iterator[None]:
    """Let a run that gets SIGTERM clean up first: rows of the log stand in its scratch folder.

    Python drops an error that is raised in a finalizer, or in a function that is called when
    garbage is collected; dask has such a function. An interruption that is dropped is raised again.
    """

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    def raise_again(dropped: "sys.UnraisableHookArgs") -> None:
        if issubclass(dropped.exc_type, KeyboardInterrupt):
            signal.setitimer(signal.ITIMER_REAL, MOMENT)
        else:
            report(dropped)

    report, sys.unraisablehook = sys.unraisablehook, raise_again
    handlers = {
        number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGALRM)
    }
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in handlers.items():
            signal.signal(number, handler)
        sys.unraisablehook = report
