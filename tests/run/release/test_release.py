"""A release is for the next person: README, declarations, samples, and a loader that needs PyTorch and safetensors alone."""

import dataclasses
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from gossamer.data.card import DataCard
from gossamer.data.sources.pictures.read import read
from gossamer.errors import RequestError
from gossamer.files import ANSWERS
from gossamer.methods import METHODS
from gossamer.methods.common.softmax_regression import Classifier
from gossamer.methods.evolve.nets import Evolved
from gossamer.methods.job import Job
from gossamer.methods.synthesizer import Synthesizer, model_bytes
from gossamer.metrics import registry
from gossamer.privacy.certificate import statements
from gossamer.privacy.certificate.certificate import Certificate, sha256
from gossamer.privacy.certificate.declarations import NOT_DECLARED, NOT_RUN, QUESTIONS
from gossamer.run.release.release import ATTACKED, MEASURED, release
from gossamer.run.release.standalone_loader import Unloadable, _Needed, loadable, loader
from gossamer.run.release.texts import readme
from gossamer.run.release.verify import verify
from gossamer.run.storage.run_folder import RunFolder
from kinds import OF_PICTURES

Run = Callable[..., Any]
BLOCKED = "gossamer numpy scipy dp_accounting PIL matplotlib sklearn cryptography click rich pandas"
SETTINGS: dict[str, dict[str, Any]] = {
    "dpgan": {"noise_multiplier": 1.0, "width": 4, "latent_size": 8},
    "dp-wgan": {"noise_multiplier": 1.0, "width": 4, "latent_size": 8, "conditional": True},
    "gs-wgan": {"noise_multiplier": 1.0, "width": 2, "latent_size": 8},
    "privae": {"noise_multiplier": 1.0, "network": "conv", "width": 4, "latent_size": 8},
    "dp-diffusion": {"noise_multiplier": 1.0, "axes": 8, "width": 16, "depth": 1, "sampler_steps": 3},
    "dp-mepf": {"noise_multiplier": 1.0, "width": 4, "latent_size": 6, "candidates": 20},
    "moments": {"noise_multiplier": 1.0, "axes": 8},
    "moments align": {"noise_multiplier": 1.0, "axes": 20, "align": True, "threshold": 0.3},
    "moments own axes": {"noise_multiplier": 1.0, "axes": 20, "axes_noise": 2.0, "cells": 2},
    "privgan": {"width": 8, "latent_size": 8, "labels": "conditional", "batch_size": 16},
    "privgan conv": {"width": 8, "latent_size": 8, "labels": "per-class", "network": "conv", "batch_size": 16},
    "evolve": {"noise_multiplier": 1.0, "candidates": 20},
    "evolve letters": {"noise_multiplier": 1.0, "candidates": 20, "drawing": "letters"},
    "evolve patches": {"noise_multiplier": 1.0, "candidates": 20, "drawing": "patches", "embedding": "cosines"},
    "evolve soft labels": {
        "noise_multiplier": 1.0, "candidates": 20, "drawing": "patches", "embedding": "cosines", "own_label": 0.25,
    },
    "teacher": {"noise_multiplier": 1.0},
}  # fmt: skip
"""A method and, where it is there several times, what of it."""
CARDS = {
    "evolve": DataCard(shape=(1, 28, 28), classes=10, declared_size=160),
    "privgan conv": DataCard(shape=(1, 32, 32), classes=3, declared_size=160),
}
CARD = DataCard(shape=(1, 28, 28), classes=3, declared_size=160, label_prior=(0.2, 0.5, 0.3))
FEW = {"teacher": 40, "evolve soft labels": 40}
"""Samples of what takes long; else 1,003: over the end of a piece."""


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made, tmp_path / "run")
    return tmp_path / "run"


