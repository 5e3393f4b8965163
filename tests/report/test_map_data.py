"""What the map's script reads is the release, cloak by cloak, whatever the release is."""

import base64
import json

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import trajcloak as tc
from small_logs import UNIT_CELLS, Row, dense_logs, draw_log, new_folder, read_rows
from zoo import examples


def unpack(packed):
    return np.frombuffer(base64.b64decode(packed["data"]), f"<u{packed['bytes']}").astype(int)


def read_data(page):
    return json.loads(page.read_text().split('id="data">')[1].split("</script>")[0])


def check_page(folder):
    """Compare the data of a page with the release it is about."""
    release = tc.open_release(folder / "release")
    report = tc.write_report(folder / "release", folder / "report.html")
    assert report.passed
    data = read_data(folder / "report.html")
    assert len(data["windows"]) == len(release.windows)
    region = release.manifest["region"]
    low = np.array([region["x_min"], region["y_min"]])
    for packed, window in zip(data["windows"], release.windows, strict=True):
        length = window.stop - window.start
        assert (packed["start"], packed["length"]) == (window.start, length)
        cells = unpack(packed["cloaks"]).reshape(length, len(window.users), 4)
        corner = low + cells[..., :2] * data["cell"]
        sides = (cells[..., 2:] + 1) * data["cell"]
        drawn = np.concatenate([corner, corner + sides], axis=-1).transpose(2, 1, 0)
        assert (drawn == window.cloaks).all()
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
@given(dense_logs(), st.sampled_from([None, 1, 2]))
def test_dense_logs(drawn, length):
    with new_folder() as folder:
        options = {**drawn.run_options, "length": length}
        tc.anonymize(read_rows(drawn.rows), drawn.k, **options).write(folder / "release")
        check_page(folder)


def test_logs_with_gaps(tmp_path):
    """Those of which something can be published."""
    published = 0
    for seed in range(60):
        drawn = draw_log(seed)
        folder = tmp_path / str(seed)
        folder.mkdir()
        try:
            result = tc.anonymize(read_rows(drawn.rows), drawn.k, **drawn.run_options)
        except tc.TrajcloakError:
            continue
        result.write(folder / "release")
        check_page(folder)
        published += 1
    assert published >= 15


def test_a_fine_grid(tmp_path):
    """Numbers of cells that need more than two bytes."""
    rows = [Row(user, 0, user, user % 3, "a") for user in range(12)]
    tc.anonymize(read_rows(rows), 2, region=UNIT_CELLS["region"], height=24).write(
        tmp_path / "release"
    )
    check_page(tmp_path)
    assert read_data(tmp_path / "report.html")["windows"][0]["cloaks"]["bytes"] == 4
