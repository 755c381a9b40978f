"""The public surface is small, and equals `__all__`."""

import types

import gossamer


def test_all_is_what_there_is() -> None:
    names = {
        name
        for name, value in vars(gossamer).items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType)
    }
    assert names == set(gossamer.__all__)
    assert len(gossamer.__all__) <= 25


def test_every_public_name_says_what_it_is() -> None:
    for name in gossamer.__all__:
        if name not in ("METHODS",):
            assert getattr(gossamer, name).__doc__, name
