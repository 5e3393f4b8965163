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

    stages = []
    with follow_compilation(lambda *stage: stages.append(stage)) as compilation:
        assert outer(1) == 4
        assert [(name.partition(": ")[2], total) for name, _, total in stages] == [
            ("outer", 0), ("inner", 0), ("outer", 0), ("2 kernels", 2),
        ]  # fmt: skip
        seconds = compilation.seconds
        assert seconds > 0
        assert outer(2) == 6
    assert len(stages) == 4
    assert compilation.seconds == seconds
    outer(1.0)
    assert len(stages) == 4
