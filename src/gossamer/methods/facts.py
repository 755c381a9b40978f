"""What `run/` must know of a method beside its loop. Every method module states it once, as FACTS."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gossamer.data.card import DataCard
from gossamer.privacy.guarantee import ADD_OR_REMOVE_ONE, NeighboringRelation


def _no(_config: Any) -> bool:
    return False


def _add_or_remove_one(_config: Any) -> NeighboringRelation:
    return ADD_OR_REMOVE_ONE


def _as_set(config: Any, _card: DataCard, _public: bool) -> tuple[int, int]:
    return config.warm_steps, config.steps


def _nothing(_config: Any) -> str:
    return ""


@dataclass(frozen=True, kw_only=True)
class Facts:
    """The facts of one method, all public.

    Args:
        title: its name with authors and year.
        takes_public: whether public records are of any use to it.
        needs_public: whether it is impossible without them, by its Config.
        without_guarantee: why it can promise nothing, whatever its settings; empty where it can.
        relation: under which relation its plan is accounted, by its Config.
        length: steps of the warm start and of the training, by its Config, the card, and whether there are public records.
        explain: a line for `gossamer plan`, by its Config; empty: none.
    """

    title: str
    takes_public: bool = True
    needs_public: Callable[[Any], bool] = _no
    without_guarantee: str = ""
    relation: Callable[[Any], NeighboringRelation] = _add_or_remove_one
    length: Callable[[Any, DataCard, bool], tuple[int, int]] = _as_set
    explain: Callable[[Any], str] = _nothing