def elsewhere(folders: dict[Path, int]) -> dict[str, Any]:
    """What the loaders of folders draw, so many samples each, in a process with PyTorch and safetensors and none of our other
    packages. Of a classifier, also what it says of them.
    """
    code = f"""
import hashlib, importlib.util, json, sys
for name in {BLOCKED!r}.split():
    sys.modules[name] = None
found = {{}}
for folder, n in {[(str(folder), n) for folder, n in folders.items()]!r}:
    spec = importlib.util.spec_from_file_location("load", folder + "/load.py")
    load = importlib.util.module_from_spec(spec)
    sys.modules["load"] = load
    spec.loader.exec_module(load)
    try:
        release = load.load()
        images, labels = release.sample(n, seed=5)
    except Exception as error:
        found[folder] = str(error)
        continue
    digest = hashlib.sha256(bytes(images.flatten().tolist())).hexdigest()
    said = release.probabilities(images).tolist() if hasattr(release.net, "probabilities") else None
    said = release.soft_labels(images, labels).tolist() if getattr(release.net, "labeller", None) is not None else said
    found[folder] = [list(images.shape), str(images.dtype), digest, labels.tolist(), said]
print(json.dumps(found))
"""
    answer = subprocess.run(
        [sys.executable, "-I", "-W", "ignore", "-c", code], capture_output=True, text=True, check=False
    )
    assert answer.returncode == 0, answer.stderr
    return dict(json.loads(answer.stdout))


def trained(net: torch.nn.Module) -> torch.nn.Module:
    """With the state that a run would have given it, where fresh nets have none that tells anything."""
    if isinstance(net, Evolved):
        net.parents = net.program.random(torch.randn(len(net.labels), net.program.size))
        net.weights = torch.rand(len(net.labels))
        net.degree = torch.tensor(0.5)
    for part in net.modules():
        if isinstance(part, Classifier):
            torch.nn.init.normal_(part.head.weight, std=0.1)
    return net.eval()


def test_refined_samples_have_no_loader() -> None:
    """They come from the generator of another method, which the file does not have."""
    settings = {"noise_multiplier": 1.0, "start": "moments", "refine": 1.0}
    of: Any = SimpleNamespace(method="dp-diffusion", facts={"public_inputs": []}, card=CARD.to_dict())
    of.config = Job.of(METHODS["dp-diffusion"], settings, CARD).settings
    assert loadable(of) == ("", "it refines samples of another method")
    of.config = of.config | {"refine": 0.0}
    assert loadable(of)[1] == ""


def test_the_loader_draws_what_gossamer_draws_for_every_method(tmp_path: Path) -> None:
    """To the last bit, where neither Gossamer nor numpy can be imported, nor what reads fonts."""
    assert {name.split()[0] for name in SETTINGS} == set(OF_PICTURES) - {"feature-moments"}, "public pictures: no file"
    right = {}
    for name, settings in SETTINGS.items():
        method, n = name.split()[0], FEW.get(name, 1_003)
        card = CARDS.get(name, CARD)
        job = Job.of(METHODS[method], settings, card)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(1)
            net = trained(job.generator())
        folder = tmp_path / name
        folder.mkdir()
        (folder / "model.safetensors").write_bytes(model_bytes(net))
        facts = {
            "card": card.to_dict(),
            "config": job.settings,
            "model": {"sha256": sha256(folder / "model.safetensors")},
        }
        (folder / "certificate.json").write_text(json.dumps(facts))
        (folder / "load.py").write_text(loader(method), encoding="utf-8")
        certificate: Any = None
        samples = Synthesizer(net, job, certificate, folder).sample(n, seed=5)
        digest = sha256_of(samples.images)
        right[str(folder)] = [list(samples.images.shape), "torch.uint8", digest, samples.labels.tolist(), None]
        if isinstance(net, Classifier):
            right[str(folder)][4] = net.probabilities(torch.from_numpy(samples.images).float() / 255).tolist()
        if samples.probabilities is not None:
            right[str(folder)][4] = samples.probabilities.tolist()
    found = elsewhere({tmp_path / name: FEW.get(name, 1_003) for name in SETTINGS})
    for folder, drawn in right.items():
        assert found[folder] == drawn, folder
    assert len({drawn[2] for drawn in right.values()}) == len(SETTINGS)


def test_what_needs_another_package_is_refused() -> None:
    with pytest.raises(Unloadable, match="it needs numpy"):
        _Needed(frozenset({"torch"})).take("gossamer.data.pixels.to_uint8", "scaled")


