from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from trajcloak.errors import InputError, OptionError, OutputError
from trajcloak.generator import GeneratedLog, generated_log
from trajcloak.generator.generated_log import id_texts, user_ids
from trajcloak.log import read_in_memory, write
from trajcloak.options import LogColumns

from .conftest import JUNCTIONS, LENGTH, SEED, USERS, read_columns

generate_log = partial(generated_log.generate_log, junctions=JUNCTIONS)

PINNED = [
    "544491897761,2024-05-06 08:00:00,30873.9,20403.3,parking,garage",
    "637725983341,2024-05-06 08:00:00,8296.3,15529.6,,",
    "544491897761,2024-05-06 08:01:00,30889.82,20295.47,bus,city line",
    "637725983341,2024-05-06 08:01:00,10019.77,15791.21,,",
    "544491897761,2024-05-06 08:02:00,30905.74,20187.64,pharmacy,emergency",
    "637725983341,2024-05-06 08:02:00,11743.73,15638.67,,",
]


@pytest.mark.parametrize("place", ["city", "town"])
def test_few_users_take_the_ways_that_labels_find(place, request, tmp_path, monkeypatch):
    """Searched for one by one; in a town of equal blocks ties send the generator to labels."""
    network = request.getfixturevalue(place)
    monkeypatch.setattr(generated_log, "load_network", lambda *args: network)
    prepared = []
    build_roads = generated_log.build_roads

    def note_labels(*args, **options):
        prepared.append(options["has_labels"])
        return build_roads(*args, **options)

    monkeypatch.setattr(generated_log, "build_roads", note_labels)
    generate_log(tmp_path / "searched.parquet", users=60, length=20, seed=SEED)
    assert prepared == ([False] if place == "city" else [False, True])
    monkeypatch.setattr(generated_log, "MOST_SEARCHED", 0)
    generate_log(tmp_path / "labels.parquet", users=60, length=20, seed=SEED)
    assert prepared[-1] is True
    searched, labels = (
        pq.read_table(tmp_path / f"{name}.parquet") for name in ("searched", "labels")
    )
    assert searched.equals(labels)


def test_counts(generated, city):
    log = generated[1]
    assert log == GeneratedLog(
        rows=USERS * LENGTH,
        requests=log.requests,
        users=USERS,
        instants=LENGTH,
        junctions=city.num_nodes,
        roads=city.num_edges,
        junctions_left_out=city.left_out,
        request_columns=("category", "detail"),
    )
    assert pq.read_metadata(generated[0]).num_rows == log.rows


def test_schema(generated):
    schema = pq.read_schema(generated[0])
    assert schema.names == ["user_id", "time", "x", "y", "category", "detail"]
    assert schema.field("user_id").type == pa.int64()
    assert pa.types.is_timestamp(schema.field("time").type)
    assert schema.field("time").type.tz is None
    assert schema.field("x").type == schema.field("y").type == pa.float64()
    assert schema.field("category").type == schema.field("detail").type == pa.string()


def test_rows_are_time_major(columns):
    first = np.datetime64("2024-05-06T08:00:00", "s")
    moments = first + np.arange(LENGTH) * 60
    assert (columns["time"] == moments[:, None]).all()
    assert (columns["user_id"] == columns["user_id"][0]).all()
    assert (columns["user_id"][0] == user_ids(SEED, USERS)).all()


def test_same_seed_same_bytes_whatever_the_threads(generated, tmp_path, monkeypatch):
    for threads in (1, 3):
        monkeypatch.setattr(generated_log, "default_threads", lambda threads=threads: threads)
        path = tmp_path / f"{threads}.parquet"
        generate_log(path, users=USERS, length=LENGTH, seed=SEED)
        assert path.read_bytes() == generated[0].read_bytes()


def test_rows_are_pinned(tmp_path):
    """The rows of a seed are the same on every machine and in every version."""
    path = tmp_path / "log.csv"
    generate_log(path, users=2, length=3, seed=2024, request_share=0.5)
    assert path.read_text().splitlines()[1:] == PINNED


