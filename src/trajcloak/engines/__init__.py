"""The same release from several workers: one plan, and an engine for each kind of cluster.

:mod:`.plan` lists the stages, :mod:`.engine` what it asks of an engine. ``docs/scale.md``
says how it works and what it costs.
"""