def test_the_loader_is_the_same_in_every_process() -> None:
    """`verify` compares its bytes: nothing in it may depend on the order of a set."""
    code = (
        "import hashlib; from gossamer.run.release.standalone_loader import loader; print(hashlib.sha256(''.join(map("
    )
    code += f"loader, {list(METHODS)})).encode()).hexdigest())"
    found = {
        subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1


def sha256_of(images: np.ndarray) -> str:
    return hashlib.sha256(images.tobytes()).hexdigest()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "classes", "flags"),
    [
        ("evolve", 10, ["--epsilon", 5, "--delta", 1e-3, "--candidates", 6, "--steps", 1, "--embedding", "cosines"]),
        ("privgan", 2, ["--epochs", 1, "--batch-size", 16, "--width", 8, "--latent-size", 8]),
        ("teacher", 2, ["--epsilon", 20, "--delta", 1e-3, "--steps", 3]),
    ],
)
def test_releases_of_these_methods_are_drawn_from_without_gossamer(
    gossamer: Run, data: Path, card: Path, tmp_path: Path, method: str, classes: int, flags: list[Any]
) -> None:
    """Through the command line, from records to the samples that whoever receives the folder draws."""
    card.write_text(card.read_text().replace("classes = 2", f"classes = {classes}"))
    fitted = gossamer("fit", method, "--data", data, "--card", card, "--out", tmp_path / "run", *flags)
    assert fitted.status == 0, fitted.err
    assert gossamer("release", tmp_path / "run", "-o", tmp_path / "out").status == 0
    page = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    assert ("release.probabilities(images)" in page) == (method == "teacher")
    assert gossamer("sample", tmp_path / "out", "-n", 12, "-o", tmp_path / "s.npz", "--seed", 5).status == 0
    (found,) = elsewhere({tmp_path / "out": 12}).values()
    with np.load(tmp_path / "s.npz") as held:
        assert found[2:4] == [sha256_of(held["images"]), held["labels"].tolist()]
    assert (found[4] is None) == (method != "teacher")


def test_a_release_is_loaded_by_its_own_file_and_another_model_is_not(run: Path, tmp_path: Path) -> None:
    out, other = release(run, tmp_path / "out"), tmp_path / "other"
    shutil.copytree(out, other)
    (other / "model.safetensors").write_bytes((other / "model.safetensors").read_bytes() + b" ")
    found = elsewhere({out: 1_003, other: 3})
    samples = Synthesizer.load(out).sample(1_003, seed=5)
    assert found[str(out)][2:4] == [sha256_of(samples.images), samples.labels.tolist()]
    assert "is not the model that the certificate was made for" in found[str(other)]
    text = (out / "load.py").read_text(encoding="utf-8")
    assert "import gossamer" not in text
    assert "from gossamer" not in text
    assert text.startswith('"""Loads the release in this folder')


def test_the_way_through_the_command_line(gossamer: Run, run: Path, tmp_path: Path) -> None:
    (tmp_path / "declared.toml").write_text(
        'made_by = "Clinic of Example"\nexpires = 2027-12-31\nsettings_chosen = "uncounted"\n'
        '[attacked]\nreconstruction = "tried by a student in May"\n'
    )
    answer = gossamer("release", run, "-o", tmp_path / "out", "--declared", tmp_path / "declared.toml", "--samples", 30)
    assert answer.status == 0, answer.err
    assert verify(tmp_path / "out").ok
    declared = Certificate.load(tmp_path / "out").declared
    assert (declared["made_by"], declared["expires"], declared["contact"]) == (
        "Clinic of Example",
        "2027-12-31",
        NOT_DECLARED,
    )
    assert declared["attacked"]["reconstruction"] == "tried by a student in May"
    page = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    assert page == readme(Certificate.load(tmp_path / "out"), samples=30, no_loader="", more=[ANSWERS])
    drawn = read(str(tmp_path / "out" / "samples.npz"), split="train")
    assert drawn.images.shape == (30, 1, 28, 28)
    (tmp_path / "declared.toml").write_text('contakt = "x"\n')
    refused = gossamer("release", run, "-o", tmp_path / "second", "--declared", tmp_path / "declared.toml")
    assert refused.status == 2
    assert "Did you mean 'contact'?" in refused.err
    assert not (tmp_path / "second").exists()
    again = gossamer("release", tmp_path / "out", "-o", tmp_path / "second", "--samples", 3)
    assert again.status == 2
    assert "is copied as it is" in again.err
    assert gossamer("release", tmp_path / "out", "-o", tmp_path / "second").status == 0
    assert (tmp_path / "second" / "samples.npz").read_bytes() == (tmp_path / "out" / "samples.npz").read_bytes()


