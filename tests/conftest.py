import os

from hypothesis import settings

# The first call of a kernel compiles it, so a deadline would fail at random.
settings.register_profile(
    "trajcloak", deadline=None, derandomize=os.environ.get("CI", "") == "true"
)
settings.load_profile("trajcloak")
