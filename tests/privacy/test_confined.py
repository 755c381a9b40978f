import copy
import pickle
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from gossamer.errors import ConfinedError, UnplannedRelease
from gossamer.privacy.accounting.events import poisson_gaussian
from gossamer.privacy.confined import FIXED_SEED, Confined
from gossamer.privacy.ledger import PrivacyLedger
from gossamer.privacy.mechanisms.gaussian import PoissonGaussianSum
from gossamer.privacy.queries import Bounds
from gossamer.privacy.random.noise import Rng

SECRET = 123456789.0


@dataclass(frozen=True)
class Numbers:
    """Records that are single numbers."""

    values: np.ndarray

    @property
    def population(self) -> int:
        return len(self.values)

    def take(self, chosen: np.ndarray) -> "Numbers":
        return Numbers(self.values[chosen])


class Total:
    """The sum of the numbers, each clipped."""

    dimension = 1

    def __init__(self, *, fails: bool = False) -> None:
        self.asked = 0
        self.fails = fails

    def clipped_sum(self, records: Numbers, bounds: Bounds) -> Tensor:
        self.asked += 1
        if self.fails:
            raise ValueError(f"the record is {records.values}")
        bound = bounds.norms[0]
        return torch.tensor([float(np.clip(records.values, -bound, bound).sum())])


def confined(
    count: int = 5, *, rate: float = 0.5, noise: float = 1.0, rng: Rng | None = None
) -> tuple[Confined[Numbers], PrivacyLedger, PoissonGaussianSum]:
    ledger = PrivacyLedger(budget=float("inf"), delta=1e-5)
    ledger.reserve([(poisson_gaussian(sampling_rate=rate, noise_multiplier=noise), count)])
    mechanism = PoissonGaussianSum(sampling_rate=rate, max_norm=1.0, noise_multiplier=noise)
    return Confined(Numbers(np.full(100, SECRET)), ledger, rng or Rng()), ledger, mechanism


def test_release_charges_one_event_each() -> None:
    private, ledger, mechanism = confined()
    for used in range(1, 6):
        private.release(mechanism, Total())
        assert ledger.used == [used]


def test_pay_then_read_an_unplanned_release_asks_nothing() -> None:
    private, _, mechanism = confined(count=1)
    query = Total()
    private.release(mechanism, query)
    with pytest.raises(UnplannedRelease):
        private.release(mechanism, query)
    assert query.asked == 1


def test_a_failing_query_is_still_paid_for_and_keeps_its_message_inside() -> None:
    private, ledger, mechanism = confined()
    with pytest.raises(ConfinedError) as caught:
        private.release(mechanism, Total(fails=True))
    assert ledger.used == [1]
    assert "error in clipped_sum (test_confined.py, line" in str(caught.value), "a class may be chosen by a record"
    assert "ValueError" not in str(caught.value)
    assert "123456789" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


def test_what_ends_the_process_keeps_its_message_inside() -> None:
    """`sys.exit(text)` would print the text, which could hold a record."""
    private, _, _ = confined()
    with pytest.raises(ConfinedError, match=r"error in <lambda> .* message is withheld") as caught:
        private.update(lambda held: sys.exit(f"cannot use {held}, 123456789"))
    assert "123456789" not in str(caught.value)
    assert caught.value.__context__ is None


def test_nothing_else_lets_it_out() -> None:
    private, _, _ = confined()
    assert repr(private) == str(private) == f"{private}" == "Confined(...)"
    for attempt in (
        lambda: pickle.dumps(private),
        lambda: copy.copy(private),
        lambda: copy.deepcopy(private),
        lambda: bool(private),
        lambda: private == private,  # noqa: PLR0124  (comparing is the attempt)
    ):
        with pytest.raises(ConfinedError):
            attempt()
    for attempt in (lambda: len(private), lambda: private[0], lambda: iter(private), lambda: hash(private)):
        with pytest.raises(TypeError):
            attempt()
    with pytest.raises(AttributeError):
        private.values  # noqa: B018  (reading is the attempt)
    with pytest.raises(AttributeError):
        private.note = 1  # type: ignore[attr-defined]


def test_map_and_update_are_free_and_stay_inside() -> None:
    private, ledger, mechanism = confined()
    halves = private.map(lambda held: Numbers(held.values / SECRET / 2))
    assert isinstance(halves, Confined)
    halves.update(lambda held: held.values.__imul__(0))
    assert ledger.used == [0]
    exact = PoissonGaussianSum(sampling_rate=0.5, max_norm=1.0, noise_multiplier=1.0)
    assert float(exact.exact(halves.declassify(reason="test"), Total(), Rng())) == 0.0
    private.release(mechanism, Total())
    assert ledger.used == [1]


def test_declassify_is_allowed_and_rings() -> None:
    private, ledger, _ = confined()
    held = private.declassify(reason="shown in a test")
    assert held.values[0] == SECRET
    assert ledger.spent().epsilon == float("inf")
    assert ledger.reasons == ["shown in a test"]


def test_declassify_needs_a_reason() -> None:
    private, ledger, _ = confined()
    with pytest.raises(ValueError, match="reason"):
        private.declassify(reason="  ")
    assert ledger.reasons == []


def test_a_fixed_noise_seed_turns_the_guarantee_to_infinity() -> None:
    private, ledger, mechanism = confined(rng=Rng(noise_seed=1))
    private.map(lambda held: held).release(mechanism, Total())
    private.release(mechanism, Total())
    assert ledger.reasons == [FIXED_SEED]
    assert ledger.promise().epsilon == float("inf")


def test_a_mechanism_gets_the_rng_of_its_confined() -> None:
    """Also of what was computed inside. Sampling or noise from elsewhere would not be that of the run."""
    given: list[Rng] = []

    class Watched(PoissonGaussianSum):
        def exact(self, records: Any, query: Any, rng: Rng, /) -> Tensor:
            given.append(rng)
            return super().exact(records, query, rng)

        def noised(self, total: Tensor, query: object, rng: Rng, /) -> Tensor:
            given.append(rng)
            return super().noised(total, query, rng)

    rng = Rng()
    private, _, mechanism = confined(rng=rng)
    watched = Watched(**vars(mechanism))
    private.release(watched, Total())
    private.map(lambda held: held).release(watched, Total())
    assert len(given) == 4 and all(each is rng for each in given)


def test_a_release_carries_no_graph() -> None:
    private, _, mechanism = confined()

    class WithGraph(Total):
        def clipped_sum(self, records: Numbers, bounds: Bounds) -> Tensor:
            return torch.ones(1, requires_grad=True) * 2

    assert not private.release(mechanism, WithGraph()).requires_grad


def test_what_could_not_be_sealed_leaves_no_file_and_says_nothing_of_the_record(tmp_path: Path) -> None:
    class Broken:
        def state_dict(self) -> dict[str, Any]:
            raise ValueError(f"the record is {SECRET}")

        def load_state_dict(self, saved: dict[str, Any], /) -> None: ...

    ledger = PrivacyLedger(budget=float("inf"), delta=1e-5)
    with pytest.raises(ConfinedError) as failure:
        Confined(Broken(), ledger, Rng()).seal(tmp_path / "sealed")
    assert str(SECRET) not in str(failure.value)
    assert not (tmp_path / "sealed").exists()