def test_that_a_run_was_attacked_is_told_wherever_the_figures_went(run: Path, tmp_path: Path) -> None:
    """`attack -o` writes them elsewhere; the private folder knows."""
    noted = run / "checkpoint" / "internal.jsonl"
    noted.write_text('{"date": "2026-11-24", "evaluate": ["train", "test"]}\n')
    assert not RunFolder(run).attacked
    noted.write_text(noted.read_text() + '{"date": "2026-11-24", "attack": ["members", "others"]}\n')
    out = release(run, tmp_path / "out")
    assert Certificate.load(out).declared["attacked"]["membership_inference"] == ATTACKED


def test_that_a_run_was_attacked_is_told_and_what_came_of_it_is_not(run: Path, tmp_path: Path) -> None:
    assert Certificate.load(run).declared["attacked"]["membership_inference"] == NOT_RUN
    (run / "attacks.json").write_text(json.dumps({"attacks": [{"value": 0.8765}], "verdict": ["leaks"]}))
    out = release(run, tmp_path / "out")
    attacked = Certificate.load(out).declared["attacked"]
    assert attacked.pop("membership_inference") == ATTACKED
    assert set(attacked.values()) == {NOT_RUN}
    for path in out.iterdir():
        assert b"0.8765" not in path.read_bytes()
    mine = release(run, tmp_path / "mine", declared={"attacked": {"membership_inference": "by others"}})
    assert Certificate.load(mine).declared["attacked"]["membership_inference"] == "by others"


def test_that_the_baseline_at_epsilon_0_was_measured_is_told_and_its_figure_is_not(run: Path, tmp_path: Path) -> None:
    figure = {"metric": registry.PUBLIC_ITSELF.name, "value": 0.8765, "low": 0.8, "high": 0.9}
    (run / "metrics.json").write_text(json.dumps([{**figure, "n": 10, "computed_on": "x"}]))
    out = release(run, tmp_path / "out")
    assert Certificate.load(out).declared["baseline"] == MEASURED
    assert not any(b"0.8765" in path.read_bytes() for path in out.iterdir())


