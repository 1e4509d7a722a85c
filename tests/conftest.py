"""Profiles for property tests: the usual one, a thorough one for a quiet hour, a short one for mutation tests."""

import os

from hypothesis import settings

settings.register_profile("default", deadline=None)
settings.register_profile("thorough", deadline=None, max_examples=2000)
settings.register_profile("mutants", deadline=None, max_examples=15, database=None, derandomize=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
