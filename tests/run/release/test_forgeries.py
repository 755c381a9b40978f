"""What somebody can edit in a release without its key, and what each check says of it: the tables in forgeries.md.

Whoever edits redoes the seal of the certificate, the hashes of the ledger and SHA256SUMS, and takes the signature away, unless
an edit says otherwise. Each is refused, or `verify` names the place among what it does not check.
"""

import dataclasses
import importlib.util
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from forged_sums import redo
from safetensors.torch import load_file, save_file

from gossamer.data.card import DataCard
from gossamer.data.samples.samples import Samples
from gossamer.data.source import Reading
from gossamer.data.sources.pictures.read import read
from gossamer.errors import GossamerError, LedgerDamaged, RequestError
from gossamer.files import ANSWERS, CERTIFICATE, CONFIG, LEDGER, MODEL
from gossamer.methods.synthesizer import Synthesizer
from gossamer.privacy import ledger as ledgers
from gossamer.privacy.certificate.certificate import Certificate, check, sealed, sha256
from gossamer.privacy.ledger import PrivacyLedger
from gossamer.privacy.random import answers as noted
from gossamer.privacy.random.answers import Answers
from gossamer.run.release.contents import samples_seed
from gossamer.run.release.release import release, sign
from gossamer.run.release.replay import read_answers, repeated, replayed
from gossamer.run.release.texts import readme
from gossamer.run.release.verify import LOADER, README, verify
from gossamer.run.storage.run_folder import PRIVATE, REPORT, SIGNATURE, SUMS
from gossamer.run.training.fit import fit

ROOT = Path(__file__).resolve().parents[3]
CARD = DataCard(shape=(1, 28, 28), classes=10, declared_size=1437)
SAMPLES = 20
Folder = Path
Edit = Callable[[Folder, SimpleNamespace], Any]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """Three runs on the same digits, released: at epsilon 3, without a guarantee, and at epsilon 0.4 by much noise."""
    around = tmp_path_factory.mktemp("forgeries")
    budgets: dict[str, dict[str, Any]] = {
        "honest": {"epsilon": 3.0, "delta": 1e-4}, "free": {"epsilon": float("inf")},
        "loud": {"noise_multiplier": 10.0, "delta": 1e-4},
    }  # fmt: skip
    folders = {}
    for name, budget in budgets.items():
        fit("moments", data="digits", card=CARD, out=around / name, accounts=around / f"book {name}", axes=8, **budget)
        folders[name] = release(around / name, around / f"{name} released", samples=SAMPLES)
    sign(folders["honest"], key=around / "me", new_key=True)
    return SimpleNamespace(around=around, key=str(around / "me.pub"), **folders)


