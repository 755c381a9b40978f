"""`evaluate` looks for the public records of a run, and does not decode the private ones for that."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gossamer.data.card import DataCard
from gossamer.run.evaluation.evaluate import public_records
from gossamer.run.storage.data_sources import DataSources

CARD = DataCard(shape=(1, 8, 8), classes=2, declared_size=4)


@pytest.mark.parametrize("has_public", [False, True])
def test_private_records_are_not_read_for_the_public_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_public: bool
) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (4, 8, 8), dtype=np.uint8)
    np.savez(tmp_path / "public.npz", images=pixels, labels=[0, 1, 1, 0])
    sources = DataSources.of(str(tmp_path / "gone"), public=str(tmp_path / "public.npz") if has_public else None)
    monkeypatch.setattr(DataSources, "read_unconfined", lambda *_: pytest.fail("the private records were read again"))
    folder: Any = SimpleNamespace(
        source=lambda: {"sources": sources.to_json()}, config=lambda: {"card": CARD.to_dict()}
    )
    found = public_records(folder)
    assert (found is not None) is has_public
    if found is not None:
        np.testing.assert_array_equal(found.images[:, 0], pixels)
