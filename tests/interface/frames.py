"""One small log, as tables and frames of many kinds."""

from datetime import datetime, timedelta

import duckdb
import geopandas
import numpy as np
import pandas as pd
import polars
import pyarrow as pa
from pyarrow import dataset

USERS, LENGTH = 24, 6
START = datetime(2026, 3, 2, 8)
UTM = 32633


def build_table() -> pa.Table:
    """Users who walk in Berlin and ask for a service now and then."""
    rng = np.random.default_rng(5)
    home = rng.random((USERS, 2)) / 30 + (13.4, 52.5)
    steps = rng.normal(0, 1e-4, (USERS, LENGTH, 2)).cumsum(axis=1)
    lon, lat = (home[:, None] + steps).reshape(-1, 2).T
    return pa.table(
        {
            "user_id": np.repeat([f"rider-{number:02}" for number in range(USERS)], LENGTH),
            "time": [START + timedelta(minutes=i) for _ in range(USERS) for i in range(LENGTH)],
            "lon": lon,
            "lat": lat,
            "service": rng.choice(["food", "taxi"], USERS * LENGTH),
        }
    )


def build_pandas() -> pd.DataFrame:
    return build_table().to_pandas()


def build_geopandas(crs: int = 4326, *, keeps_columns: bool = False) -> geopandas.GeoDataFrame:
    frame = build_pandas()
    points = geopandas.points_from_xy(frame["lon"], frame["lat"], crs=4326)
    rest = frame if keeps_columns else frame.drop(columns=["lon", "lat"])
    return geopandas.GeoDataFrame(rest, geometry=points).to_crs(crs)


SOURCES = {
    "pandas": build_pandas,
    "an index of times": lambda: build_pandas().set_index("time"),
    "an index of another name": lambda: build_pandas().set_index("time").rename_axis("t"),
    "an index without a name": lambda: build_pandas().set_index("time").rename_axis(None),
    "polars": lambda: polars.from_arrow(build_table()),
    "a lazy frame of polars": lambda: polars.from_arrow(build_table()).lazy(),
    "Arrow": build_table,
    "a reader of Arrow": lambda: build_table().to_reader(max_chunksize=50),
    "a dataset of Arrow": lambda: dataset.dataset(build_table()),
    "DuckDB": lambda: duckdb.from_arrow(build_table()),
    "GeoPandas": build_geopandas,
    "GeoPandas with columns": lambda: build_geopandas(keeps_columns=True),
}
