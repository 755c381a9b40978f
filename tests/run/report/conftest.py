"""Reports of these tests have real curves."""

import pytest


@pytest.fixture(autouse=True, scope="module")
def curves_without_lines() -> None:
    """Takes the place of the fixture of the folder above, which leaves the lines out."""
