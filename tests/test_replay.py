"""A log compared with its release once more."""

import pytest

import trajcloak as tc
from runs import anonymize
from small_logs import draw_log, new_folder, read_rows
from trajcloak.query import open_published
from trajcloak.replay import recount_requests
from zoo import first_quick

OPTIONS = [
    {},
    {"rare": "other"},
    {"rare": "keep", "vocabulary": {"what": ["a", "c"]}},
    {"rare": "keep", "link_safe": True, "max_suppressed": 0.4},
    {"rare_below": 3, "link_safe": True},
    {"rare": "keep"},
]


@pytest.mark.parametrize("options", first_quick(OPTIONS, 2), ids=str)
def test_requests_are_counted_again_as_the_run_did(options):
    seen = set()
    for seed in range(40):
        drawn = draw_log(seed)
        log = read_rows(drawn.rows)
        with new_folder() as folder:
            try:
                made = anonymize(log, drawn.k, **drawn.run_options, **options)
            except tc.TrajcloakError:
                continue
            made.write(folder / "release", folder / "policy.parquet")
            counted = recount_requests(
                log,
                open_published(folder / "release"),
                folder / "policy.parquet",
                vocabulary=options.get("vocabulary"),
            )
        assert counted == made.figures
        seen |= {reason for reason, number in counted["withheld"].items() if number}
        seen |= {name for name in ("replaced", "kept_rare") if counted[name]}
    assert {"few_reporters", "missing_location", "small_window"} <= seen
    assert ("rare" in seen) == (options.get("rare") != "keep")
    assert ("replaced" in seen) == (options.get("rare") == "other")
    assert ("kept_rare" in seen) == (options.get("rare") == "keep")
    assert ("suppressed" in seen) == ("max_suppressed" in options)
    assert ("vocabulary" in seen) == ("vocabulary" in options)
