"""A loop whose queries others answer: the centre of a federation, or a site that is asked one query at a time."""

from collections.abc import Callable
from typing import Any, NoReturn, TypeAlias

from torch import Tensor

from gossamer.errors import ConfinedError
from gossamer.privacy.confined import Confined
from gossamer.privacy.ledger import PrivacyLedger
from gossamer.privacy.queries import Mechanism
from gossamer.privacy.random.noise import Rng

Ask: TypeAlias = Callable[[Mechanism[Any], Any, Confined[Any] | None], Tensor]
"""Gives the noisy answer to a mechanism and its query. Its own ledger records the cost."""


class Elsewhere(Confined[Any]):
    """Takes the place of isolated records in a loop: each query goes to `ask`, and its noisy answer comes back.

    Args:
        plan: a ledger in memory that reserves what the loop may ask.
        ask: who answers.
        records: the isolated records that `ask` is given, as the loop has mapped them; None: they are at other places.
    """

    __slots__ = ("__ask", "__plan", "__records")

    def __init__(self, plan: PrivacyLedger, ask: Ask, records: Confined[Any] | None = None) -> None:
        super().__init__(None, plan, Rng())
        self.__plan, self.__ask, self.__records = plan, ask, records

    def map(self, fn: Callable[[Any], Any]) -> "Elsewhere":
        """The same for records that are here; what is elsewhere stays as it is."""
        return Elsewhere(self.__plan, self.__ask, None if self.__records is None else self.__records.map(fn))

    def declassify(self, *, reason: str) -> NoReturn:
        """Refused: nothing leaves a site without noise."""
        raise ConfinedError(f"the records are elsewhere, and nothing leaves them without noise ({reason})")

    def release(self, mechanism: Mechanism[Any], query: object) -> Tensor:
        """Hand the query on.

        Raises:
            UnplannedRelease: if the plan has no such query left. Nobody has been asked then.
        """
        self.__plan.charge(mechanism.event)
        return self.__ask(mechanism, query, self.__records)
