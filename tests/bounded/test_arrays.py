import numpy as np
import pytest

from trajcloak.bounded.arrays import read_arrays, write_arrays

ARRAYS = {
    "number": 7,
    "flags": np.array([True, False, True]),
    "cloaks": np.arange(24, dtype=np.uint32).reshape(2, 3, 4),
    "none": np.empty((0, 4, 2), np.int64),
    "share": np.float64(0.1),
}


def test_what_is_written_is_read(tmp_path):
    write_arrays(tmp_path / "a", ARRAYS)
    found = read_arrays(tmp_path / "a")
    assert list(found) == list(ARRAYS)
    for name, array in found.items():
        np.testing.assert_array_equal(array, ARRAYS[name])
        assert array.dtype == np.asarray(ARRAYS[name]).dtype
        assert array.shape == np.shape(ARRAYS[name])
        assert array.flags.writeable
        assert array.flags.aligned


def test_there_is_no_file(tmp_path):
    assert read_arrays(tmp_path / "a") is None


@pytest.mark.parametrize("damage", ["cut", "changed", "empty", "zeros"])
def test_a_damaged_file_is_no_file(tmp_path, damage):
    path = tmp_path / "a"
    write_arrays(path, ARRAYS)
    content = path.read_bytes()
    damaged = {
        "cut": content[:-1],
        "changed": content[:-9] + bytes([content[-9] ^ 1]) + content[-8:],
        "empty": b"",
        "zeros": bytes(len(content)),
    }
    path.write_bytes(damaged[damage])
    assert read_arrays(path) is None
