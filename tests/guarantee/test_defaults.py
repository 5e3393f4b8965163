"""What is proposed, and what is chosen by default, never looks at requests."""

from dataclasses import replace

import numpy as np
import pytest

from guarantee.movable_logs import KINDS, TWO_INPUTS, draw_movable, draw_requests, write_log
from guarantee.moves import publish
from small_logs import new_folder
from trajcloak import inspection, plan
from trajcloak.cli import main
from trajcloak.trajectories import build_ingest

SEEDS = range(12)
CHOSEN = ("every", "max_gap", "length", "height")
"""Options whose default depends on the log, or which are proposed."""


def draw(seed, kind):
    """Draw a log in a file, and three times what is sent: nothing, something, something else."""
    log, requests = draw_movable(seed, kind)
    log = replace(log, format=("csv", "parquet")[seed % 2])
    return log, [[], requests, draw_requests(np.random.default_rng(seed), log)]


def inspect(log, requests, capsys, *options):
    """Run the command; returns its exit code and all that it prints."""
    with new_folder() as folder:
        given = write_log(log, requests, folder)
        columns = given.columns
        named = [
            ("--request-log", given.request_log),
            ("--is-report", columns.is_report),
            ("--max-speed", columns.max_speed),
            *(("--request", name) for name in columns.requests),
            *(("--drop", reason) for reason in columns.drop),
        ]
        args = ["inspect", given.source, "--k", log.k, "--threads", 1, *options]
        args += [arg for name, value in named if value is not None for arg in (name, value)]
        capsys.readouterr()
        with pytest.raises(SystemExit) as stopped:
            main(list(map(str, args)))
        printed = "".join(capsys.readouterr())
    return stopped.value.code, printed.replace(str(folder), "")


@pytest.mark.needs_jit
@pytest.mark.parametrize(
    "options", [(), ("--json",), pytest.param(("--plan",), marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("kind", KINDS)
def test_inspect_never_looks_at_requests(kind, options, capsys, monkeypatch):
    monkeypatch.setattr(plan, "PARTS", (2,))
    codes = [check_inspection(seed, kind, capsys, *options) for seed in SEEDS]
    assert codes.count(0) >= len(SEEDS) // 2


def check_inspection(seed, kind, capsys, *options):
    log, sent = draw(seed, kind)
    nothing, *others = [inspect(log, requests, capsys, *options) for requests in sent]
    assert others == [nothing] * 2, "inspected requests"
    return nothing[0]


@pytest.mark.needs_jit
@pytest.mark.parametrize("kind", KINDS)
def test_a_look_at_requests_is_seen(kind, capsys, monkeypatch):
    """Inspect says how many rows are no requests."""

    def count(facts, *rest):
        return build_ingest(replace(facts, num_rows=facts.num_rows - facts.num_requests), *rest)

    monkeypatch.setattr(inspection, "build_ingest", count)
    with pytest.raises(AssertionError, match="inspected requests"):
        check_inspection(0, kind, capsys, "--json")


@pytest.mark.needs_jit
def test_a_plan_by_requests_is_seen(capsys, monkeypatch):
    """The plan counts as shown who sent something."""

    def find_senders(window, bundle, num_bundles, k):
        return np.bincount(bundle[window.request_user], minlength=num_bundles) > 0

    monkeypatch.setattr(plan, "find_eligible", find_senders)
    with pytest.raises(AssertionError, match="inspected requests"):
        _ = [check_inspection(seed, TWO_INPUTS, capsys, "--plan") for seed in SEEDS]


@pytest.mark.needs_jit
@pytest.mark.parametrize("kind", KINDS)
def test_defaults_never_look_at_requests(kind):
    """Bundles and manifest are the same, but for the number of requests; errors, too."""
    released = 0
    for seed in SEEDS:
        log, sent = draw(seed, kind)
        # Where times are irregular, there is no default of ``every``.
        chosen = CHOSEN if seed % 2 else CHOSEN[1:]
        log = replace(log, options={n: v for n, v in log.options.items() if n not in chosen})
        nothing, *others = [hide_requests(publish(log, requests)) for requests in sent]
        assert others == [nothing] * 2, seed
        released += isinstance(nothing.files, dict)
    assert released >= len(SEEDS) // 4


def hide_requests(outcome):
    if not isinstance(outcome.files, dict):
        return outcome
    manifest = outcome.files["manifest.json"].decode().splitlines()
    kept = [line for line in manifest if not line.startswith('  "requests": ')]
    assert len(kept) == len(manifest) - 1
    files = {"bundles.parquet": outcome.files["bundles.parquet"], "manifest.json": kept}
    return outcome._replace(files=files)
