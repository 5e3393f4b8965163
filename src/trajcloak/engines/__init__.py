"""Who holds the shards of a log, and who works on them: memory, folder, dask, Spark.

:mod:`.engine` says what the plan in :mod:`trajcloak.pipeline` asks of an engine.
"""