def test_another_seed_gives_another_log(generated, tmp_path):
    path = tmp_path / "other.parquet"
    generate_log(path, users=USERS, length=LENGTH, seed=SEED + 1)
    one, other = pq.read_table(generated[0]), pq.read_table(path)
    for name in ("user_id", "x", "y", "category"):
        assert one[name] != other[name]


def test_fewer_users_are_a_prefix(generated, columns, tmp_path):
    path = tmp_path / "fewer.parquet"
    generate_log(path, users=400, length=LENGTH, seed=SEED)
    fewer = pq.read_table(path)
    for name, whole in columns.items():
        actual = fewer[name].to_numpy(zero_copy_only=False).reshape(LENGTH, 400)
        assert (actual == whole[:, :400]).all(), name


def test_fewer_instants_are_a_prefix(generated, tmp_path):
    path = tmp_path / "shorter.parquet"
    generate_log(path, users=USERS, length=3, seed=SEED)
    assert pq.read_table(path) == pq.read_table(generated[0]).slice(0, 3 * USERS)


def test_blocks_do_not_show_in_the_rows(generated, tmp_path, monkeypatch):
    monkeypatch.setattr(generated_log, "ROWS_PER_GROUP", 5 * USERS)
    path = tmp_path / "blocks.parquet"
    seen = []
    generate_log(
        path,
        users=USERS,
        length=LENGTH,
        seed=SEED,
        progress=lambda *call: seen.append(call),
    )
    assert pq.read_table(path) == pq.read_table(generated[0])
    assert pq.read_metadata(path).num_row_groups == 3
    preparing = [call for call in seen if call[0] == "preparing routes"]
    assert [done for _, done, _ in preparing] == list(range(preparing[0][2] + 1))
    assert seen[len(preparing) :] == [("generating", done, LENGTH) for done in (0, 5, 10, 12)]


def test_share_of_requests_leaves_movement_alone(generated, tmp_path):
    path = tmp_path / "quiet.parquet"
    log = generate_log(path, users=USERS, length=LENGTH, seed=SEED, request_share=0)
    assert log.requests == 0
    names = ["user_id", "time", "x", "y"]
    assert pq.read_table(path, columns=names) == pq.read_table(generated[0], columns=names)


def test_string_ids(generated, tmp_path):
    path = tmp_path / "text.parquet"
    generate_log(path, users=USERS, length=LENGTH, seed=SEED, string_ids=True)
    texts, numbers = pq.read_table(path), pq.read_table(generated[0])
    assert texts["user_id"].type == pa.string()
    assert pc.all(pc.match_substring_regex(texts["user_id"], "^u-[0-9a-f]{10}$")).as_py()
    expected = [f"u-{number:010x}" for number in numbers["user_id"].to_pylist()]
    assert texts["user_id"].to_pylist() == expected
    assert texts.drop_columns("user_id") == numbers.drop_columns("user_id")


def test_ids_are_unique_and_in_no_order():
    ids = user_ids(9, 200_000)
    assert np.unique(ids).size == ids.size
    assert ids.min() >= 0
    assert ids.max() < 1 << 40
    assert abs(np.corrcoef(np.arange(ids.size), ids)[0, 1]) < 0.02
    assert (np.diff(ids) > 0).mean() == pytest.approx(0.5, abs=0.02)
    assert len(set(id_texts(ids).to_pylist())) == ids.size


@pytest.mark.parametrize("string_ids", [False, True])
def test_csv_and_parquet_hold_the_same_rows(tmp_path, string_ids):
    logs = [tmp_path / name for name in ("log.csv", "log.parquet")]
    for path in logs:
        generate_log(path, users=70, length=5, string_ids=string_ids, every_seconds=90)
    parquet = pq.read_table(logs[1])
    types = pa_csv.ConvertOptions(column_types=parquet.schema, strings_can_be_null=True)
    assert pa_csv.read_csv(logs[0], convert_options=types) == parquet
    assert parquet["time"][-1].as_py().isoformat() == "2024-05-06T08:06:00"