def words(value: Any) -> str:
    """All text in a JSON value."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return "\n".join([str(value) if isinstance(value, str) else "", *map(words, inner)])


def test_the_page_quotes_what_a_release_says_and_its_declarations_can_be_used(run: Path, tmp_path: Path) -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "certificate.md").read_text(encoding="utf-8")
    toml = page.split("```toml\n")[1].split("```")[0]
    (tmp_path / "declared.toml").write_text(toml)
    out = release(run, tmp_path / "out", declared=tmp_path / "declared.toml")
    (tmp_path / "declared.toml").write_text(toml.replace('"before"', '"uncounted"'))
    bold = release(run, tmp_path / "bold", declared=tmp_path / "declared.toml")
    said = [(folder / "README.md").read_text(encoding="utf-8") for folder in (out, bold)]
    said.append(words(json.loads((out / "certificate.json").read_text(encoding="utf-8"))))
    settings = json.loads((run / "config.json").read_text(encoding="utf-8"))
    deep = {**settings, "card": {**settings["card"], "pixel_range": [0, 65535], "missing_label": "drop"}}
    said.append(words(statements.assumptions(deep, proved=True)))
    said.append(statements.adds_up({**settings, "accounts": {**settings["accounts"], "unnamed": True}}))
    quotes = [line.removeprefix("> ") for line in page.splitlines() if line.startswith("> ")]
    assert len(quotes) >= 8
    for quote in quotes:
        assert any(quote in text for text in said), quote
    assert set(tomllib.loads(toml)) == {*QUESTIONS, "attacked"}


def test_the_readme_has_what_is_declared_one_sentence_on_the_rest_and_a_line_for_each_attack(
    run: Path, tmp_path: Path
) -> None:
    certificate = Certificate.load(release(run, tmp_path / "out", declared={"contact": "the office"}))
    page = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    assert page == readme(certificate, samples=0, no_loader="", more=[ANSWERS])
    assert "\n| contact | the office |\n" in page
    (sentence,) = (line for line in page.splitlines() if line.startswith("The data owner did not declare: "))
    asked = {*QUESTIONS} - {"contact", "pretrained", "public_records", "public_tuned", "baseline"}  # no public inputs
    assert {*sentence.partition(": ")[2].rstrip(".").replace(" ", "_").split(",_")} == asked
    for name in certificate.declared["attacked"]:
        assert f"\n| {name.replace('_', ' ')} | " in page
    assert (
        page.index("## What this is good for") < page.index("## How to load it") < page.index("## What is not promised")
    )
    declared = {**certificate.declared, "pretrained": "an encoder trained on ImageNet"}
    named = readme(dataclasses.replace(certificate, declared=declared), samples=0, no_loader="", more=[ANSWERS])
    assert "| pretrained | an encoder trained on ImageNet |" in named
    for sentence in (
        certificate.statement,
        certificate.adds_up,
        *certificate.facts["not_promised"],
        *certificate.not_covered,
    ):
        assert sentence in page
    for each in certificate.figures["at_deltas"]:
        (row,) = (
            line
            for line in page.splitlines()
            if line.endswith(f" | {each['delta']:.0e} |") or f"| {each['delta']} |" in line
        )
        shown = float(row.split("|")[1])
        assert each["epsilon"] <= shown < each["epsilon"] + 1e-3
    assert len(page.partition("\n---\n")[2].splitlines()) <= 95
    assert "release = load.load()" in page


def test_what_others_wrote_is_text_in_the_readme(run: Path) -> None:
    """A name, a title or an answer may hold what a reader of Markdown would run, or a bar that would end a cell."""
    bad = "<script>alert(1)</script>|x"
    certificate = Certificate.load(run)
    declared = {**certificate.declared, "made_by": bad}
    named = dataclasses.replace(
        certificate, card={**certificate.card, "class_names": [bad, "b"], "title": bad}, declared=declared
    )
    page = readme(named, samples=0, no_loader="")
    assert "<script>" not in page
    assert page.partition("\n---\n\n")[2].startswith("# Synthetic records: &lt;script&gt;alert(1)&lt;/script&gt;|x\n")
    assert "| made by | &lt;script&gt;alert(1)&lt;/script&gt;\\|x |" in page


def test_components_in_the_settings_are_the_phases_of_the_method(run: Path) -> None:
    settings = json.loads((run / "config.json").read_text())
    (part,) = settings["components"]
    assert part["purpose"] == "training"
    assert part["plan"] == Certificate.load(run).plan
    settings["components"][0]["purpose"] = "nothing of importance"
    forge(run, settings)
    assert any("'components[0].purpose' says" in problem for problem in verify(run).problems)


def forge(run: Path, settings: dict[str, Any]) -> None:
    """Other settings, with a ledger that pins them and a certificate that follows from both."""
    from gossamer.privacy import ledger as ledgers
    from gossamer.privacy.ledger import PrivacyLedger

    (run / "config.json").write_text(json.dumps(settings))
    first, *rest = [json.loads(line) for line in (run / "ledger.jsonl").read_text().splitlines()]
    first["open"]["settings"] = sha256(run / "config.json")
    last_hash, lines = ledgers.START, ""
    for line in (first, *rest):
        del line["hash"]
        last_hash = ledgers.chain(last_hash, line)
        lines += json.dumps({**line, "hash": last_hash}) + "\n"
    (run / "ledger.jsonl").write_text(lines)
    model = sha256(run / "model.safetensors")
    ledger = PrivacyLedger.load(run / "ledger.jsonl")
    Certificate.build(ledger, settings, model_sha256=model, versions={}, created="2026-01-01").save(run)


@pytest.mark.parametrize("content", ["made_by = ", "made_by = 3\n", None])
def test_declarations_that_cannot_be_read_are_refused(run: Path, tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "declared.toml").write_text(content)
    with pytest.raises(RequestError, match=r"declared\.toml"):
        release(run, tmp_path / "out", declared=tmp_path / "declared.toml")
    assert not (tmp_path / "out").exists()
