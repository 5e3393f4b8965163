"""Move the request, keep the bytes: on clusters, too."""

import pytest

from engines.drawn_runs import draw_sizes
from guarantee.movable_logs import KINDS, draw_movable
from guarantee.moves import anonymize_with, check_moves


def check_on(engine, seed):
    def anonymize(given, folder):
        engine._sizes = draw_sizes(seed)
        return anonymize_with(engine, given)

    check_moves(*draw_movable(seed, KINDS[seed % len(KINDS)]), seed, anonymize)


@pytest.mark.needs_jit
@pytest.mark.cluster
@pytest.mark.parametrize("seed", range(5000, 5006))
def test_on_dask(seed, dask_engine):
    check_on(dask_engine, seed)


@pytest.mark.needs_jit
@pytest.mark.cluster
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
@pytest.mark.parametrize("seed", range(6000, 6006))
def test_on_spark(seed, spark_engine):
    check_on(spark_engine, seed)
