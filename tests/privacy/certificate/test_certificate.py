import copy
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gossamer.errors import LedgerDamaged
from gossamer.files import CERTIFICATE, CONFIG, LEDGER, MODEL
from gossamer.privacy import ledger as ledgers
from gossamer.privacy.accounting.events import poisson_gaussian
from gossamer.privacy.certificate import certificate as certificates
from gossamer.privacy.certificate import statements
from gossamer.privacy.certificate.certificate import (
    CONFIG_FORMAT,
    FORMAT,
    Certificate,
    broken_seal,
    check,
    sealed,
    sha256,
)
from gossamer.privacy.certificate.figures import purposes
from gossamer.privacy.certificate.statements import NO_PUBLIC
from gossamer.privacy.guarantee import ADD_OR_REMOVE_ONE, RELATION_NAMES, REPLACE_ONE
from gossamer.privacy.ledger import PrivacyLedger

CARD = {"shape": [1, 28, 28], "classes": 10, "declared_size": 1_000, "label_prior": "uniform", "unit": "record"}
EVENT = poisson_gaussian(sampling_rate=0.01, noise_multiplier=1.0)


def said(name: str = "dpgan", **facts: Any) -> dict[str, Any]:
    """What a method says of itself, in config.json."""
    return {"name": name, "releases_public": "", "bounds_units": "by a bound of its own", "own_input": {}, **facts}


SETTINGS: dict[str, Any] = {
    "format": CONFIG_FORMAT, "method": "dpgan", "config": {"steps": 40}, "card": CARD, "public": NO_PUBLIC,
    "methods": [said()], "components": purposes([("training", [(EVENT, 40)])]),
}  # fmt: skip


def verify(folder: Path) -> list[str]:
    return check(folder).problems


def write(
    folder: Path, *, count: int = 40, noise: float = 1.0, reason: str | None = None, settings: dict[str, Any] = SETTINGS
) -> Certificate:
    event = poisson_gaussian(sampling_rate=0.01, noise_multiplier=noise)
    ledger = PrivacyLedger(budget=math.inf, delta=1e-5)
    ledger.reserve([(event, count)])
    settings = {**settings, "components": purposes([("training", ledger.plan)])}
    (folder / CONFIG).write_text(json.dumps(settings))
    ledger.create(folder / LEDGER, settings=sha256(folder / CONFIG))
    for _ in range(20):
        ledger.charge(event)
    if reason:
        ledger.declassify(reason)
    (folder / MODEL).write_bytes(b"weights")
    certificate = Certificate.build(
        ledger, settings, model_sha256=sha256(folder / MODEL), versions={"gossamer": "0"}, created="2026-01-01"
    )
    certificate.save(folder)
    ledger.close()
    return certificate


def edit(folder: Path, key: str, value: Any) -> int:
    """Change one top-level entry by hand, seal untouched; gives the number of the first line that differs."""
    path = folder / CERTIFICATE
    before = path.read_text()
    body = json.loads(before)
    body[key] = value
    lines = json.dumps(body, indent=2, ensure_ascii=False).split("\n")
    path.write_text("\n".join(lines) + "\n")
    return next(n for n, (old, new) in enumerate(zip(before.split("\n"), lines, strict=False), 1) if old != new)


def test_what_was_built_verifies_and_loads(tmp_path: Path) -> None:
    certificate = write(tmp_path)
    assert verify(tmp_path) == []
    assert Certificate.load(tmp_path) == certificate


def test_it_states_the_reserved_plan_not_what_is_spent(tmp_path: Path) -> None:
    certificate = write(tmp_path, count=4_000)  # 20 of them used
    ledger = PrivacyLedger.load(tmp_path / LEDGER)
    assert certificate.guarantee["epsilon"] == ledger.promise().epsilon
    assert certificate.guarantee["epsilon"] > 1.5 * ledger.spent().epsilon
    assert {entry["accountant"] for entry in certificate.guarantees} == {"RDP", "PLD"}
    assert certificate.guarantee["epsilon"] == min(entry["epsilon"] for entry in certificate.guarantees)
    assert certificate.statement.startswith("Differentially private: epsilon ")


