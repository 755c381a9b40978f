"""Intervals: from counts and from repeats to an `Estimate`. They live in `gossamer.intervals`, which attacks use too."""

from gossamer.intervals import mean, proportion

__all__ = ["mean", "proportion"]
