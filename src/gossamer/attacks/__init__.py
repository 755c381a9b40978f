"""Attacks: arrays in, an `Attack` or an `Estimate` out. Each module is loaded when it is used."""

from gossamer.lazy import exported, modules_of

__all__, __getattr__, __dir__ = exported(__name__, modules_of(__name__, __path__))