def test_csv_is_plain_text(tmp_path):
    path = tmp_path / "log.csv"
    generate_log(path, users=3, length=2)
    lines = path.read_text().splitlines()
    assert lines[0].replace('"', "") == "user_id,time,x,y,category,detail"
    assert len(lines) == 7
    assert '"' not in "".join(lines[1:])


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("users", 0),
        ("users", -5),
        ("users", 2.5),
        ("length", 0),
        ("seed", -1),
        ("seed", 1 << 64),
        ("request_share", -0.1),
        ("request_share", 1.5),
        ("request_share", float("nan")),
        ("request_share", "many"),
        ("every_seconds", 0),
        ("every_seconds", 86_401),
        ("junctions", 1_999),
        ("junctions", 100_001),
        ("speed", "light"),
        ("classes", 0),
        ("classes", 9),
        ("on_arrival", "leave"),
    ],
)
def test_bad_options_are_refused(tmp_path, option, value):
    with pytest.raises(OptionError, match=f"{option} is .*; expected .*; pass"):
        generate_log(tmp_path / "log.csv", **{"users": 3, "length": 2, option: value})
    assert list(tmp_path.iterdir()) == []


def test_bad_network_is_refused_and_nothing_written(tmp_path):
    with pytest.raises(InputError, match="moon: no such file or folder"):
        generate_log(tmp_path / "log.csv", users=3, length=2, network=tmp_path / "moon")
    assert list(tmp_path.iterdir()) == []


def write_town(folder):
    """A town of 6 by 6 blocks and a road far away, as CSV files."""
    nodes = [f"{a}-{b},{100 * a},{100 * b}" for a in range(6) for b in range(6)]
    roads = [f"{a}-{b},{a + 1}-{b}" for a in range(5) for b in range(6)]
    roads += [f"{a}-{b},{a}-{b + 1}" for a in range(6) for b in range(5)]
    nodes += ["far,9000,9000", "away,9100,9000"]
    (folder / "nodes.csv").write_text("\n".join(["node,x,y", *nodes]))
    (folder / "edges.csv").write_text("\n".join(["u,v", *roads, "far,away"]))


def test_network_from_files(tmp_path):
    write_town(tmp_path)
    path = tmp_path / "log.parquet"
    log = generate_log(path, users=40, length=6, network=tmp_path)
    assert (log.junctions, log.roads, log.junctions_left_out) == (36, 60, 2)
    columns = read_columns(path, 40)
    on_street = [np.isclose(columns[name] % 100, 0, atol=1e-6) for name in ("x", "y")]
    on_street += [np.isclose(columns[name] % 100, 100, atol=1e-6) for name in ("x", "y")]
    assert np.any(on_street, axis=0).all()
    assert columns["x"].max() <= 500


@pytest.mark.parametrize(
    "options",
    [{"speed": "fast"}, {"classes": 2}, {"on_arrival": "stay"}, {"congestion": True}],
    ids=lambda options: next(iter(options)),
)
def test_options_change_the_movement(tmp_path, options):
    write_town(tmp_path)
    make = partial(generate_log, users=900, length=40, network=tmp_path)
    make(tmp_path / "plain.parquet")
    make(tmp_path / "other.parquet", **options)
    plain, other = (pq.read_table(tmp_path / f"{name}.parquet") for name in ("plain", "other"))
    assert plain["user_id"] == other["user_id"]
    assert plain["x"] != other["x"]


def test_congestion_is_the_same_whatever_the_threads(tmp_path, monkeypatch):
    write_town(tmp_path)
    written = []
    for threads in (1, 2, 5):
        monkeypatch.setattr(generated_log, "default_threads", lambda threads=threads: threads)
        path = tmp_path / f"{threads}.parquet"
        generate_log(path, users=900, length=15, network=tmp_path, congestion=True)
        written.append(path.read_bytes())
    assert written[0] == written[1] == written[2]


@pytest.mark.parametrize("name", ["log", "log.json", "log.csv.gz", ".csv"])
def test_unknown_format_is_refused(tmp_path, name):
    with pytest.raises(OptionError, match=r"expected '\.parquet' or '\.csv'; rename"):
        generate_log(tmp_path / name, users=3, length=2)
    assert list(tmp_path.iterdir()) == []


