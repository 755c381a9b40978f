"""Isolated records: private records live inside `Confined`, and only `release` lets a value out.

It stops mistakes, not a hostile author, because a closure can smuggle a value out. A test on whole runs looks for that: with
unrelated data, the same seed and mechanisms that return noise only, models and events must be equal bit for bit.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Generic, NoReturn, Protocol, TypeVar

import torch
from dp_accounting import DpEvent
from torch import Tensor

from gossamer.errors import ConfinedError, DiskFull, GossamerError, is_full, raised_by_gossamer, withheld
from gossamer.files import sync
from gossamer.privacy.distributed import ALONE, Ranks
from gossamer.privacy.ledger import PrivacyLedger
from gossamer.privacy.queries import Mechanism
from gossamer.privacy.random.noise import Rng

T = TypeVar("T")
U = TypeVar("U")
Result = TypeVar("Result")


class Stateful(Protocol):
    """A value that a checkpoint can store: state in, state out, as tensors and plain numbers."""

    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, saved: dict[str, Any], /) -> None: ...


AnyStateful = TypeVar("AnyStateful", bound=Stateful)

FIXED_SEED = "reproducible, not private: the seed of the noise was fixed"


class Confined(Generic[T]):
    """A value that has seen private records. It has no length, no items, no text and no copy.

    Args:
        value: anything that must not leave.
        ledger: records the cost of every release.
        rng: where mechanisms take their sampling and their noise from.
        ranks: the processes with the other parts of the records.
    """

    __slots__ = ("__held", "__ledger", "__ranks", "__rng")

    def __init__(self, value: T, ledger: PrivacyLedger, rng: Rng, ranks: Ranks = ALONE) -> None:
        self.__held = value
        self.__ledger = ledger
        self.__rng = rng
        self.__ranks = ranks

    def map(self, fn: Callable[[T], U]) -> "Confined[U]":
        """Compute something from the value; the result stays inside. Free."""
        return Confined(_inside(lambda: fn(self.__held)), self.__ledger, self.__rng, self.__ranks)

    def update(self, fn: Callable[[T], object]) -> None:
        """Change the value in place; what `fn` returns is dropped. Free."""
        _inside(lambda: fn(self.__held))

    def release(self, mechanism: Mechanism[T], query: object) -> Tensor:
        """Release the answer of a mechanism: record the cost, then read the records.

        Raises:
            UnplannedRelease: if the ledger has not reserved this release. No record has been read then.
            RanksDisagree: if another rank is gone or is about to release something else.
            ConfinedError: if the query fails. Its message is withheld, because it could hold a record.
        """
        if self.__rng.reproducible:
            self.__ledger.declassify(FIXED_SEED)
        event = mechanism.event

        def exact() -> Tensor:
            self.__ledger.charge(event, getattr(mechanism, "bands", 1))
            return _inside(lambda: mechanism.exact(self.__held, query, self.__rng)).detach()

        def noised(total: Tensor) -> Tensor:
            return _inside(lambda: mechanism.noised(total, query, self.__rng))

        return self.__ranks.release(exact, noised, lambda: f"{event}, {self.__ledger.unused} left; {mechanism}")

    def answers(self, mechanism: Mechanism[T], query: object) -> Iterator[Tensor]:
        """Release the answers of a mechanism, one after the other, until the plan holds no more of them."""
        while self.remaining(mechanism.event):
            yield self.release(mechanism, query)

    def remaining(self, event: DpEvent) -> int:
        """How many more releases of this event the plan holds: a public number."""
        return self.__ledger.remaining(event)

    def declassify(self, *, reason: str) -> T:
        """Hand the value out without a mechanism. From here on every statement has epsilon infinity, and this reason."""
        self.__ledger.declassify(reason)
        return self.__held

    def seal(self: "Confined[AnyStateful]", path: Path) -> None:
        """Write the value's state to a new file that the owner alone can read; nothing is returned. For run/checkpoint only.

        Raises:
            DiskFull: if the disk is full; the file is gone then.
        """

        def write() -> None:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            try:
                with os.fdopen(descriptor, "wb") as file:
                    torch.save(self.__held.state_dict(), file)
                    file.flush()
                    sync(file.fileno())
            except Exception as error:  # PyTorch reports a full disk by errors of its own; all others go on
                path.unlink(missing_ok=True)
                if is_full(error):
                    raise DiskFull(f"the disk of {path.parent} is full.") from None
                raise

        _inside(write)

    def unseal(self: "Confined[AnyStateful]", path: Path) -> None:
        """Load the state from a sealed file, and from those of other ranks beside it. Free: nothing leaves."""

        def read() -> None:
            for sealed_file in (path, *sorted(path.parent.glob(f"{path.name}.*"))):
                self.__held.load_state_dict(torch.load(sealed_file, map_location="cpu", weights_only=True, mmap=True))

        _inside(read)

    def __repr__(self) -> str:
        return "Confined(...)"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise ConfinedError(
            "a Confined value cannot be pickled or copied; only run/checkpoint stores it, in the private folder"
        )

    def __bool__(self) -> NoReturn:
        raise ConfinedError("a Confined value has no truth value; that would be a release")

    def __eq__(self, other: object) -> NoReturn:
        raise ConfinedError("a Confined value cannot be compared; that would be a release")

    __hash__ = None  # type: ignore[assignment]  # unhashable on purpose: a hash is a release


def _inside(compute: Callable[[], Result]) -> Result:
    """Run something that sees records; a failure comes out without its message, its cause and its frames."""
    try:
        return compute()
    except (Exception, SystemExit) as error:  # its message could hold a record, unless Gossamer wrote it
        if isinstance(error, GossamerError) and raised_by_gossamer(error):
            raise
        failure = ConfinedError(f"inside Confined: {withheld(error)}")
    raise failure
