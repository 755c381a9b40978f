"""What nobody can recompute: it says that it was declared, or that it was not."""

import datetime
from typing import Any

import pytest

from gossamer.errors import RequestError
from gossamer.privacy.certificate.declarations import (
    ATTACKS,
    NOT_DECLARED,
    NOT_RUN,
    QUESTIONS,
    declare,
    nothing_declared,
    what_is_wrong,
)


def test_what_was_left_out_says_so() -> None:
    found = declare({"contact": "office@example.org", "attacked": {"exfiltration": "tried in May"}}, where="x")
    assert found["contact"] == "office@example.org"
    assert {found[name] for name in QUESTIONS if name != "contact"} == {NOT_DECLARED}
    assert found["attacked"] == {**dict.fromkeys(ATTACKS, NOT_RUN), "exfiltration": "tried in May"}
    assert what_is_wrong(found) == ""


def test_nothing_declared_is_whole_and_is_made_anew() -> None:
    first = nothing_declared()
    first["attacked"]["exfiltration"] = "tried"
    assert nothing_declared()["attacked"]["exfiltration"] == NOT_RUN
    assert what_is_wrong(nothing_declared()) == ""


def test_no_entry_may_lack() -> None:
    for name in nothing_declared():
        lacks = {key: value for key, value in nothing_declared().items() if key != name}
        assert what_is_wrong(lacks) == "the declared entries are not those of a certificate", name


def test_no_attack_may_lack_and_none_be_added() -> None:
    for attacked in (
        dict.fromkeys([*ATTACKS][1:], NOT_RUN),
        {**dict.fromkeys(ATTACKS, NOT_RUN), "more": NOT_RUN},
        "all",
    ):
        declared = {**nothing_declared(), "attacked": attacked}
        assert what_is_wrong(declared) == "the attacks are not those that a certificate names"


def test_the_five_attacks_of_the_data_protection_board_are_asked_for() -> None:
    words = ("membership", "attribute", "exfiltration", "reconstruction", "inversion", "regurgitation")
    assert all(any(word in name for name in ATTACKS) for word in words)


@pytest.mark.parametrize("day", ["2027-12-31", datetime.date(2027, 12, 31)])
def test_a_day_is_one_in_quotes_or_without(day: Any) -> None:
    assert declare({"expires": day}, where="x")["expires"] == "2027-12-31"


@pytest.mark.parametrize(
    ("answers", "says"),
    [
        ({"contakt": "x"}, "'contakt' is unknown. Did you mean 'contact'?"),
        ({"attacked": {"inversion": "x"}}, "[attacked]: 'inversion' is unknown. Did you mean"),
        ({"attacked": "all"}, "attacked is a table"),
        ({"contact": 3}, "contact must be one line of text"),
        ({"contact": ""}, "contact must be one line of text"),
        ({"contact": "two\nlines"}, "contact must be one line of text"),
        ({"contact": "x" * 1_001}, "at most 1,000 letters"),
        ({"attacked": {"exfiltration": True}}, "exfiltration must be one line of text"),
        ({"settings_chosen": "by hand"}, "settings_chosen must be one of before, public, counted, uncounted"),
        ({"public_tuned": "maybe"}, "public_tuned must be one of no, yes, unknown"),
        ({"expires": "soon"}, "expires must be a day"),
        ({"expires": datetime.datetime(2027, 1, 1)}, "expires must be one line of text"),
    ],
)
def test_what_has_another_form_is_refused_and_named(answers: dict[str, Any], says: str) -> None:
    with pytest.raises(RequestError) as refused:
        declare(answers, where="declared.toml")
    assert str(refused.value).startswith("declared.toml")
    assert says in str(refused.value)