def test_existing_path_is_kept(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("precious")
    with pytest.raises(OutputError, match="exists already"):
        generate_log(path, users=3, length=2)
    assert path.read_text() == "precious"


def test_missing_folder_is_refused(tmp_path):
    with pytest.raises(OutputError, match="no folder"):
        generate_log(tmp_path / "missing" / "log.csv", users=3, length=2)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["log.csv", "log.parquet"])
@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_failure_in_the_middle_leaves_nothing(tmp_path, monkeypatch, name, error):
    monkeypatch.setattr(generated_log, "ROWS_PER_GROUP", 30)

    def fail_later(stage, done, total):
        if stage == "generating" and done == 2:
            assert len(list(tmp_path.iterdir())) == 1
            assert not (tmp_path / name).exists()
            raise error

    with pytest.raises(error):
        generate_log(tmp_path / name, users=30, length=5, progress=fail_later)
    assert list(tmp_path.iterdir()) == []


def test_failed_write_is_an_output_error(tmp_path, monkeypatch):
    class FullDisk(pq.ParquetWriter):
        def write_table(self, table, row_group_size=None):
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(write.pq, "ParquetWriter", FullDisk)
    with pytest.raises(OutputError, match=r"No space left.*free space"):
        generate_log(tmp_path / "log.parquet", users=3, length=2)
    assert list(tmp_path.iterdir()) == []


def test_path_taken_meanwhile_is_kept(tmp_path):
    path = tmp_path / "log.csv"

    def take(stage, done, total):
        path.write_text("precious")

    with pytest.raises(OutputError, match="exists already"):
        generate_log(path, users=3, length=2, progress=take)
    assert path.read_text() == "precious"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", ["log.parquet", "log.csv"])
@pytest.mark.parametrize("string_ids", [False, True])
def test_requests_in_a_file_of_their_own(tmp_path, monkeypatch, name, string_ids):
    options = {"users": 40, "length": 7, "seed": 3, "every_seconds": 50, "string_ids": string_ids}
    generate_log(tmp_path / "one.parquet", **options)
    one = pq.read_table(tmp_path / "one.parquet")
    paths = tmp_path / name, tmp_path / name.replace("log", "requests")
    log = generate_log(paths[0], request_log=paths[1], **options)
    assert [path.stat().st_mode & 0o777 for path in paths] == [0o600] * 2
    columns = LogColumns(requests=("category", "detail"))
    whole, split = read_in_memory(one, columns), read_in_memory(paths[0], columns, paths[1])
    assert split.users == whole.users
    for field in ("user", "time", "x", "y"):
        assert getattr(split, field).tolist() == getattr(whole, field).tolist()
    assert log.requests == split.num_requests == whole.num_requests > 0
    assert split.unknown_requests == 0
    assert (np.diff(split.request_time) >= 0).all()
    assert set((split.request_time // 10**6 - whole.time[0] // 10**6) % 50) >= {0, 1, 49}

    def list_sent(log):
        instant = (log.request_time - log.time[0]) // (50 * 10**6)
        return sorted(zip(log.request_user, instant, log.requests.kind, strict=True))

    assert list_sent(split) == list_sent(whole)
    assert split.requests.kinds == whole.requests.kinds
    monkeypatch.setattr(generated_log, "ROWS_PER_GROUP", 100)
    again = tmp_path / f"again-{name}", tmp_path / "again-requests.csv"
    generate_log(again[0], request_log=again[1], **options)
    if name == "log.csv":
        assert [path.read_bytes() for path in again] == [path.read_bytes() for path in paths]


def test_locations_and_requests_are_two_files(tmp_path):
    path = tmp_path / "log.csv"
    with pytest.raises(OptionError, match="are to be written to one file"):
        generate_log(path, users=2, length=2, request_log=str(path))
    with pytest.raises(OptionError, match=r"expected '.parquet' or '.csv'"):
        generate_log(path, users=2, length=2, request_log=tmp_path / "requests.txt")
    assert not path.exists()
