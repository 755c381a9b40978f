"""`MethodTests`: the tests of a method, for pytest."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import pytest

from gossamer.data.tables.any_card import AnyCard
from gossamer.kinds.toys import CARD
from gossamer.methods.contract import AnyMethod
from gossamer.run.training.plan import method_named
from gossamer.testing import checks
from gossamer.testing.trial_run import Subject, TrialRun


def _each(check: Callable[..., None], **values: Sequence[object]) -> "staticmethod[..., None]":
    """A check as a test, once for each value of an argument."""
    ((name, given),) = values.items()
    return staticmethod(pytest.mark.parametrize(name, given)(check))


class MethodTests:
    """The tests that every method must pass. Subclass it in a test file, and set `method`, `small` and `toy`.

    Each test is a check of `checks.py`, whose arguments are fixtures.
    """

    method: ClassVar[str | AnyMethod]
    """Its name, `module:object`, or the method itself."""
    small: ClassVar[Mapping[str, Any]]
    """Settings with which a run takes seconds, noise multiplier included. Its steps are at least 20 in all phases together."""
    toy: ClassVar[Mapping[str, Any]]
    """Settings with little noise, with which it learns in seconds which side of a picture is bright."""
    card: ClassVar[AnyCard] = CARD
    """The public facts of the records, which have two classes; default: 200 grey pictures of 28 x 28. A method for tables needs
    a TableCard, whose label column is not the first and has two values."""

    _finished: ClassVar[TrialRun]

    @pytest.fixture
    def subject(self) -> Subject:
        """The method under test."""
        method = method_named(self.method) if isinstance(self.method, str) else self.method
        return Subject(method=method, small=self.small, toy=self.toy, card=self.card)

    @pytest.fixture
    def finished(self, subject: Subject) -> TrialRun:
        """A run of it that is at its end, for all tests of the class."""
        if "_finished" not in vars(type(self)):
            type(self)._finished = checks.finished_run(subject)
        return self._finished

    test_says_what_it_promises = staticmethod(checks.says_what_it_promises)
    test_spends_its_plan = staticmethod(checks.spends_its_plan)
    test_the_non_private_run_says_infinity = staticmethod(checks.non_private_run_says_infinity)
    test_plan_is_pure_and_reads_the_card_only = staticmethod(checks.plan_is_pure)
    test_non_interference = _each(checks.non_interference, warm=[False, True])
    test_removing_a_protected_record_changes_no_public_record_and_no_public_draw = _each(
        checks.removing_a_protected_record_changes_nothing_public, share=[None, 0.25]
    )
    test_no_unit_moves_an_answer_too_far = _each(checks.no_unit_moves_an_answer_too_far, several=[False, True])
    test_nobody_left_is_no_reason_to_stop = staticmethod(checks.trains_without_records)
    test_the_mechanism_is_what_the_data_go_through = staticmethod(checks.learns_through_the_mechanism)
    test_saves_only_the_generator = staticmethod(checks.saves_only_the_generator)
    test_replays_from_its_answers = staticmethod(checks.replays_from_its_answers)
    test_events_are_public_json = staticmethod(checks.events_are_public_json)
    test_resume_equals_an_unbroken_run_under_test_seeds = _each(checks.resume_equals_an_unbroken_run, at=[2, 9, 20])
    test_resume_where_one_phase_turns_into_the_next = staticmethod(checks.resume_at_the_ends_of_phases)
    test_a_checkpoint_of_a_real_run_holds_no_noise_state = staticmethod(checks.checkpoint_holds_no_noise_state)
    test_learns_a_toy = staticmethod(checks.learns_a_toy)
