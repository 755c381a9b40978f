"""`gossamer attack`: which attacks run on what, what they write, what they refuse; and runs without a guarantee."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from gossamer.data.card import DataCard
from gossamer.data.pixels.to_uint8 import MADE_GREY
from gossamer.data.records import Records
from gossamer.data.samples.samples import Samples
from gossamer.kinds.kind import Target
from gossamer.kinds.pictures import PICTURES, on_discriminators
from gossamer.methods.dpgan import loop as dpgan
from gossamer.methods.synthesizer import Synthesizer
from gossamer.privacy.random.noise import Rng
from gossamer.run.evaluation import attack as attacking
from gossamer.run.report.attack_verdict import verdict
from gossamer.run.report.wording import attack_rows, attacks_in_words

Run = Callable[..., Any]
BLACK_BOX = {
    "Monte-Carlo set attack, by pairs", "Monte-Carlo set attack, by the top half", "Monte-Carlo instance attack",
    "GAN-Leaks, full black-box", "GAN-Leaks, calibrated", "DOMIAS", "near-copies",
}  # fmt: skip
WHITE_BOX = {"white-box", "oracle TVD"}
PRIVGAN = [
    "--epochs", 2, "--batch-size", 20, "--width", 8, "--latent-size", 5, "--adversary-warm-epochs", 1,
    "--adversary-delay-epochs", 1,
]  # fmt: skip
INFINITE = {"epsilon": "inf"}


@pytest.fixture
def strangers(tmp_path: Path) -> Path:
    """120 records like those of `data` that no run has seen."""
    draw = np.random.default_rng(99)
    labels = draw.integers(2, size=120)
    images = (draw.integers(0, 56, size=(120, 28, 28)) + 100 * labels[:, None, None]).astype(np.uint8)
    np.savez(tmp_path / "strangers.npz", images=images, labels=labels)
    return tmp_path / "strangers.npz"


@pytest.fixture
def unprotected(gossamer: Run, data: Path, card: Path, tmp_path: Path) -> Path:
    """A privgan run."""
    fitted = gossamer("fit", "privgan", "--data", data, "--card", card, "--out", tmp_path / "gan", *PRIVGAN)
    assert fitted.status == 0, fitted.err
    assert fitted.out.startswith("No formal guarantee: epsilon is infinity, because privGAN")
    assert fitted.err.startswith("No formal guarantee: epsilon is infinity, because privGAN")
    return tmp_path / "gan"


def attacked(gossamer: Run, run: Path, members: Path, nonmembers: Path, *words: object) -> dict[str, Any]:
    answer = gossamer("attack", run, "--members", members, "--nonmembers", nonmembers, "-n", 200, "--json", *words)
    assert answer.status == 0, answer.err
    return dict(answer.json)


def test_all_attacks_that_apply_to_a_dpgan_run(
    gossamer: Run, run: Path, data: Path, strangers: Path, tmp_path: Path
) -> None:
    found = attacked(gossamer, run, data, strangers)
    assert found["left_out"] == {}
    assert {entry["attack"] for entry in found["attacks"]} == BLACK_BOX | WHITE_BOX
    for entry in found["attacks"]:
        assert len(attacks_in_words([entry])) == 1
        assert entry["lowest"] <= entry["low"] <= entry["value"] <= entry["high"] <= 1
        assert entry["internal"]
        assert (entry["roc"] is None) == (not entry["tpr"])
    assert "60 of 160 members and 60 of 120 non-members" in found["on"]
    assert "60 other non-members were held out" in found["on"]
    assert "The members are the run's own records." in found["on"]
    assert "The guarantee limits every attacker" in found["verdict"][-1]
    assert json.loads((run / "attacks.json").read_text()) == found
    assert "patients.npz" in (run / "checkpoint" / "internal.jsonl").read_text()
    again = attacked(gossamer, run, data, strangers)
    assert again == found  # the seed fixes samples and draws

    page = (run / "report.html").read_text()
    assert found["verdict"][0] in page.replace("&#39;", "'")
    assert "ROC of DOMIAS" in page
    assert gossamer("release", run, "-o", tmp_path / "out").status == 0
    assert "What attacks found" not in (tmp_path / "out" / "report.html").read_text()
    assert not (tmp_path / "out" / "attacks.json").exists()

    released = attacked(gossamer, tmp_path / "out", data, strangers, "-o", tmp_path / "mine.json")
    assert {entry["attack"] for entry in released["attacks"]} == BLACK_BOX
    assert "release" in released["left_out"]["white-box and oracle TVD"]
    assert json.loads((tmp_path / "mine.json").read_text()) == released
    assert not (tmp_path / "out" / "attacks.json").exists()


def test_the_terminal_shows_chance_beside_every_figure_and_the_limits(
    gossamer: Run, run: Path, data: Path, strangers: Path
) -> None:
    answer = gossamer("attack", run, "--members", data, "--nonmembers", strangers, "-n", 200)
    assert answer.status == 0, answer.err
    head, *rows = answer.out.splitlines()
    assert head.split("  ")[0] == "attack"
    assert "guessing gives" in head
    assert sum("0.500" in row for row in rows) >= 7
    second = rows.index("") + 1
    assert "members found at 1 % false alarms" in rows[second] and "guessing gives" not in rows[second]
    rated = rows[second + 1 : rows.index("", second)]
    assert {row.split("  ")[0] for row in rated} <= {row.split("  ")[0] for row in rows[: second - 1]}
    assert rated and all("(" in row or "at most" in row for row in rated)
    assert max(map(len, rows[: second + 1 + len(rated)])) <= 135
    assert "attacks show leaks, never that there are none" in answer.out
    assert answer.out.strip().endswith("the guarantee does not cover them.")


def test_a_privgan_run_cannot_be_mistaken_for_a_private_one(
    gossamer: Run, unprotected: Path, data: Path, strangers: Path, tmp_path: Path
) -> None:
    verified = gossamer("verify", unprotected)
    assert verified.status == 0, verified.err
    assert verified.out.startswith("none: epsilon infinity (no formal guarantee)")
    assert gossamer("verify", unprotected, "--json").json["guarantees"][0]["epsilon"] == "inf"
    certificate = json.loads((unprotected / "certificate.json").read_text())
    assert next(iter(certificate)) == "statement"
    assert certificate["statement"].startswith("No formal guarantee: epsilon is infinity, because privGAN")
    assert certificate["covered"][0].startswith("nothing")
    assert not any("proofs" in line for line in certificate["assumptions"])

    found = attacked(gossamer, unprotected, data, strangers)
    names = {entry["attack"] for entry in found["attacks"]}
    assert "white-box, max over 2 discriminators" in names
    assert "oracle TVD, max over 2 discriminators" in names
    assert names > BLACK_BOX
    assert "no formal guarantee" in found["verdict"][-1]

    page = (unprotected / "report.html").read_text()
    assert page.index("No formal guarantee.") < page.index("<main>")
    assert "(no formal guarantee)</title>" in page
    for word in ("Differentially private", "epsilon, at most", "What is promised", "covered by the guarantee"):
        assert word not in page
    released = gossamer("release", unprotected, "-o", tmp_path / "out")
    assert "No formal guarantee" in released.err
    assert "No formal guarantee." in (tmp_path / "out" / "report.html").read_text()
    assert gossamer("sample", tmp_path / "out", "-n", 12, "-o", tmp_path / "s.npz").status == 0


@pytest.mark.parametrize("words", [["--epsilon", 5, "--delta", 1e-5], ["--epsilon", "inf"], ["--delta", 1e-5]])
def test_privgan_takes_no_budget(gossamer: Run, data: Path, card: Path, tmp_path: Path, words: list[object]) -> None:
    for command in (["fit", "privgan", "--data", data, "--out", tmp_path / "no"], ["plan", "privgan"]):
        answer = gossamer(*command, "--card", card, *PRIVGAN, *words)
        assert answer.status == 2
        assert "no formal guarantee, so it takes no --" in answer.err
        assert answer.out == ""
    assert not (tmp_path / "no").exists()


def test_plan_says_that_there_is_no_guarantee(gossamer: Run, card: Path) -> None:
    shown = gossamer("plan", "privgan", "--card", card, *PRIVGAN)
    assert shown.status == 0
    assert shown.out.startswith("No formal guarantee: epsilon is infinity")
    planned = gossamer("plan", "privgan", "--card", card, *PRIVGAN, "--json").json
    assert planned["guarantees"] == [
        {"accountant": "none", "epsilon": "inf", "delta": 0.1 / 160, "relation": "add-or-remove-one", "unit": "record"}
    ]
    assert planned["steps"] == 2 * (160 // 40)


def test_public_records_are_refused_where_nothing_uses_them(
    gossamer: Run, data: Path, card: Path, tmp_path: Path
) -> None:
    words = ["fit", "privgan", "--data", data, "--card", card, "--out", tmp_path / "no", *PRIVGAN]
    answer = gossamer(*words, "--public", "glyphs")
    assert answer.status == 2
    assert "no use for public records" in answer.err


@pytest.mark.slow
def test_a_critic_is_asked_by_ranks(
    gossamer: Run, fit_words: list[str], data: Path, strangers: Path, tmp_path: Path
) -> None:
    words = [*fit_words]
    words[1] = "dp-wgan"
    assert gossamer(*words).status == 0
    found = attacked(gossamer, tmp_path / "run", data, strangers)
    assert {entry["attack"] for entry in found["attacks"]} == BLACK_BOX | WHITE_BOX


def test_a_method_without_discriminators_says_so(
    gossamer: Run, fit_words: list[str], data: Path, strangers: Path, tmp_path: Path
) -> None:
    words = [*fit_words]
    words[1] = "privae"
    assert gossamer(*words).status == 0
    found = attacked(gossamer, tmp_path / "run", data, strangers)
    assert {entry["attack"] for entry in found["attacks"]} == BLACK_BOX
    assert "no discriminator" in found["left_out"]["white-box and oracle TVD"]


def refused(answer: Any, *says: str) -> None:
    assert answer.status == 2, answer.err
    assert answer.out == ""
    paragraphs = [line for line in answer.err.splitlines() if line.startswith("gossamer: ")]
    assert len(paragraphs) == 1
    for words in says:
        assert words in paragraphs[0]


def test_sets_that_cannot_be_used(gossamer: Run, run: Path, data: Path, strangers: Path, tmp_path: Path) -> None:
    def save(name: str, images: np.ndarray, labels: np.ndarray) -> Path:
        np.savez(tmp_path / name, images=images, labels=labels)
        return tmp_path / name

    with np.load(strangers) as held:
        images, labels = held["images"], held["labels"]
    with np.load(data) as held:
        own, own_labels = held["images"], held["labels"]

    def words(members: object, nonmembers: object) -> list[object]:
        return ["attack", run, "--members", members, "--nonmembers", nonmembers, "-n", 200]

    refused(gossamer(*words(data, data)), "--nonmembers", "among the members")
    refused(gossamer(*words(strangers, data)), "--nonmembers", "was trained on these records")
    refused(gossamer(*words(data, save("few.npz", images[:39], labels[:39]))), "too few", "40 non-members")
    refused(gossamer(*words(save("few.npz", own[:19], own_labels[:19]), strangers)), "too few", "20 members")
    refused(gossamer(*words(data, save("more.npz", images, labels + 7))), "beyond the 2 declared classes")
    refused(gossamer(*words(data, tmp_path / "nowhere.npz")), "no such file")
    flat = save("flat.npz", images.reshape(len(images), -1), labels)
    refused(gossamer(*words(data, flat)), "flat.npz", "reshape flat vectors")
    refused(gossamer("attack", tmp_path / "gone", "--members", data, "--nonmembers", strangers), "gone")
    assert not (run / "attacks.json").exists()

    mixed = save("mixed.npz", np.r_[images, own[:30]], np.r_[labels, own_labels[:30]])
    found = attacked(gossamer, run, data, mixed)
    assert "30 non-members are exact copies of members and were left out" in found["on"]
    colour = save("colour.npz", np.stack([images] * 3, axis=-1), labels)
    answer = gossamer(*words(data, colour))
    assert (answer.status, MADE_GREY in " ".join(answer.err.split())) == (0, True)


def test_the_sets_are_apart(gossamer: Run, run: Path, data: Path, strangers: Path) -> None:
    """No held-out record is under attack, and members are members."""
    draw = np.random.default_rng(0)
    inside, outside = (
        Records(draw.integers(0, 256, (n, 1, 28, 28)).astype(np.uint8), np.zeros(n, int)) for n in (90, 101)
    )
    drawn = attacking._drawn(inside, outside, 30, seed=3)
    sets = [{image.tobytes() for image in drawn[name].images} for name in ("members", "nonmembers", "held_out")]
    assert [len(each) for each in sets] == [30, 30, 51]
    assert not sets[1] & sets[2]
    assert sets[0] <= {image.tobytes() for image in inside.images}


def test_large_pictures_are_attacked_at_64_pixels() -> None:
    """Brightness stays, size does not; samples are never in memory in their own size; the verdict says so."""
    large, small = (DataCard(shape=(1, side, side), classes=1, declared_size=9) for side in (128, 64))
    pieces = [Samples(np.full((2, 1, 128, 128), value, np.uint8), np.full(2, value)) for value in (3, 200)]
    made: Any = SimpleNamespace(stream=lambda count, seed, made: pieces[: count // 2], class_names=())
    drawn = PICTURES.drawn(made, 4, 0)
    assert drawn.images.shape == (4, 1, 64, 64)
    assert drawn.images[:, 0, 5, 60].tolist() == drawn.labels.tolist() == [3, 3, 200, 200]
    records = Records(np.concatenate([piece.images for piece in pieces]), np.zeros(4, int))
    assert np.array_equal(PICTURES.array(records, large), drawn.images)
    assert PICTURES.limits(small) == ()
    assert "at 64 pixels" in PICTURES.limits(large)[0]


@pytest.mark.parametrize("discriminators", [1, 2])
def test_a_discriminator_that_knows_the_members_is_caught(
    run: Path, discriminators: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: scores of a discriminator that has learnt the members by heart go through to the figures."""
    draw = np.random.default_rng(1)
    images = draw.integers(0, 256, (1_500, 1, 28, 28)).astype(np.uint8)
    inside, outside = Records(images[:500], np.zeros(500, int)), Records(images[500:], np.zeros(1_000, int))
    known = {image.tobytes() for image in inside.images}

    def scores(_state: Any, records: Records) -> torch.Tensor:
        seen = torch.tensor([image.tobytes() in known for image in records.images])
        return torch.stack([0.5 + 0.4 * seen, torch.full((len(records),), 0.5)][:discriminators])

    monkeypatch.setattr(dpgan.State, "scores", scores)
    synthesizer = Synthesizer.load(run)
    target = Target(
        samples=synthesizer.sample(100), training=synthesizer.job.begin(Rng(0)), synthesizer=synthesizer, seed=3,
        **attacking._drawn(inside, outside, 500, seed=3),
    )  # fmt: skip
    found = [each.to_json() for each in on_discriminators(target)]
    assert found[0]["value"] == 1.0
    assert found[-1]["value"] > 0.95  # 500 non-members: enough to be sure of a rate of 1 %
    told = verdict(found, INFINITE)
    assert "recognised members better than guessing" in told[0]
    assert any("100.0\u00a0% of them" in sentence for sentence in told)


