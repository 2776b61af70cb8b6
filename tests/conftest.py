"""Settings for all tests.

Hypothesis gives an example 200 ms by default. On a busy machine that fails at random, so there is
no deadline here; pytest's own timeout ends what hangs.
"""

from hypothesis import settings

settings.register_profile("bayplan", deadline=None)
settings.load_profile("bayplan")
