"""No false alarm: valid releases of random logs, over all options, pass."""

import pytest

from engines.drawn_runs import draw_run
from trajcloak.auditor import audit_files
from trajcloak.errors import TrajcloakError

PER_TEST = 25


def audit_drawn(seed, folder, **options):
    """Audit the release of a random run; None if nothing can be released."""
    folder.mkdir()
    run = draw_run(seed, folder)
    try:
        run.in_memory(folder / "release", folder / "policy.parquet")
    except TrajcloakError:
        return None
    return audit_files(
        run.source,
        folder / "release",
        folder / "policy.parquet",
        run.columns,
        request_log=run.request_log,
        **options,
    )


def check_range(first, folder, **options):
    reports = [
        (seed, audit_drawn(seed, folder / f"{seed}", **options))
        for seed in range(first, first + PER_TEST)
    ]
    made = [(seed, report) for seed, report in reports if report is not None]
    assert made
    for seed, report in made:
        assert not [(seed, check) for check in report.checks if not check.passed]


@pytest.mark.parametrize("options", [{}, {"memory": 2000}, {"replay": True}], ids=str)
def test_few_valid_releases_pass(tmp_path, options):
    check_range(0, tmp_path, **options)


@pytest.mark.long
@pytest.mark.parametrize("first", range(PER_TEST, 2500, PER_TEST))
def test_many_valid_releases_pass(tmp_path, first):
    check_range(first, tmp_path, memory=(None, 2000)[first // PER_TEST % 2])