# ---------------------------------------------------------------- words


def entry(name: str, low: float, chance: float = 0.5, tpr: float | None = None) -> dict[str, Any]:
    ends = {"value": low + 0.1, "low": low, "high": low + 0.2, "computed_on": "90 members"}
    rates = {} if tpr is None else {rate: {**ends, "value": tpr, "low": tpr, "high": tpr} for rate in ("0.01", "0.001")}
    return {"attack": name, "measure": "share", **ends, "chance": chance, "tpr": rates}


def test_a_verdict_names_success_failure_and_the_limits() -> None:
    failed = verdict([entry("a", 0.3), entry("b", 0.4)], INFINITE)
    assert failed[0] == "These 2 attacks failed: none recognised members better than guessing."
    assert failed[1].startswith("Others may not.")
    assert "no formal guarantee" in failed[-1]
    assert "looks like" not in failed[1]
    mixed = verdict([entry("a", 0.3), entry("b", 0.6), entry("b", 0.7)], {"epsilon": 3.0})
    assert mixed[0] == "1 of these 2 attacks recognised members better than guessing: b."
    assert "Strongest: b, share 0.8 (0.7 to 0.9)" in mixed[1]
    assert "never that there are none" in mixed[2]
    assert mixed[-1].startswith("The guarantee limits every attacker")
    rare = verdict([entry("a", 0.3, tpr=0.02)], INFINITE)
    assert any("at 1\u00a0% false alarms a finds 2.0\u00a0%" in sentence for sentence in rare)
    assert verdict([], INFINITE) == ["No attack was possible, so nothing is known about leaks."]