@pytest.mark.parametrize(("noise", "reason"), [(0.0, None), (1.0, "a test looked")])
def test_infinity_is_the_first_thing_it_says(tmp_path: Path, noise: float, reason: str | None) -> None:
    certificate = write(tmp_path, noise=noise, reason=reason)
    assert certificate.statement.startswith("No formal guarantee: epsilon is infinity")
    assert json.loads((tmp_path / CERTIFICATE).read_text())["guarantee"]["epsilon"] == "inf"
    assert (tmp_path / CERTIFICATE).read_text().split("\n")[1].startswith('  "statement": "No formal')
    assert verify(tmp_path) == []
    if reason:
        assert certificate.reasons == [reason]
        assert reason in certificate.statement


@pytest.mark.parametrize(
    ("device", "ciphers"), [(None, "AES-128"), ("cpu", "AES-128"), ("cuda", "AES-128 and ChaCha20")]
)
def test_it_names_the_ciphers_that_the_guarantee_rests_on(device: str | None, ciphers: str) -> None:
    settings = SETTINGS if device is None else {**SETTINGS, "device": device}
    *_, entropy = statements.assumptions(settings, proved=True)
    assert f"provides true entropy, and {ciphers} turn" in entropy


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("statement", "epsilon 0.001"),
        ("created", "2026-01-02"),
        ("card", {"classes": 11}),
        ("assumptions", []),
        ("reasons", ["x"]),
    ],
)
def test_an_edited_certificate_is_shown_with_its_line(tmp_path: Path, key: str, value: Any) -> None:
    write(tmp_path)
    line = edit(tmp_path, key, value)
    problems = verify(tmp_path)
    assert any(f"{CERTIFICATE}, line {line}:" in problem for problem in problems)
    with pytest.raises(LedgerDamaged, match=f"line {line}:"):
        Certificate.load(tmp_path)


def rewrite(folder: Path, path: tuple[Any, ...], value: Any) -> None:
    """Change an entry, at any depth, and seal the certificate anew; `...` takes it out."""
    body = json.loads((folder / CERTIFICATE).read_text())
    del body["seal"]
    *way, last = path
    place = body
    for step in way:
        place = place[step]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    (folder / CERTIFICATE).write_text(sealed(body), encoding="utf-8")


def forge(folder: Path, bodies: list[dict[str, Any]]) -> None:
    """Another ledger with a chain that fits, and a certificate that pins it."""
    last_hash, lines = "0" * 32, ""
    for body in bodies:
        last_hash = ledgers.chain(last_hash, body)
        lines += json.dumps({**body, "hash": last_hash}) + "\n"
    (folder / LEDGER).write_text(lines)
    rewrite(folder, ("ledger",), {"file": LEDGER, "lines": len(bodies), "last_hash": last_hash})


def bodies(folder: Path) -> list[dict[str, Any]]:
    return [
        {key: value for key, value in json.loads(line).items() if key != "hash"}
        for line in (folder / LEDGER).read_text().splitlines()
    ]


