"""Fixtures of told stories."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from stories import Told, story


@pytest.fixture
def tell(tmp_path: Path) -> Callable[..., Told]:
    """`story` in a folder of this test; takes rows of text, a DataFrame (written as CSV), or a path."""

    def told(data: Any, **how: Any) -> Told:
        path = data
        if isinstance(data, str):
            path = tmp_path / how.pop("name", "t.csv")
            path.write_text(data)
        elif isinstance(data, pd.DataFrame):
            path = tmp_path / "t.csv"
            data.to_csv(path, index=False)
        return story(tmp_path, path, **how)

    return told
