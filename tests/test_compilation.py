import gc
from collections import Counter
from importlib import import_module
from pkgutil import walk_packages

import pytest
from numba import njit
from numba.core.dispatcher import Dispatcher

import trajcloak
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


@pytest.mark.needs_jit
def test_no_two_kernels_have_one_name():
    """In numba's cache, kernels of one name may be taken for each other."""
    for module in walk_packages(trajcloak.__path__, "trajcloak."):
        if not module.name.endswith("__main__"):
            import_module(module.name)
    kernels = [one.py_func for one in gc.get_objects() if issubclass(type(one), Dispatcher)]
    names = Counter(f"{kernel.__module__}.{kernel.__qualname__}" for kernel in kernels)
    ours = {name: count for name, count in names.items() if name.startswith("trajcloak.")}
    assert len(ours) > 100
    assert [name for name, count in ours.items() if count > 1] == []