def test_the_best_of_many_figures_is_no_success_where_luck_explains_it() -> None:
    """Of 20 figures, one must be 3.02 standard errors above chance; alone, 1.96. Half an interval here is 0.1."""
    others = [entry(f"a{number}", 0.4) for number in range(19)]
    lucky = verdict([*others, entry("b", 0.553)], INFINITE)
    assert lucky[0] == "These 20 attacks failed: none recognised members better than guessing."
    assert lucky[1] == "By itself, 1 of their 20 figures looks like a success. Luck gives one in 40."
    assert verdict([*others, entry("b", 0.555)], INFINITE)[0].startswith("1 of these 20 attacks recognised members")
    assert verdict([entry("b", 0.501)], INFINITE)[0] == "The attack recognised members better than guessing: b."
    assert (
        verdict([entry("b", 0.4)], INFINITE)[0]
        == "The attack failed: it did not recognise members better than guessing."
    )
    rare = verdict([*others, entry("b", 0.4, tpr=0.02)], INFINITE)
    assert any("false alarms b finds" in sentence for sentence in rare)


def test_a_rate_with_too_few_records_shows_its_upper_end_only() -> None:
    found = entry("a", 0.3, tpr=0.05)
    found["tpr"]["0.001"]["computed_on"] += "; too few for this rate"
    _, row = attack_rows([found])
    assert row[3] == "0.500"
    assert row[4] == "5.0\u00a0% (5.0\u00a0% to 5.0\u00a0%)"
    assert row[5] == "at most 5.0\u00a0%"


