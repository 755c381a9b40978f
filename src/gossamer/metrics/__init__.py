"""Measures of realism and utility: arrays in, an `Estimate` out. Each module is loaded when it is used."""

import typing

from gossamer.lazy import exported, modules_of

if typing.TYPE_CHECKING:
    from gossamer.metrics.metric import Measures as Measures

_NAMES = {"Measures": "gossamer.metrics.metric:Measures", **modules_of(__name__, __path__)}
__all__, __getattr__, __dir__ = exported(__name__, _NAMES)
