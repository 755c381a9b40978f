"""`MethodTests`: the tests of a method, for pytest."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest

from gossamer.data.tables.any_card import AnyCard
from gossamer.kinds.toys import CARD
from gossamer.methods.contract import AnyMethod
from gossamer.run.training.plan import method_named
from gossamer.testing import checks
from gossamer.testing.trial_run import Subject, TrialRun


class MethodTests:
    """The tests that every method must pass. Subclass it in a test file, and set `method`, `small` and `toy`."""

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

    def test_says_what_it_promises(self, subject: Subject) -> None:
        checks.says_what_it_promises(subject)

    def test_spends_its_plan(self, finished: TrialRun) -> None:
        checks.spends_its_plan(finished)

    def test_the_non_private_run_says_infinity(self, subject: Subject) -> None:
        checks.non_private_run_says_infinity(subject)

    def test_plan_is_pure_and_reads_the_card_only(self, subject: Subject) -> None:
        checks.plan_is_pure(subject)

    @pytest.mark.parametrize("warm", [False, True])
    def test_non_interference(self, subject: Subject, warm: bool) -> None:
        checks.non_interference(subject, warm=warm)

    @pytest.mark.parametrize("share", [None, 0.25])
    def test_removing_a_protected_record_changes_no_public_record_and_no_public_draw(
        self, subject: Subject, share: float | None
    ) -> None:
        checks.removing_a_protected_record_changes_nothing_public(subject, share=share)

    @pytest.mark.parametrize("several", [False, True])
    def test_no_unit_moves_an_answer_too_far(self, subject: Subject, several: bool) -> None:
        checks.no_unit_moves_an_answer_too_far(subject, several=several)

    def test_nobody_left_is_no_reason_to_stop(self, subject: Subject) -> None:
        checks.trains_without_records(subject)

    def test_the_mechanism_is_what_the_data_go_through(self, subject: Subject) -> None:
        checks.learns_through_the_mechanism(subject)

    def test_saves_only_the_generator(self, finished: TrialRun) -> None:
        checks.saves_only_the_generator(finished)

    def test_events_are_public_json(self, finished: TrialRun) -> None:
        checks.events_are_public_json(finished)

    @pytest.mark.parametrize("at", [2, 9, 20])
    def test_resume_equals_an_unbroken_run_under_test_seeds(self, subject: Subject, at: int, tmp_path: Path) -> None:
        checks.resume_equals_an_unbroken_run(subject, tmp_path, at=at)

    def test_resume_where_one_phase_turns_into_the_next(self, subject: Subject, tmp_path: Path) -> None:
        checks.resume_at_the_ends_of_phases(subject, tmp_path)

    def test_a_checkpoint_of_a_real_run_holds_no_noise_state(self, subject: Subject, tmp_path: Path) -> None:
        checks.checkpoint_holds_no_noise_state(subject, tmp_path)

    def test_learns_a_toy(self, subject: Subject) -> None:
        checks.learns_a_toy(subject)