def entries(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Every entry of a JSON value with the way to it, the containers too."""
    if path:
        yield path, value
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from entries(inner, (*path, key))


def other(value: Any) -> list[Any]:
    """Values of the same kind that say something else."""
    if value is None:
        return [0, {}]
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, float):
        return [value / 2, value * (1 - 2e-6), value * (1 + 2e-6)]
    if isinstance(value, int):
        return [value + 1, value - 1, float(value)]
    if isinstance(value, str):
        return [value + " ", *({value[:-1], ""} - {value})]
    if isinstance(value, list):
        return [[], [*value, "one more"], value[:-1]] if value else [["one more"]]
    return [{}, {**value, "one": "more"}]


@pytest.mark.parametrize("start", [0, pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow)])
def test_every_entry_is_compared_even_under_a_new_seal(tmp_path: Path, start: int) -> None:
    """Another value, or none, for every third entry at any depth. Date, versions and what is declared are taken as stated."""
    write(tmp_path)
    original = (tmp_path / CERTIFICATE).read_text()
    body = json.loads(original)
    tried = 0
    for path, value in list(entries(body))[start::3]:
        taken = path[0] in ("created", "versions") and len(path) == 2
        if path[0] == "seal" or taken or (path[0] == "declared" and isinstance(value, str)):
            continue
        others = ["21 November 2026", "2026-11", ""] if path == ("created",) else other(value)
        if path == ("versions",):
            others = [[], {"gossamer": 1}, "0.1"]
        for changed in [*others, ...]:
            rewrite(tmp_path, path, changed)
            problems = verify(tmp_path)
            assert problems, (path, changed)
            named = ("model", "ledger", "format")  # by their files, and by the entries that another format lacks
            assert any(str(path[0]) in problem or path[0] in named for problem in problems), problems
            (tmp_path / CERTIFICATE).write_text(original)
            tried += 1
    assert tried > 66
    assert verify(tmp_path) == []


def test_an_entry_of_its_own_is_unknown(tmp_path: Path) -> None:
    write(tmp_path)
    rewrite(tmp_path, ("approved_by",), "everyone")
    assert verify(tmp_path) == [f"{CERTIFICATE}: the entry 'approved_by' is unknown."]


def test_a_figure_that_was_edited_is_shown_beside_the_recomputed_one(tmp_path: Path) -> None:
    right = write(tmp_path).guarantees[1]["epsilon"]
    for stated in (0.01, right * 0.99, right * 1.01):
        rewrite(tmp_path, ("guarantees", 1, "epsilon"), stated)
        assert f"{CERTIFICATE}: 'guarantees[1].epsilon' says {stated}; recomputed it is {right}." in verify(tmp_path)


def test_delta_alone_is_not_taken_as_stated(tmp_path: Path) -> None:
    write(tmp_path)
    rewrite(tmp_path, ("guarantee", "delta"), 1e-12)
    (problem,) = verify(tmp_path)
    assert problem == f"{CERTIFICATE}: 'guarantee.delta' says 1e-12; {LEDGER} and {CONFIG} lead to 1e-05."


@pytest.mark.parametrize(("off", "holds"), [(5e-7, True), (-5e-7, True), (2e-6, False), (-2e-6, False), (0.01, False)])
def test_last_digits_may_differ_between_machines_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, off: float, holds: bool
) -> None:
    """On a rounding tie: the statement prints 1.000 here, and would print 1.001 there."""

    def figures(epsilon: float) -> list[dict[str, Any]]:
        rest = {"delta": 1e-5, "relation": "add-or-remove-one", "unit": "record"}
        return [{"accountant": "PLD", "epsilon": epsilon, **rest}, {"accountant": "RDP", "epsilon": 2.0, **rest}]

    monkeypatch.setattr(certificates, "recompute", lambda ledger: figures(1.0))
    assert "epsilon 1.000 at delta" in write(tmp_path).statement
    monkeypatch.setattr(certificates, "recompute", lambda ledger: figures(1.0 + off))
    problems = verify(tmp_path)
    assert (problems == []) == holds
    if not holds:
        assert f"'guarantees[0].epsilon' says 1.0; recomputed it is {1.0 + off}" in problems[0]
    else:  # within the tolerance, and still no other figure in the words
        rewrite(tmp_path, ("statement",), write_statement(tmp_path).replace("1.000", "0.999"))
        assert any("'statement'" in problem for problem in verify(tmp_path))


def write_statement(folder: Path) -> str:
    return str(json.loads((folder / CERTIFICATE).read_text())["statement"])


def test_settings_and_certificate_edited_alike_are_pinned_by_the_ledger(tmp_path: Path) -> None:
    write(tmp_path)
    for name, value in (("title", "MNIST"), ("declared_size", 2_000), ("unit", "hospital")):
        settings = copy.deepcopy(SETTINGS)
        settings["card"][name] = value
        (tmp_path / CONFIG).write_text(json.dumps(settings))
        rewrite(tmp_path, ("card",), settings["card"])
        assert f"{CONFIG} is not the one that line 1 of {LEDGER} pins (its SHA-256 differs)." in verify(tmp_path)
    (tmp_path / CONFIG).write_text(json.dumps({**SETTINGS, "public": {"kind": "records", "name": "x", "count": 3}}))
    assert any("line 1" in problem for problem in verify(tmp_path))
    with pytest.raises(LedgerDamaged, match="line 1"):
        Certificate.load(tmp_path)


def test_a_ledger_without_settings_certifies_nothing(tmp_path: Path) -> None:
    write(tmp_path)
    opening, *rest = bodies(tmp_path)
    opening["open"]["settings"] = ""
    forge(tmp_path, [opening, *rest])
    assert any("line 1" in problem for problem in verify(tmp_path))


def test_people_and_programs_read_the_same_entries(tmp_path: Path) -> None:
    """Of an entry that stands there twice a reader sees the first one, and a program takes the last."""
    write(tmp_path)
    text = (tmp_path / CERTIFICATE).read_text()
    lines = text.split("\n")[:-3]
    lines.insert(1, '  "statement": "Differentially private: epsilon 0.001.",')
    seal = " ".join(certificates._digest(line) for line in lines)
    (tmp_path / CERTIFICATE).write_text("\n".join([*lines, f'  "seal": "{seal}"', "}", ""]))
    assert certificates.broken_seal((tmp_path / CERTIFICATE).read_text()) == ""
    assert verify(tmp_path) == [f"{CERTIFICATE} is not JSON as it was written: an entry stands there twice."]
    (tmp_path / CERTIFICATE).write_text(text)
    ledger = (tmp_path / LEDGER).read_text()
    (tmp_path / LEDGER).write_text(ledger.replace('"delta": 1e-05', '"delta": 1e-12, "delta": 1e-05'))
    assert verify(tmp_path) == [f"{LEDGER}, line 1: this line is not in the form in which a ledger is written."]


@pytest.mark.parametrize(
    "line",
    [
        {"open": {"format": 2, "budget": 1.0, "delta": 1e-5, "relation": "add-or-remove-one", "unit": "x", "settings": ""}},
        {"reserve": [{"event": {"event": "Gaussian", "noise_multiplier": 1.0}, "count": -1}]},
        {"reserve": [{"event": {"event": "Gaussian", "noise_multiplier": 1.0}, "count": 1.5}]},
        {"reserve": [{"event": {"event": "Gaussian", "noise_multiplier": 1.0}, "count": True}]},
        {"charge": 0, "declassify": "read one of the two"},
        {"charge": False},
        {"charge": 1},
        {"charge": -1},
        {"declassify": "late", "more": 1},
        {},
        {"noise": 2},
        {"noise": 3},
        {"note": "nothing"},
    ],
)  # fmt: skip
def test_a_line_that_no_ledger_writes_is_refused_under_a_good_chain(tmp_path: Path, line: dict[str, Any]) -> None:
    """A second opening, a plan that shrinks after the fact, a line that says two things."""
    write(tmp_path)
    forge(tmp_path, [*bodies(tmp_path), line])
    number = len((tmp_path / LEDGER).read_text().splitlines())
    assert verify(tmp_path) == [f"{LEDGER}, line {number}: not a line of a ledger."]


GARBAGE = [None, True, 0, -1, 10**400, 1e308, "x", "\ud800", "\x1b[2J", [], {}, [[]], {"a": 1}, [None], "inf", math.nan]


def test_garbage_in_any_entry_is_a_problem_and_never_a_crash(tmp_path: Path) -> None:
    write(tmp_path)
    body = json.loads((tmp_path / CERTIFICATE).read_text())
    del body["seal"]
    for name in body:
        for value in GARBAGE:
            text = sealed({**body, name: "half a letter" if value == "\ud800" else value})
            (tmp_path / CERTIFICATE).write_text(text.replace("half a letter", "\\ud800"), encoding="utf-8")
            problems = verify(tmp_path)
            assert problems or (name, value) == ("versions", {}) or (name, value) == ("reasons", []), (name, value)
            assert "\x1b" not in " ".join(problems)


def test_garbage_in_any_setting_is_a_problem_and_never_a_crash(tmp_path: Path) -> None:
    """Under a ledger that pins the garbage, so that nothing stops before it is used."""
    write(tmp_path)
    opening, *rest = bodies(tmp_path)
    for path, right in list(entries(SETTINGS)):
        for value in GARBAGE:
            settings = copy.deepcopy(SETTINGS)
            place: Any = settings
            for step in path[:-1]:
                place = place[step]
            place[path[-1]] = value
            (tmp_path / CONFIG).write_text(json.dumps(settings))
            opening["open"]["settings"] = sha256(tmp_path / CONFIG)
            forge(tmp_path, [opening, *rest])
            said_elsewhere = path[0] == "methods"  # `run.release.verify` compares it with the method
            assert verify(tmp_path) or value == right or said_elsewhere, (path, value)


@pytest.mark.parametrize("entry", ["budget", "delta", "relation", "unit", "settings", "format"])
def test_garbage_in_the_opening_is_a_problem_and_never_a_crash(tmp_path: Path, entry: str) -> None:
    write(tmp_path)
    opening, *rest = bodies(tmp_path)
    for value in GARBAGE:
        forge(tmp_path, [{"open": {**opening["open"], entry: value}}, *rest])
        problems = verify(tmp_path)
        assert problems or (entry == "budget" and value is not None), (
            entry,
            value,
        )  # a budget is no part of the promise


def test_deep_and_huge_files_are_problems(tmp_path: Path) -> None:
    write(tmp_path)
    for name in (CERTIFICATE, CONFIG):
        before = (tmp_path / name).read_bytes()
        for text in ("[" * 100_000, '{"a":' * 100_000, '{"a":' * 60 + "1" + "}" * 60, '{"a": ' + "9" * 5_000 + "}"):
            (tmp_path / name).write_text(text)
            assert f"{name} is not JSON as it was written" in verify(tmp_path)[-1]
        with (tmp_path / name).open("wb") as file:
            file.truncate(2**40)  # a hole: no disk is used, and it must not be read whole
        assert verify(tmp_path) == [f"{name} is longer than 16,777,216 bytes: it is something else."]
        (tmp_path / name).write_bytes(before)
    with (tmp_path / LEDGER).open("r+b") as file:
        file.truncate(2**40)
    assert "not a line of a ledger" in verify(tmp_path)[0]


@pytest.mark.parametrize("name", [MODEL, LEDGER, CERTIFICATE, CONFIG])
def test_a_link_is_not_a_file_of_the_folder(tmp_path: Path, name: str) -> None:
    (tmp_path / "run").mkdir()
    write(tmp_path / "run")
    (tmp_path / "run" / name).rename(tmp_path / name)
    (tmp_path / "run" / name).symlink_to(tmp_path / name)
    assert verify(tmp_path / "run") == [f"{name} is a link; what is promised must lie in the folder itself."]
    with pytest.raises(LedgerDamaged, match="is a link"):
        Certificate.load(tmp_path / "run")


def test_what_may_be_sampled_from_is_checked_first(tmp_path: Path) -> None:
    """Each kind of damage, as `sample` meets it."""
    write(tmp_path)
    whole = {name: (tmp_path / name).read_bytes() for name in (MODEL, LEDGER, CERTIFICATE, CONFIG)}
    for name, content in whole.items():
        middle = len(content) // 2
        flipped = content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
        for damaged in (flipped, content[:middle], b"", None):
            if damaged is None:
                (tmp_path / name).unlink()
            else:
                (tmp_path / name).write_bytes(damaged)
            with pytest.raises(LedgerDamaged, match="nothing is taken from it"):
                Certificate.load(tmp_path)
            (tmp_path / name).write_bytes(content)
    assert Certificate.load(tmp_path).method == "dpgan"


def test_private_state_and_clocks_are_named_as_not_covered(tmp_path: Path) -> None:
    named = " ".join(write(tmp_path).not_covered)
    for name in ("metrics.json", "attacks.json", "checkpoint/", "the times of files"):
        assert name in named


def test_a_cut_tail_of_the_ledger_shows(tmp_path: Path) -> None:
    write(tmp_path)
    lines = (tmp_path / LEDGER).read_text().splitlines(keepends=True)
    (tmp_path / LEDGER).write_text("".join(lines[:-1]))
    (problem,) = verify(tmp_path)
    assert f"lines {len(lines)} and on were cut or added" in problem


def test_an_edited_ledger_line_shows(tmp_path: Path) -> None:
    write(tmp_path)
    text = (tmp_path / LEDGER).read_text()
    (tmp_path / LEDGER).write_text(text.replace('"count": 40', '"count": 39'))
    assert verify(tmp_path) == [
        f"{LEDGER}, line 2: the hash does not fit; this line, or one cut out before it, was changed."
    ]


def test_another_model_shows(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / MODEL).write_bytes(b"other weights")
    assert "SHA-256 differs" in verify(tmp_path)[0]


@pytest.mark.parametrize("name", [MODEL, LEDGER, CERTIFICATE, CONFIG])
def test_a_missing_file_shows(tmp_path: Path, name: str) -> None:
    write(tmp_path)
    (tmp_path / name).unlink()
    assert verify(tmp_path) == [f"{name} is missing."]


@pytest.mark.parametrize("text", ["", "{}", "not json", "[]"])
def test_garbage_in_place_of_a_certificate_is_a_problem_not_a_crash(tmp_path: Path, text: str) -> None:
    write(tmp_path)
    (tmp_path / CERTIFICATE).write_text(text)
    assert verify(tmp_path)


def test_a_certificate_says_which_noise_it_had(tmp_path: Path) -> None:
    """Where nothing is promised it says nothing of it."""
    assert write(tmp_path).assumptions[-1] == "the noise is of version 2"
    (tmp_path / LEDGER).unlink()
    assert not any("noise is of" in each for each in write(tmp_path, reason="a test").assumptions)


def test_the_statement_speaks_of_an_exchange_where_a_unit_is_replaced() -> None:
    """A certificate for replace-one does not bound whether a unit is there at all."""
    words = {
        ADD_OR_REMOVE_ONE: "Whether one writer was in the data",
        REPLACE_ONE: "An exchange of one writer for another",
    }
    for relation, change in words.items():
        ledger = PrivacyLedger(budget=math.inf, delta=1e-5, relation=relation, unit="writer")
        best = {
            "accountant": "PLD",
            "epsilon": 1.0,
            "delta": 1e-5,
            "relation": RELATION_NAMES[relation],
            "unit": "writer",
        }
        settings = {**SETTINGS, "card": {**CARD, "unit": "writer"}}
        text = statements.statement(ledger, settings, best)
        assert (
            f". {change} changes the probability of any outcome by at most a factor of e^epsilon, plus delta." in text
        )


@pytest.mark.parametrize("number", [1, FORMAT - 1, FORMAT + 1, True, "7", float(FORMAT), None])
def test_a_certificate_of_another_format_is_refused_in_one_sentence(tmp_path: Path, number: Any) -> None:
    """A forger would choose a format whose sentences are not compared."""
    write(tmp_path)
    rewrite(tmp_path, ("format",), number)
    said = f"{CERTIFICATE}: 'format' is {json.dumps(number)}, and this version of Gossamer supports 7 only."
    assert verify(tmp_path) == [f"{said} Use the version that wrote it."]
    with pytest.raises(LedgerDamaged, match=r"another version wrote it.*supports 7 only.*or use that version"):
        Certificate.load(tmp_path)


@pytest.mark.parametrize("number", [CONFIG_FORMAT - 1, CONFIG_FORMAT + 1, None])
def test_settings_of_another_format_are_refused(tmp_path: Path, number: int | None) -> None:
    write(tmp_path, settings={**SETTINGS, "format": number})
    said = f"{CONFIG}: 'format' is {json.dumps(number)}, and this version of Gossamer supports 5 only."
    assert verify(tmp_path) == [f"{said} Use the version that wrote it."]


def test_settings_without_a_format_are_refused(tmp_path: Path) -> None:
    write(tmp_path, settings={name: value for name, value in SETTINGS.items() if name != "format"})
    assert verify(tmp_path)[0].startswith(f"{CONFIG}: 'format' is nothing, and this version")


def test_no_digest_of_the_records_is_in_it_and_it_says_why(tmp_path: Path) -> None:
    facts = write(tmp_path).facts
    assert "with it, anyone who guesses the records can confirm the guess" in facts["data"]
    assert set(facts) == {
        "protects", "adjacency", "data", "public_inputs", "contains_public", "all_runs", "trust_model", "side_channels",
        "not_promised",
    }  # fmt: skip
    assert "for each record, not for all of them together" in facts["protects"]
    assert "one has it, the other does not" in facts["adjacency"]


def test_the_public_inputs_stand_there_with_their_digest() -> None:
    public = {"kind": "records", "name": "letters", "count": 3, "sha256": "ab"}
    (found,) = statements.public_inputs({**SETTINGS, "public": public})
    assert (found["what"], found["records"], found["sha256"]) == ("letters", 3, "ab")
    program = {"what": "a drawing program", "tuned": "on digits"}
    drawn = {**SETTINGS, "methods": [said(), said(own_input=program)]}  # by the start
    assert statements.public_inputs(drawn) == [{**program, "origin": "part of the program"}]
    by_plugin = {
        **drawn,
        "plugins": [{**PLUGIN, "name": "second"}],
        "methods": [said(), said("second", own_input=program)],
    }
    assert statements.public_inputs(by_plugin)[0]["origin"] == (
        "part of the method second (own 1.0), as its author states"
    )
    replaced = {**drawn, "public": public, "methods": [said(own_input=program, releases_public="they are samples")]}
    assert [entry["what"] for entry in statements.public_inputs(replaced)] == ["letters"], (
        "they take the program's place"
    )
    share = {"kind": "share", "share": 0.02, "salt": "x"}
    (given_up,) = statements.public_inputs({**SETTINGS, "public": share})
    assert "records of the same kind" in given_up["tuned"]
    assert statements.public_inputs(SETTINGS) == []


PLUGIN = {
    "kind": "method", "name": "dpgan", "package": "own", "version": "1.0", "source": "ab", "weights": "not known",
    "licence": "MIT", "trained_on": "not known",
}  # fmt: skip
PUBLIC = {"kind": "records", "name": "letters", "count": 3, "sha256": "ab"}
PICTURES = ", and its samples are these pictures turned round"


def test_what_a_method_says_of_its_release_is_on_the_certificate(tmp_path: Path) -> None:
    """Whatever the method: the sentences know none by its name."""
    contains = said(releases_public="its samples are these pictures turned round")
    settings = {**SETTINGS, "public": PUBLIC, "methods": [contains]}
    certificate = write(tmp_path, settings=settings)
    stated = f"{MODEL} contains these pictures as they are{PICTURES}"
    assert certificate.not_covered[0].endswith(f"in the private records. {stated}")
    assert certificate.public_data.endswith(f". {stated}")
    assert certificate.facts["contains_public"] == contains["releases_public"]
    assert verify(tmp_path) == []
    by_author = statements.not_covered({**settings, "plugins": [PLUGIN]})[0]
    assert by_author.endswith(f"{stated} (as the author of the plug-in states)")
    for silent in ({**settings, "methods": [said()]}, {**settings, "public": NO_PUBLIC}):
        assert "as they are" not in json.dumps([statements.not_covered(silent), statements.public_data(silent)])
        assert statements.facts(PrivacyLedger(budget=1.0, delta=1e-5), silent)["contains_public"] == ""


def test_how_a_unit_is_bounded_is_said_by_the_method_and_by_its_start() -> None:
    card = {**CARD, "unit": "writer"}
    own = {**SETTINGS, "card": card, "methods": [said(), said("two", bounds_units="by another"), said("three")]}
    whose = "one writer with all records of that writer: "
    assert statements.protects(own) == f"{whose}by a bound of its own; in the starting generator, by another"
    foreign = statements.protects({**own, "plugins": [PLUGIN]})
    assert foreign.startswith(
        f"{whose}the plug-in dpgan says how their joint contribution is bounded, and Gossamer did not"
    )


def test_no_sentence_looks_at_the_settings_of_a_method() -> None:
    """What follows from them, the method says: else a plug-in with other settings has other sentences."""

    class Untouched(dict[str, Any]):
        def __missing__(self, key: str) -> Any:
            raise AssertionError(key)

        get = __contains__ = __iter__ = __missing__  # type: ignore[assignment]  # each way to look is refused

    settings = {**SETTINGS, "config": Untouched(), "public": PUBLIC, "methods": [said()]}
    ledger = PrivacyLedger(budget=math.inf, delta=1e-5)
    ledger.reserve([(EVENT, 40)])
    Certificate.build(ledger, settings, model_sha256="", versions={}, created="2026-01-01")


def test_a_run_that_began_tells_of_every_record_and_the_certificate_says_so(tmp_path: Path) -> None:
    assert any("the fact that the run began" in text for text in write(tmp_path).not_covered)


def test_records_without_a_name_are_not_said_to_have_no_earlier_run() -> None:
    earlier = {"earlier_runs": 0, "together": {}}
    named = statements.adds_up({**SETTINGS, "accounts": earlier})
    assert named.endswith("its budget log held no earlier run under this name.")
    unnamed = statements.adds_up({**SETTINGS, "accounts": {**earlier, "unnamed": True}})
    assert "held no earlier run" not in unnamed
    assert "These records had no name: they were in memory, and the card has no data_set." in unnamed
    assert "So no earlier run could be recognised by name, and none is counted here." in unnamed


def test_a_seal_has_a_digest_for_every_line(tmp_path: Path) -> None:
    write(tmp_path)
    lines = (tmp_path / CERTIFICATE).read_text().split("\n")
    assert broken_seal("\n".join(lines)) == ""
    sealed_lines = len(lines) - 3
    cut = [*lines[:-3], lines[-3].rpartition(" ")[0] + '"', *lines[-2:]]
    assert broken_seal("\n".join(cut)) == f"{CERTIFICATE}, line {sealed_lines}: lines were added or cut."
    added = [*lines[:-3], lines[-3][:-1] + ' 01234567"', *lines[-2:]]
    assert broken_seal("\n".join(added)) == f"{CERTIFICATE}, line {sealed_lines + 1}: lines were added or cut."


def test_how_pictures_were_converted_is_assumed() -> None:
    converted = {
        "class_names": ["well", "ill"], "resize": "pad", "invert": True, "window": True, "pixel_range": [0, 4095.5],
        "missing_label": "drop",
    }  # fmt: skip
    plain = statements.assumptions(SETTINGS, proved=False)
    for name, value in converted.items():
        facts = [
            fact
            for fact in statements.assumptions({**SETTINGS, "card": {**CARD, name: value}}, proved=False)
            if fact not in plain
        ]
        said_of = {
            "class_names": "the names of the classes reveal nothing about any one record",
            "resize": "pictures of other proportions were made to fit the shape: pad",
            "invert": "dark and light were exchanged when the records were read, and the samples have them exchanged",
            "window": "each DICOM file was scaled by the display window that it declares, and by no other file",
            "pixel_range": "pixels that are not of 8 bits were scaled: 0 became black, 4095.5 became white",
            "missing_label": "records without a label were left out, which depends on each record alone",
        }[name]
        assert [fact for fact in facts if fact.startswith(said_of)] == facts[-1:], name


def test_a_table_names_what_was_left_out_of_it() -> None:
    column = {"name": "age", "kind": "integer", "bounds": [0, 99], "bins": 10, "outside": "clip"}
    card = {"declared_size": 50, "unit": "record", "column": [column], "label": "", "drop": {}}
    kept = statements.assumptions({**SETTINGS, "card": card}, proved=False)
    assert (
        "column age: integer from 0 to 99 in at most 10 bins; a value beyond the bounds became the nearer bound" in kept
    )
    less = statements.assumptions({**SETTINGS, "card": {**card, "drop": {"name": "it names people"}}}, proved=False)
    assert [fact for fact in less if fact not in kept] == ["left out of the table: name (it names people)"]


@pytest.mark.parametrize("changed", [{"shape": []}, {"column": [{"name": "age"}], "label": "", "drop": {}}])
def test_a_card_says_once_what_a_record_is(changed: dict[str, Any]) -> None:
    """A card of no kind, or of two, was damaged: `check` then says that it leads to no certificate."""
    with pytest.raises(ValueError, match="values to unpack"):
        statements.assumptions({**SETTINGS, "card": {**CARD, **changed}}, proved=True)


def test_who_was_made_public_is_decided_by_what_is_hashed() -> None:
    share = {"kind": "share", "share": 0.02, "salt": "x"}
    for changed, hashed in (
        ({}, "each record's own pixels"),
        ({"unit": "patient"}, "each patient's own id"),
        ({"unit": "patient", "missing_unit": "own"}, "each patient's own id (of the pixels, where there is none)"),
    ):
        settings = {**SETTINGS, "public": share, "card": {**CARD, **changed}}
        assert statements.public_data(settings).endswith(f"(20 expected), picked by a hash of {hashed}; not protected")
        assert statements.not_covered(settings)[0].endswith(f"{hashed}. The generator may reveal anything about them")
        assert any(f"on the hash of {hashed} under" in fact for fact in statements.assumptions(settings, proved=True))
