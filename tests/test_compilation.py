import pytest
from numba import njit

from trajcloak.compilation import follow_compilation


@pytest.mark.needs_jit
def test_kernels_are_named_while_they_are_compiled():
    @njit
    def inner(number):
        return number + 1

    @njit
    def outer(number):
        return inner(number) * 2

    names = []
    with follow_compilation(names.append) as compilation:
        assert outer(1) == 4
        assert names == ["outer", "inner", "outer", None]
        seconds = compilation.seconds
        assert seconds > 0
        assert outer(2) == 6
    assert len(names) == 4
    assert compilation.seconds == seconds
    outer(1.0)
    assert len(names) == 4
