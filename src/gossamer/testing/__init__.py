"""Tests that every method must pass, for authors of methods in other packages. They need pytest.

Example, in a test file of your package:
    from gossamer.testing import MethodTests

    class TestMine(MethodTests):
        method = "mine"
        small = {"noise_multiplier": 1.0, "steps": 20}
        toy = {"noise_multiplier": 0.1}

`checks.py` has the same questions without pytest. `trial_run.py` has the small training in memory that they look at.
"""

import pytest

pytest.register_assert_rewrite("gossamer.testing.checks")

from gossamer.testing.method_tests import MethodTests as MethodTests  # noqa: E402 (after its asserts are registered)

__all__ = ["MethodTests"]
