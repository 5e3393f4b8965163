"""Windows to bundles, on any engine.

Small windows are bundled whole, many at once (:mod:`.runs`). A window too large for one call
is taken apart: by ranges of keys for ``traj-anon`` (:mod:`.key_ranges`), by blocks of near
trajectories for ``refined`` (:mod:`.near_blocks`).
"""