def test_one_record_of_each_unit_takes_part_and_nobody_is_on_two_sides(made: Path) -> None:
    def people(count: int, first: int) -> Records:
        units = np.arange(count) % (count // 4)
        images = np.zeros((count, 1, 28, 28), np.uint8)
        images[:, 0, 0, 0] = first + units
        return Records(images, np.zeros(count, np.int64), units, np.array([str(each) for each in range(count // 4)]))

    drawn = attacking._drawn(people(160, 0), people(320, 100), 2_000, seed=0)
    members, nonmembers, held_out = (
        drawn[name].images[:, 0, 0, 0].tolist() for name in ("members", "nonmembers", "held_out")
    )
    assert len(members) == len(set(members)) == len(nonmembers) == len(set(nonmembers)) == 40
    assert not set(nonmembers) & set(held_out)
    assert len(held_out) == 160
    assert len(set(held_out)) == 40


def test_units_from_a_file_beside_the_data_have_an_array_for_each_set(
    gossamer: Run, run: Path, data: Path, strangers: Path, tmp_path: Path
) -> None:
    """Members and non-members are of unequal number: one array fits one of them at most."""
    ids = tmp_path / "ids.npz"
    mine, theirs = np.arange(160) // 2, 500 + np.arange(120) // 3
    np.savez(ids, train_writer=mine, test_writer=theirs)
    words = ["attack", run, "--members", data, "--nonmembers", strangers, "-n", 200]
    found = gossamer(*words, "--units", f"{ids}:writer", "--json")
    assert found.status == 0, found.err
    assert "20 of 160 members and 20 of 120 non-members took part" in found.json["on"]  # half of 40 units are held out
    for arrays in ({"writer": mine}, {"writer": np.arange(120)}, {"train_writer": mine}):
        np.savez(ids, **arrays)
        refused = gossamer(*words, "--units", f"{ids}:writer")
        assert refused.status == 2
        assert "one array cannot have the ids of members and of non-members" in refused.err
        assert "train_writer for --members and test_writer for --nonmembers" in refused.err
        assert "Or give --units :writer if both sets have an array of that name" in refused.err
    both = gossamer(*words[:3], f"{data}:train", "--nonmembers", f"{strangers}:train", "--units", f"{ids}:writer")
    assert both.status == 2
    assert "one array cannot have" in both.err


def test_units_in_both_files_are_named_by_their_key(
    gossamer: Run, run: Path, data: Path, strangers: Path, tmp_path: Path
) -> None:
    files = []
    for path, people in ((data, 80), (strangers, 60)):
        with np.load(path) as held:
            files.append(tmp_path / f"with {path.name}")
            np.savez(files[-1], **held, writer=np.arange(len(held["labels"])) % people)
    words = ["attack", run, "--members", files[0], "--nonmembers", files[1], "-n", 200, "--units", ":writer", "--json"]
    found = gossamer(*words)
    assert found.status == 0, found.err
    assert "30 of 160 members and 30 of 120 non-members took part" in found.json["on"]


def test_a_figure_of_nothing_has_no_sign() -> None:
    """Differences of shares are often a little below zero."""
    entry = {"attack": "a", "measure": "m", "value": -1e-5, "low": -2e-4, "high": 1e-4, "chance": 0.0, "tpr": {}}
    _, row = attack_rows([entry])
    assert row[2] == "0.000 (0.000 to 0.000)"