@pytest.fixture(scope="module")
def script() -> ModuleType:
    """tools/check_release.py, which computes each epsilon once."""
    spec = importlib.util.spec_from_file_location("check_release", ROOT / "tools" / "check_release.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# ---------------------------------------------------------------------- edits


def replaced(out: Path, name: str, old: str, new: str) -> None:
    text = (out / name).read_text(encoding="utf-8")
    assert old in text
    (out / name).write_text(text.replace(old, new), encoding="utf-8")


def less(out: Path, name: str) -> None:
    """Each mention of the epsilon on a page becomes 0.010."""
    epsilon = json.loads((out / CERTIFICATE).read_text())["statement"].split("epsilon ")[1].split(" ")[0]
    replaced(out, name, epsilon, "0.010")


def certify(out: Path, *path: Any, to: Any) -> None:
    """Another value in the certificate, under a new seal, and the page that goes with it. `to` may take the old value."""
    body = json.loads((out / CERTIFICATE).read_text())
    del body["seal"]
    place = body
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = to(place[path[-1]]) if callable(to) else to
    (out / CERTIFICATE).write_text(sealed(body), encoding="utf-8")
    write_page(out, body)


def write_page(out: Path, body: dict[str, Any], more: tuple[str, ...] = (ANSWERS,)) -> None:
    body = {
        name: value for name, value in body.items() if name in {each.name for each in dataclasses.fields(Certificate)}
    }
    try:
        remark = Synthesizer.load(out).remark  # noise may hide a class of the run, or of another model
    except GossamerError:
        remark = next(
            (line for line in (out / README).read_text().splitlines() if line.startswith("Mostly noise: ")), ""
        )
    page = readme(Certificate(**body), samples=SAMPLES, no_loader="", remark=remark, more=more)
    (out / README).write_text(page, encoding="utf-8")


def everything(
    out: Path, settings: dict[str, Any] | None = None, lines: Callable[[list[Any]], list[Any]] = list, **opens: Any
) -> None:
    """Other settings or lines of the ledger, whose hashes are redone, with the certificate and the page that follow."""
    if settings is not None:
        (out / CONFIG).write_text(json.dumps(settings))
    first, *rest = [json.loads(line) for line in (out / LEDGER).read_text().splitlines()]
    first["open"] |= {"settings": sha256(out / CONFIG), **opens}
    last, text = ledgers.START, ""
    for line in lines([first, *rest]):
        body = {name: value for name, value in line.items() if name != "hash"}
        last = ledgers.chain(last, body)
        text += json.dumps({**body, "hash": last}) + "\n"
    (out / LEDGER).write_text(text)
    old = json.loads((out / CERTIFICATE).read_text())
    pinned = {"file": LEDGER, "lines": text.count("\n"), "last_hash": last}
    try:
        new = Certificate.build(
            PrivacyLedger.load(out / LEDGER), json.loads((out / CONFIG).read_text()), model_sha256=old["model"]["sha256"],
            versions=old["versions"], created=old["created"], declared=old["declared"],
        )  # fmt: skip
    except GossamerError:  # what cannot be read or accounted for leads to none: the old one, with a new pin
        certify(out, "ledger", to=pinned)
        return
    new.save(out)
    write_page(out, dataclasses.asdict(new))


def other_model(out: Path, made: SimpleNamespace) -> None:
    shutil.copy(made.free / MODEL, out / MODEL)
    certify(out, "model", "sha256", to=sha256(out / MODEL))


def other_model_and_samples(out: Path, made: SimpleNamespace) -> None:
    other_model(out, made)
    draw_samples(out)


def draw_samples(out: Path) -> None:
    """What the model draws with the seed that follows from it."""
    generator = Synthesizer.load(out)
    drawn = generator.stream(SAMPLES, seed=samples_seed(generator.certificate))
    Samples.write(out / Samples.file, drawn, count=SAMPLES, force=True)


def save(out: Path, more: dict[str, Any], metadata: dict[str, str] | None = None) -> None:
    """The same model with other tensors, and what follows from that."""
    save_file({**load_file(out / MODEL), **more}, out / MODEL, metadata)
    certify(out, "model", "sha256", to=sha256(out / MODEL))


def of_another_type(out: Path, _: SimpleNamespace) -> None:
    (name, tensor), *_rest = load_file(out / MODEL).items()
    save(out, {name: tensor.double()})


def wordy(out: Path, _: SimpleNamespace) -> None:
    """A further entry of a tensor, which safetensors reads over."""
    content = (out / MODEL).read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = content[8 : 8 + length].rstrip().replace(b'{"dtype"', b'{"note":"p17, f, 1957-01-30","dtype"', 1)
    header += b" " * (-len(header) % 8)
    (out / MODEL).write_bytes(len(header).to_bytes(8, "little") + header + content[8 + length :])
    certify(out, "model", "sha256", to=sha256(out / MODEL))


def samples(out: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Other samples."""
    with np.load(out / Samples.file) as file:
        arrays = dict(file)
    change(arrays)
    np.savez(out / Samples.file, **arrays)


def one_record(arrays: dict[str, Any]) -> None:
    arrays["images"][7] = read("digits", Reading(shape=(1, 28, 28)), split="train").images[0]


def of_another_machine(out: Path, _: SimpleNamespace) -> None:
    samples(out, one_record)
    certify(out, "versions", "samples", to="torch 1.0, another")


def other_facts(out: Path, _: SimpleNamespace) -> None:
    settings = json.loads((out / CONFIG).read_text())
    settings["methods"][0]["own_input"] = {"what": "pictures by NIST", "tuned": "no"}
    everything(out, settings)


def without_facts(out: Path, _: SimpleNamespace) -> None:
    settings = json.loads((out / CONFIG).read_text())
    settings["methods"] = []
    everything(out, settings)


def smaller_budget(out: Path, _: SimpleNamespace) -> None:
    settings = json.loads((out / CONFIG).read_text())
    settings["accounts"]["together"]["epsilon"] = 0.5
    everything(out, settings)


def louder(out: Path, made: SimpleNamespace) -> None:
    """All of a run with more noise, but for the model."""
    for name in (CONFIG, LEDGER, CERTIFICATE):
        shutil.copy(made.loud / name, out / name)
    certify(out, "model", "sha256", to=sha256(out / MODEL))


def other_unit(out: Path, _: SimpleNamespace) -> None:
    settings = json.loads((out / CONFIG).read_text())
    settings["card"]["unit"] = "hospital"
    everything(out, settings)


def other_relation(out: Path, _: SimpleNamespace) -> None:
    settings = json.loads((out / CONFIG).read_text())
    settings["accounts"]["together"]["relation"] = "replace-one"
    everything(out, settings, relation="replace-one")
    replaced(out, CERTIFICATE, "add-or-remove-one", "replace-one")
    certify(out, "config", to=settings["config"])


def as_a_run(out: Path, _: SimpleNamespace) -> None:
    less(out, README)
    for name in (SUMS, SIGNATURE):
        (out / name).unlink()
    (out / PRIVATE).mkdir()


def epsilon_2(out: Path, _: SimpleNamespace) -> None:
    for path in (("guarantee", "epsilon"), *(("guarantees", i, "epsilon") for i in range(2))):
        certify(out, *path, to=2.0)
    certify(out, "statement", to=lambda text: re.sub(r"epsilon \d\.\d+", "epsilon 2.000", text))


def slightly_less(out: Path, _: SimpleNamespace) -> None:
    body = json.loads((out / CERTIFICATE).read_text())
    best = body["guarantees"].index(min(body["guarantees"], key=lambda each: each["epsilon"]))
    for path in (("guarantee", "epsilon"), ("guarantees", best, "epsilon")):
        certify(out, *path, to=lambda epsilon: epsilon * (1 - 9e-7))


def runs_first(out: Path, _: SimpleNamespace) -> None:
    text = (out / LOADER).read_text(encoding="utf-8")
    (out / LOADER).write_text(text.replace("import hashlib\n", 'import os\nos.system("true")\nimport hashlib\n', 1))


def of_another_version(out: Path, made: SimpleNamespace) -> None:
    runs_first(out, made)
    certify(out, "versions", "release", to="0.0.9")


def older_certificate(out: Path, _: SimpleNamespace) -> None:
    certify(out, "format", to=6)
    certify(out, "adds_up", to="This run was entered in no account book.")


def older_settings(out: Path, _: SimpleNamespace) -> None:
    settings = json.loads((out / CONFIG).read_text())
    everything(out, {**settings, "format": 4})


def charges(count: int) -> Callable[[list[Any]], list[Any]]:
    """So many charges in place of one."""
    return lambda lines: [line for line in lines for _ in range(count if "charge" in line else 1)]


def signed_on(out: Path, _: SimpleNamespace) -> None:
    said = json.loads((out / SIGNATURE).read_text())
    (out / SIGNATURE).write_text(json.dumps({**said, "date": "2020-01-01"}, indent=2) + "\n")


UNDONE: dict[str, Edit] = {
    "README.md, nothing redone": lambda out, _: less(out, README),
    "README.md, SHA256SUMS redone, the signature left": lambda out, _: (
        less(out, README), shutil.copy(out / SIGNATURE, out / "kept"), redo(out), (out / "kept").rename(out / SIGNATURE)
    ),
    "the release made to look like a RUN, with another README.md": as_a_run,
    "the date of the signature": signed_on,
    "model.safetensors of another run, its hash not redone": lambda out, made: shutil.copy(made.free / MODEL, out / MODEL),
}  # fmt: skip
"""By their rows: edits after which nothing more is redone."""

REDONE: dict[str, Edit] = {
    "README.md": lambda out, _: less(out, README),
    "report.html": lambda out, _: less(out, REPORT),
    "load.py runs a command first": runs_first,
    "load.py runs a command first, and the certificate names another version": of_another_version,
    "samples.npz with one real record among the samples": lambda out, _: samples(out, one_record),
    "samples.npz with one more array": lambda out, _: samples(out, lambda arrays: arrays.update(rows=np.arange(3))),
    "samples.npz with one real record, and the certificate names another machine": of_another_machine,
    "samples.npz of another run": lambda out, made: shutil.copy(made.free / Samples.file, out / Samples.file),
    "model.safetensors of another run, its hash in the certificate": other_model,
    "model.safetensors of another run, with samples that it draws": other_model_and_samples,
    "model.safetensors with one more tensor": lambda out, _: save(out, {"rows": torch.arange(3)}),
    "model.safetensors with metadata": lambda out, _: save(out, {}, {"note": "p17, f, 1957-01-30"}),
    "model.safetensors with a note on a tensor": wordy,
    "model.safetensors with numbers of another type": of_another_type,
    "config.json: other words of the method": other_facts,
    "config.json: no words of the method": without_facts,
    "certificate: epsilon 2 wherever it stands": epsilon_2,
    "certificate: epsilons of the three deltas halved": lambda out, _: [
        certify(out, "figures", "at_deltas", i, "epsilon", to=lambda epsilon: epsilon / 2) for i in range(3)
    ],
    "certificate: Renyi divergences halved": lambda out, _: certify(
        out, "figures", "rdp", "epsilon", to=lambda curve: [each / 2 for each in curve]
    ),
    "certificate: the list of what is not covered emptied": lambda out, _: certify(out, "not_covered", to=[]),
    "certificate: epsilon less by 9e-7 of itself": slightly_less,
    "certificate: date": lambda out, _: certify(out, "created", to="2020-01-01"),
    "certificate: versions": lambda out, _: certify(out, "versions", "torch", to="9.9"),
    "declared: who made it": lambda out, _: certify(out, "declared", "made_by", to="NIST"),
    "declared: an audit": lambda out, _: certify(out, "declared", "audited", to="passed by NIST"),
    "certificate: an older format, with another sentence": older_certificate,
    "config.json: an older format": older_settings,
    "config.json: all runs together cost less than this one": smaller_budget,
    "settings, ledger and certificate of a run with more noise, the same model": louder,
    "config.json: another unit": other_unit,
    "ledger and certificate: replace-one": other_relation,
    "ledger.jsonl without its charge": lambda out, _: everything(out, lines=charges(0)),
    "ledger.jsonl with its charge twice": lambda out, _: everything(out, lines=charges(2)),
    "metrics.json added to the folder": lambda out, _: (out / "metrics.json").write_text("[]"),
    "torch.py beside load.py": lambda out, _: (out / "torch.py").write_text(""),
}
"""By their rows: edits after which the sums are redone and the signature is taken away."""

EDITS = {**UNDONE, **REDONE}
PAGE = Path(__file__).with_name("forgeries.md").read_text(encoding="utf-8")
ROWS = {
    cells[0]: cells[1:]
    for line in PAGE.split("| what was edited |")[1].split("\n\n")[0].splitlines()[2:]
    if (cells := [cell.strip(" `") for cell in line.strip("|").split("|")]) and cells[0] in EDITS
}


def test_the_table_has_a_row_for_each_edit() -> None:
    table = PAGE.split("| what was edited |")[1].split("\n\n")[0]
    assert list(ROWS) == [line.split("|")[1].strip(" `") for line in table.splitlines()[2:]]
    assert set(ROWS) == set(EDITS)
    assert len(EDITS) >= 26


def test_the_page_of_the_certificate_lists_what_is_not_checked() -> None:
    page = (ROOT / "docs" / "certificate.md").read_text(encoding="utf-8")
    table = page.split("| edited without the key |")[1].split("\n\n")[0].splitlines()[2:]
    shown = {cells[1].strip(): cells[2].strip() for line in table if (cells := line.split("|"))}
    accepted = {row: cells[0] for row, cells in ROWS.items() if cells[0].startswith("not checked")}
    assert shown == {row: said.removeprefix("not checked: ") for row, said in accepted.items()}
    assert f"[{len(EDITS)} edits]" in page and f"refuses {len(EDITS) - len(accepted)} of them" in page
    assert f"[{len(REPLAYED)} forgeries]" in page


def test_the_release_that_is_edited_verifies(made: SimpleNamespace, script: ModuleType) -> None:
    assert verify(made.honest, key=made.key).problems == []
    script.check(made.honest)


@pytest.mark.parametrize("row", EDITS)
def test_each_edit_is_refused_or_named(
    made: SimpleNamespace, script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, row: str
) -> None:
    out = tmp_path / "out"
    shutil.copytree(made.honest, out)
    EDITS[row](out, made)
    if row in REDONE:
        redo(out)
    without, with_key, tool = ROWS[row]
    verdict = verify(out)
    if without.startswith("refused: "):
        assert any(without.removeprefix("refused: ") in problem for problem in verdict.problems), verdict.problems
        with pytest.raises(RequestError, match="must not be released"):
            release(out, tmp_path / "again")
        if row != "the date of the signature":  # a signature that does not hold may be replaced
            with pytest.raises(RequestError, match="is not signed: "):
                sign(out, key=made.around / "me", force=True)
    else:
        assert verdict.problems == []
        name = without.removeprefix("not checked: ")
        assert any(each.startswith(name) for each in verdict.not_checked), verdict.not_checked
    assert with_key == "refused"
    assert not verify(out, key=made.key).ok
    if tool != "-":
        try:
            script.check(out)
            found = "confirmed"
        except Exception:  # whatever it is, it is not confirmed
            found = "refused"
        assert found == tool


# ---------------------------------------------------------------------- forgeries that only a replay refuses


def with_model(out: Path, tensors: dict[str, torch.Tensor]) -> None:
    """A model with other numbers, and the samples that it draws."""
    save(out, tensors)
    draw_samples(out)


def row_in_weights(out: Path, _: SimpleNamespace) -> None:
    """A record, as small numbers, in place of the end of a tensor."""
    row = torch.from_numpy(read("digits", Reading(shape=(1, 28, 28)), split="train").images[0].astype(np.float32))
    name, tensor = max(load_file(out / MODEL).items(), key=lambda item: item[1].numel())
    flat = tensor.flatten().clone()
    flat[-row.numel() :] = row.flatten().to(flat) * 1e-3
    with_model(out, {name: flat.view(tensor.shape)})


def last_digit(out: Path, _: SimpleNamespace) -> None:
    """The last bit of one number of the model."""
    name, tensor = next(
        (n, t) for n, t in load_file(out / MODEL).items() if t.is_floating_point() and t.abs().max() > 0
    )
    flat = tensor.flatten().clone()
    flat[-1] = torch.nextafter(flat[-1], torch.tensor(torch.inf).to(flat))
    with_model(out, {name: flat.view(tensor.shape)})


def answers(out: Path, change: Callable[[dict[str, torch.Tensor]], Any]) -> None:
    """Other answers."""
    tensors = load_file(out / ANSWERS)
    change(tensors)
    save_file(tensors, out / ANSWERS)


def leads_to(out: Path, given: Answers) -> None:
    """The model that these answers lead to."""
    state, _ = repeated(Synthesizer.load(out).job, given, {"seed": 0, "device": "cpu"})
    with_model(out, {name: value.contiguous() for name, value in state.released.state_dict().items()})


def one_record_more(out: Path, _: SimpleNamespace) -> None:
    """A model that knows one record more than the answers do."""
    ((values, deviation),) = read_answers(out / ANSWERS).parts
    more = values.clone()
    more[:9] += 1.0
    leads_to(out, Answers([(more, deviation)]))


def without_noise(out: Path, _: SimpleNamespace) -> None:
    """Answers that are whole numbers, as counts are, and the model that follows."""
    answers(out, lambda tensors: tensors.update(values=tensors["values"].round()))
    with mock.patch.object(noted, "_looks_noisy", return_value=True):
        leads_to(out, Answers.of(load_file(out / ANSWERS)))


def without_answers(out: Path, _: SimpleNamespace) -> None:
    (out / ANSWERS).unlink()
    sums = (out / SUMS).read_text().splitlines(keepends=True)
    (out / SUMS).write_text("".join(line for line in sums if ANSWERS not in line))
    write_page(out, json.loads((out / CERTIFICATE).read_text()), more=())


def edited(out: Path, at: int, by: float) -> None:
    answers(out, lambda tensors: tensors["values"].__setitem__(at, tensors["values"][at] + by))


REPLAYED: dict[str, tuple[Edit, str]] = {
    "model.safetensors of another run, with samples that it draws": (
        other_model_and_samples, "model.safetensors is not what answers.safetensors leads to",
    ),
    "model.safetensors with a record among its weights": (
        row_in_weights, "model.safetensors is not what answers.safetensors leads to",
    ),
    "model.safetensors of answers to one record more": (
        one_record_more, "model.safetensors is not what answers.safetensors leads to",
    ),
    "model.safetensors with another last digit": (last_digit, "with the same versions"),
    "samples.npz with one real record, and the certificate names another machine": (
        of_another_machine, "samples.npz is not what the replayed model draws",
    ),
    "settings, ledger and certificate of a run with more noise": (louder, "states noise of another width"),
    "answers.safetensors of another run": (
        lambda out, made: shutil.copy(made.loud / ANSWERS, out / ANSWERS), "states noise of another width",
    ),
    "answers.safetensors with one number moved": (
        lambda out, _: edited(out, 0, 64.0), "model.safetensors is not what answers.safetensors leads to",
    ),
    "answers.safetensors with digits that noise does not leave": (
        lambda out, _: edited(out, 0, 1e-9), "noise of its width does not leave",
    ),
    "answers.safetensors without noise, and the model that follows": (
        without_noise, "noise of its width does not leave",
    ),
    "answers.safetensors with an answer more": (
        lambda out, _: answers(out, lambda tensors: tensors.update(
            {name: each.repeat(2) for name, each in tensors.items()}
        )), "the run asks for fewer answers",
    ),
    "answers.safetensors with a number that is not finite": (
        lambda out, _: edited(out, 3, float("nan")), "is not finite",
    ),
    "answers.safetensors without a number": (
        lambda out, _: answers(out, lambda tensors: tensors.update(values=tensors["values"][:0])), "its sizes are not",
    ),
    "answers.safetensors with one more tensor": (
        lambda out, _: answers(out, lambda tensors: tensors.update(rows=torch.arange(3))), "it holds other tensors",
    ),
    "answers.safetensors is a pickle": (
        lambda out, _: torch.save({"values": torch.ones(3)}, out / ANSWERS), "holds something besides tensors",
    ),
    "answers.safetensors left out": (without_answers, "Either answers.safetensors is missing"),
}  # fmt: skip
"""By their rows: edits that a check without a replay accepts, and how a replay refuses them."""


def test_a_clean_release_is_replayed_bit_for_bit(made: SimpleNamespace) -> None:
    verdict = verify(made.honest, replay=True)
    assert verdict.problems == []
    count = len(load_file(made.honest / ANSWERS)["values"])
    assert any(f"Nothing in it goes beyond {count:,} noisy numbers" in note for note in verdict.notes)
    assert not any(line.startswith((MODEL, Samples.file)) for line in verdict.not_checked)
    (answers,) = (line for line in verdict.not_checked if line.startswith(ANSWERS))
    assert answers == f"{ANSWERS}: whether their noise is honest. For this, you rely on the signer."
    assert any("replay=True" in line for line in verify(made.honest).not_checked), (
        "it is told where it was not asked for"
    )
    assert verify(made.around / "honest", replay=True).ok, "a RUN too"


def test_the_table_of_replays_has_a_row_for_each_edit() -> None:
    table = PAGE.split("| what was edited, unsigned |")[1].split("\n\n")[0].splitlines()[2:]
    rows = {cells[1].strip(): cells[2].strip() for line in table if (cells := line.split("|"))}
    assert rows == {row: problem for row, (_, problem) in REPLAYED.items()}


@pytest.mark.parametrize("row", REPLAYED)
def test_a_replay_refuses_what_other_checks_accept(made: SimpleNamespace, tmp_path: Path, row: str) -> None:
    out = tmp_path / "out"
    shutil.copytree(made.honest, out)
    edit, problem = REPLAYED[row]
    edit(out, made)
    redo(out)
    assert verify(out).problems == []
    (found,) = verify(out, replay=True).problems
    assert problem in found


def test_a_run_without_a_guarantee_has_no_answers(made: SimpleNamespace) -> None:
    """They would be exact sums."""
    assert not (made.free / ANSWERS).exists()
    assert not (made.around / "free" / ANSWERS).exists()


def test_a_replay_makes_the_queries_of_the_ledger(made: SimpleNamespace) -> None:
    checked = check(made.honest)
    assert checked.ledger is not None
    other = PrivacyLedger(budget=10.0, delta=1e-4)
    other.reserve(checked.ledger.plan)
    checked = dataclasses.replace(checked, ledger=other)
    with pytest.raises(LedgerDamaged, match="other queries than the ledger records"):
        replayed(made.honest, Synthesizer.load(made.honest), checked, None)


def test_a_replay_takes_the_public_records_of_the_run_and_no_other(made: SimpleNamespace, tmp_path: Path) -> None:
    np.savez(
        tmp_path / "other.npz", images=np.arange(4 * 784, dtype=np.uint8).reshape(4, 1, 28, 28), labels=np.arange(4)
    )
    with pytest.raises(RequestError, match="must be the public records of the run"):
        verify(made.honest, replay=True, public=tmp_path / "other.npz")


@pytest.mark.parametrize(("moved", "same"), [(0.5e-5, True), (2e-5, False)])
def test_another_version_may_differ_by_rounding(
    made: SimpleNamespace, tmp_path: Path, moved: float, same: bool
) -> None:
    out = tmp_path / "out"
    shutil.copytree(made.honest, out)
    name, tensor = next(
        (n, t) for n, t in load_file(out / MODEL).items() if t.is_floating_point() and t.abs().max() > 0
    )
    flat = tensor.flatten().clone()
    flat[0] += moved * flat.abs().max()
    with_model(out, {name: flat.view(tensor.shape)})
    certify(out, "versions", "torch", to="9.9")
    redo(out)
    verdict = verify(out, replay=True)
    assert verdict.ok == same
    if same:
        assert any("Later digits are not checked" in note for note in verdict.notes)
        assert any(line.startswith(f"{MODEL}: whether it came from") for line in verdict.not_checked)


def test_a_release_without_its_readme_or_its_loader_is_refused(made: SimpleNamespace, tmp_path: Path) -> None:
    for name in (README, LOADER):
        out = tmp_path / name
        shutil.copytree(made.honest, out)
        (out / name).unlink()
        lines = (out / SUMS).read_text().splitlines(keepends=True)
        (out / SUMS).write_text("".join(line for line in lines if not line.endswith(f"  {name}\n")))
        redo(out)
        page = "README.md is missing, or not the page that the certificate leads to."
        assert verify(out).problems == [page if name == README else "load.py is missing."]


def test_samples_that_cannot_be_counted_are_refused(made: SimpleNamespace, tmp_path: Path) -> None:
    out = tmp_path / "out"
    shutil.copytree(made.honest, out)
    (out / Samples.file).write_bytes(b"no archive")
    redo(out)
    assert verify(out).problems == ["samples.npz does not hold samples."]


def test_files_beside_a_run_are_named(made: SimpleNamespace, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(made.around / "honest", run)
    (run / "READ ME.txt").write_text("epsilon 0.010")
    verdict = verify(run)
    assert "'READ ME.txt' is not part of the run: nothing here speaks for it." in verdict.notes
    assert not any(each.startswith((README, LOADER)) for each in verdict.not_checked)
    (run / "Readme.md").write_text("epsilon 0.010")
    (problem,) = verify(run).problems
    assert problem == (
        "SHA256SUMS is missing: Readme.md says that this is a release, whose files it names. If it is a RUN, move Readme.md "
        "elsewhere."
    )


def test_a_run_may_cost_more_together_and_no_less(made: SimpleNamespace, tmp_path: Path) -> None:
    """Accountants step by finite widths, so that a sum may be 0.1 % below; at another delta nothing is compared."""
    alone = Certificate.load(made.honest).guarantee["epsilon"]
    for epsilon, delta, right in ((2 * alone, 1e-4, True), (0.9995 * alone, 1e-4, True), (0.99 * alone, 1e-4, False),
                                  (2 * alone, 1e-3, False)):  # fmt: skip
        out = tmp_path / f"{epsilon} {delta}"
        shutil.copytree(made.honest, out)
        settings = json.loads((out / CONFIG).read_text())
        settings["accounts"]["together"] |= {"epsilon": epsilon, "delta": delta}
        everything(out, settings)
        redo(out)
        assert verify(out).ok == right
