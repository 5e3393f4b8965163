"""From rows to trajectories: the rules of docs/data-model.md as plain loops.

A row is (user, time, x, y, request); the request is None where the row is only a
location. Times and coordinates are integers or Fractions, and locations come out
as exact Fractions.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import gcd


@dataclass(frozen=True)
class Window:
    """Instants start .. stop - 1, and the locations of the users who take part."""

    number: int
    start: int
    stop: int
    participants: dict  # user -> [(x, y), one per instant]
    is_published: bool


@dataclass(frozen=True)
class Completed:
    """What the rules make of a log."""

    origin: object
    every: object
    num_instants: int
    windows: list  # of Window, those without participants included
    requests: dict  # (user, instant) -> [request, one per row], published or not
    withheld: dict  # as in the manifest, but for sets: users, windows
    left_out: dict  # reason -> user_windows, requests


def complete(rows, *, k, every=None, max_gap=None, length=None, missing="withhold", suppressed=()):
    """Apply the rules; ``suppressed`` are (user, window number) pairs left out on purpose."""
    rows = list(rows)
    reports = _reports_of_users(rows)
    times = [row[1] for row in rows]
    if every is None:
        every = default_every(rows)
    if max_gap is None:
        max_gap = 2 * every
    origin = grid_origin(times, every, missing)
    num_instants = instant_of(max(times), origin, every) + 1
    if length is None:
        length = num_instants

    requests = {}
    for user, time, _, _, request in rows:
        if request is not None:
            instant = instant_of(time, origin, every)
            requests.setdefault((user, instant), []).append(request)

    windows = []
    start = 0
    while start < num_instants:
        stop = min(start + length, num_instants)
        participants = {}
        for user, reports_of_user in reports.items():
            locations = [
                location_at(reports_of_user, origin + instant * every, max_gap, missing)
                for instant in range(start, stop)
            ]
            if None not in locations:
                participants[user] = locations
        windows.append(Window(len(windows), start, stop, participants, len(participants) >= k))
        start = stop
    if not any(window.is_published for window in windows):
        raise ValueError(f"no window has {k} participants")

    withheld, left_out = _count_withheld(rows, windows, origin, every, length, set(suppressed))
    return Completed(origin, every, num_instants, windows, requests, withheld, left_out)


def default_every(rows):
    """Find the step of the log's own grid, or raise if it has none."""
    times = [row[1] for row in rows]
    step = _common_divisor([time - min(times) for time in times])
    if step == 0:
        return 1
    times_of_users = {}
    for user, time, *_ in rows:
        times_of_users.setdefault(user, []).append(time)
    reports = 0
    spanned = 0
    for times_of_user in times_of_users.values():
        reports += len(times_of_user)
        spanned += (max(times_of_user) - min(times_of_user)) // step + 1
    if 2 * reports < spanned:
        raise ValueError("the log has no grid of its own; every must be given")
    return step


def grid_origin(times, every, missing="withhold"):
    """Find the moment of instant 0."""
    earliest = min(times)
    if all((time - earliest) % every == 0 for time in times):
        return earliest
    before = earliest // every * every
    if missing == "withhold" and before < earliest and before + every <= max(times):
        return before + every
    return before


def instant_of(time, origin, every):
    """Number the instant that a time falls into."""
    return int((time - origin) // every)


def location_at(reports, moment, max_gap, missing):
    """Locate a user, whose reports are a dict from time to place, or return None."""
    if moment in reports:
        x, y = reports[moment]
        return Fraction(x), Fraction(y)
    earlier = [time for time in reports if time < moment]
    later = [time for time in reports if time > moment]
    if earlier and later:
        before, after = max(earlier), min(later)
        if after - before <= max_gap:
            share = Fraction(moment - before) / Fraction(after - before)
            (x0, y0), (x1, y1) = reports[before], reports[after]
            return x0 + share * (x1 - x0), y0 + share * (y1 - y0)
    if missing == "hold":
        x, y = reports[max(earlier)] if earlier else reports[min(later)]
        return Fraction(x), Fraction(y)
    return None


def _reports_of_users(rows):
    reports = {}
    for user, time, x, y, _ in rows:
        place = reports.setdefault(user, {}).setdefault(time, (x, y))
        if place != (x, y):
            raise ValueError("two rows of a user at the same time disagree on the place")
    return reports


def _count_withheld(rows, windows, origin, every, length, suppressed):
    why = {
        reason: {"user_windows": 0, "requests": 0}
        for reason in ("outside_windows", "missing_location", "small_window", "suppressed")
    }
    pairs_with_reports = set()
    for user, time, _, _, request in rows:
        if time < origin:
            why["outside_windows"]["requests"] += request is not None
            continue
        window = windows[instant_of(time, origin, every) // length]
        pairs_with_reports.add((user, window.number))
        reason = _reason(user, window, suppressed)
        if request is not None and reason is not None:
            why[reason]["requests"] += 1
    for user, number in pairs_with_reports:
        reason = _reason(user, windows[number], suppressed)
        if reason is not None:
            why[reason]["user_windows"] += 1

    users = {row[0] for row in rows}
    in_a_bundle = {
        user
        for window in windows
        for user in window.participants
        if _reason(user, window, suppressed) is None
    }
    suppressed_users = {user for user, _ in suppressed}
    withheld = {
        "users": len(users - in_a_bundle - suppressed_users),
        "windows": sum(not window.is_published for window in windows),
    }
    return withheld, why


def _reason(user, window, suppressed):
    """Tell why a user is left out of a window; None for those who are published."""
    if user not in window.participants:
        return "missing_location"
    if not window.is_published:
        return "small_window"
    if (user, window.number) in suppressed:
        return "suppressed"
    return None


def _common_divisor(numbers):
    """Find the greatest common divisor of integers or Fractions; 0 if all are 0."""
    fractions = [Fraction(number) for number in numbers]
    denominator = 1
    for fraction in fractions:
        denominator = denominator * fraction.denominator // gcd(denominator, fraction.denominator)
    divisor = 0
    for fraction in fractions:
        divisor = gcd(divisor, int(fraction * denominator))
    step = Fraction(divisor, denominator)
    return int(step) if step.denominator == 1 else step
