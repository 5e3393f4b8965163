"""What the map's script reads is the release, cloak by cloak, whatever the release is."""

import base64
import json

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

import trajcloak as tc
from runs import anonymize
from small_logs import UNIT_CELLS, Row, dense_logs, draw_log, new_folder, read_rows
from trajcloak.options import PARTS_PER
from trajcloak.query import open_published
from trajcloak.report import write_report_page
from trajcloak.report.map_contents import choose_drawn
from trajcloak.report.map_section import describe_sample
from zoo import examples


def unpack(packed):
    return np.frombuffer(base64.b64decode(packed["data"]), f"<u{packed['bytes']}").astype(int)


def read_data(page):
    return json.loads(page.read_text().split('id="data">')[1].split("</script>")[0])


def check_density(shades, density, window):
    """All users are on the surface, as far as colours tell them: none is the strongest."""
    most = density["greatest"] * (shades / 255) ** 2
    least = density["greatest"] * (np.maximum(shades - 1, 0) / 255) ** 2
    is_whole = (shades < 255).all(axis=1)
    users = int(window.users.sum())
    assert (least.sum(axis=1) <= users).all()
    assert (most.sum(axis=1)[is_whole] >= users * (1 - 1e-6)).all()


def check_page(folder):
    """Compare the data of a page with the release it is about."""
    release = open_published(folder / "release")
    report = write_report_page(folder / "release", folder / "report.html")
    assert report.passed
    data = read_data(folder / "report.html")
    assert len(data["windows"]) == len(release.windows)
    region = release.manifest["region"]
    low = np.array([region["x_min"], region["y_min"]])
    for packed, window in zip(data["windows"], release.windows, strict=True):
        length = window.stop - window.start
        assert (packed["start"], packed["length"]) == (window.start, length)
        counts = unpack(packed["counts"]).reshape(length, len(window.users))
        assert (window.counts == counts.T).all()
        cells = unpack(packed["rectangles"]).reshape(-1, 4)
        corner = low + cells[:, :2] * data["cell"]
        sides = (cells[:, 2:] + 1) * data["cell"]
        drawn = np.concatenate([corner, corner + sides], axis=1)
        instants = range(window.start, window.stop)
        rows = np.concatenate([window.find_parts(instant) for instant in instants])
        assert (drawn == window.rectangles[:, rows].T).all()
        check_density(unpack(packed["density"]).reshape(length, -1), data["density"], window)
        assert unpack(packed["users"]).tolist() == window.users.tolist()
        assert unpack(packed["ids"]).tolist() == [
            *range(window.first_id, window.first_id + len(window.users))
        ]
        totals = unpack(packed["totals"])
        assert len(totals) == len(window.users) * length
        assert np.minimum(totals, data["mostListed"]).sum() == len(unpack(packed["codes"]))
    total = sum(int(unpack(packed["totals"]).sum()) for packed in data["windows"])
    assert total == release.manifest["requests"]


@examples(30)
@given(dense_logs(), st.sampled_from([None, 1, 2]), st.sampled_from([None, *PARTS_PER]))
def test_dense_logs(drawn, length, parts_per):
    options = {**drawn.run_options, "length": length}
    if parts_per is not None:
        assume(len({row.user for row in drawn.rows}) >= 4)
        options |= {"members": 4, "parts": 2, "parts_per": parts_per}
    with new_folder() as folder:
        anonymize(read_rows(drawn.rows), drawn.k, **options).write(folder / "release")
        check_page(folder)


def test_logs_with_gaps(tmp_path):
    """Those of which something can be published."""
    published = 0
    for seed in range(60):
        drawn = draw_log(seed)
        folder = tmp_path / str(seed)
        folder.mkdir()
        try:
            result = anonymize(read_rows(drawn.rows), drawn.k, **drawn.run_options)
        except tc.TrajcloakError:
            continue
        result.write(folder / "release")
        check_page(folder)
        published += 1
    assert published >= 15


def test_a_fine_grid(tmp_path):
    """Numbers of cells that need more than two bytes."""
    rows = [Row(user, 0, user, user % 3, "a") for user in range(12)]
    anonymize(read_rows(rows), 2, region=UNIT_CELLS["region"], height=24).write(
        tmp_path / "release"
    )
    check_page(tmp_path)
    assert read_data(tmp_path / "report.html")["windows"][0]["rectangles"]["bytes"] == 4


def test_a_map_of_some_bundles_says_so(tmp_path):
    rows = [Row(user, time, 10 * user, time, "food") for user in range(40) for time in range(6)]
    made = anonymize(read_rows(rows), 2, length=2, rare="keep")
    made.write(tmp_path / "release", tmp_path / "policy.parquet")
    release = open_published(tmp_path / "release")
    total = sum(len(window.users) for window in release.windows)
    for windows, words in [
        (3, "in 3 of 3 windows, one window at a time"),
        (1, "in 1 of 3 windows"),
    ]:
        drawn = choose_drawn(release, most_rectangles=20, most_windows=windows)
        shown = sum(len(part.bundle) for part in drawn)
        assert 0 < shown < total
        said = describe_sample(release, drawn)
        assert f"The map shows {shown} of {total} bundles, {words}. They are evenly" in said
