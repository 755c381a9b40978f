"""Reports of these tests have no curves: drawing them takes longer than most of the runs."""

import html
from collections.abc import Iterator

import pytest

from gossamer.run.report import plots


@pytest.fixture(autouse=True, scope="module")
def curves_without_lines() -> Iterator[None]:
    """An empty picture that has the curve's name. tests/run/report has the real curves."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plots, "_svg", lambda _, title, **__: f'<svg role="img" aria-label="{html.escape(title)}"></svg>')
        yield
