"""Check a log before users are bundled: all that is wrong with it, at once."""

from typing import NamedTuple

from trajcloak.errors import NotEnoughUsersError, Refusals
from trajcloak.log import ShardedLog
from trajcloak.options import Options
from trajcloak.trajectories.ingest import is_dense
from trajcloak.trajectories.layout import Layout, lay_out
from trajcloak.trajectories.reports import Reports, check_conflicts, compare_all_reports
from trajcloak.trajectories.schedule import check_schedule


class CheckedLog(NamedTuple):
    """A log that can be bundled.

    Attributes
    ----------
    log : ShardedLog
        On the plane.
    layout : Layout
    reports : Reports or None
        How the rows of each user follow each other; None if each user very probably has one row
        at each instant.
    """

    log: ShardedLog
    layout: Layout
    reports: Reports | None


def check_log(log: ShardedLog, asked: Options, refusals: Refusals) -> CheckedLog:
    """Lay out a log in time and space, and check its rows.

    Parameters
    ----------
    log
    asked
    refusals
        What is wrong with the log so far.

    Raises
    ------
    TrajcloakError
        If anything is wrong; says everything that is.
    """
    placed, layout = log, None
    with refusals.collecting():
        placed, layout = lay_out(log, asked)
    dense = layout is not None and not refusals.reasons and is_dense(log.facts, layout.grid)
    reports = None
    if not dense:
        reports = compare_all_reports(placed, 0 if layout is None else layout.max_gap)
    check_rows(placed, asked, reports, refusals)
    refusals.check()
    assert layout is not None
    return CheckedLog(placed, layout, reports)


def too_few_users(most_users: int, num_users: int, members: int) -> NotEnoughUsersError:
    """Build the error for a log of which no window has enough users.

    ``most_users`` take part in the window with most of them, of ``num_users`` in all.
    """
    if num_users < members:
        return NotEnoughUsersError(
            f"the log has {num_users:,} users; expected at least {members:,} for a bundle; lower "
            f"--k or --members"
        )
    return NotEnoughUsersError(
        f"at most {most_users:,} of {num_users:,} users take part in a window, since the location "
        f"of the others is not known at all of its instants, the first and the last included; "
        f"expected at least {members:,}; pass what trajcloak inspect proposes as --every, "
        f"--max-gap and --length, keep more users with --missing=hold, or lower --k or --members"
    )


def check_rows(
    log: ShardedLog, asked: Options, reports: Reports | None, refusals: Refusals
) -> None:
    """Note if rows contradict each other, or some stand out as if they carried requests.

    ``reports`` are those of the log; None if each user has one row at each instant.
    """
    if reports is not None:
        with refusals.collecting():
            check_conflicts(reports, log.facts.files)
    if log.facts.is_one_log and log.kinds.num_columns and not asked.rows_alike:
        with refusals.collecting():
            check_schedule(log, reports)
