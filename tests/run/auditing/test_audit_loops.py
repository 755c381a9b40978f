"""Every method under audit: its own loop, and what its canaries show along their directions; the command."""

import dataclasses
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from torch import Tensor, nn
from torch.nn import functional as F

from gossamer import plugins
from gossamer.attacks import audit as bounds
from gossamer.data.card import DataCard
from gossamer.errors import RequestError
from gossamer.methods import METHODS
from gossamer.methods.gs_wgan import GsWgan
from gossamer.methods.job import Job
from gossamer.methods.privae import Privae
from gossamer.privacy.certificate.certificate import Certificate
from gossamer.run.auditing import audit as auditing
from gossamer.run.auditing.audit import AuditReport, audit, audit_run, lines
from gossamer.run.auditing.canary_confined import steered
from gossamer.run.auditing.canary_trials import TrialRunner, card_of
from gossamer.run.cli.main import cli
from gossamer.run.release.release import release
from gossamer.run.release.verify import verify
from gossamer.run.report.audit_record import CONSISTENT, LOW_VALUE, REFUTED
from gossamer.run.storage.run_folder import AUDIT


def test_every_method_that_claims_something_is_audited() -> None:
    assert all((method.trial is None) == bool(method.without_guarantee) for method in METHODS.values())


WITH_SETTINGS: dict[str, tuple[str, dict[str, Any]]] = {
    **{method: (method, {}) for method, each in METHODS.items() if each.trial is not None},
    "votes for clusters of pictures": ("evolve", {"drawing": "pictures", "clusters": 4}),
    "moments of features of an encoder": ("feature-moments", {"encoder": "blocks"}),
    "moments of latents": ("moments", {"autoencoder": "halved"}),
}


class Halved(nn.Module):
    """An autoencoder: means of 2x2 pixels, and back."""

    def encode(self, pictures: Tensor) -> Tensor:
        return F.avg_pool2d(pictures.float(), 2) / 64

    def decode(self, latents: Tensor) -> Tensor:
        return F.interpolate(latents * 64, scale_factor=2.0).round().clamp(0, 255).byte()


@pytest.fixture
def plug_ins() -> Iterator[None]:
    """An encoder, the mean of each block of a picture, of four on a side; and an autoencoder."""
    plugins.add("encoder", "blocks", lambda batch: F.adaptive_avg_pool2d(batch.float(), 4).flatten(1))
    plugins.add("autoencoder", "halved", Halved())
    yield
    plugins.remove("encoder", "blocks")
    plugins.remove("autoencoder", "halved")


@pytest.mark.usefixtures("plug_ins")
@pytest.mark.parametrize("case", WITH_SETTINGS)
def test_a_canary_adds_one_among_the_declared_noise(case: str) -> None:
    """Noise of a tenth at most, so that few trials show it: 1 at the rate of its draws where the canary is, 0 where it is not.

    Means within five standard errors, noise within five of its own; chances of 6e-7 each, and the seeds are fixed.
    """
    method, more = WITH_SETTINGS[case]
    small = METHODS[method].trial
    assert small is not None
    many = small.canary == "gradients"
    trials = 200 if many else 12
    card = card_of(small, trials if many else 1)
    faint = small.canary in ("row", "record")  # adds less than 1, or its query has a part of the budget
    noise = 0.02 if faint else 0.1
    settings = {**small.settings, "noise_multiplier": noise, **more}
    if many or small.canary == "terms":
        settings["expected_batch_size"] = card.declared_size // 2
    runs = TrialRunner(Job.of(METHODS[method], settings, card), 1e-5, seed=0, noise_seed=1)
    inside, outside = runs.observations(trials)
    rate, steps = inside.declared.rate, inside.declared.count
    assert inside.x.shape[0] == outside.x.shape[0] == steps
    assert inside.x.shape[1] + outside.x.shape[1] == 2 * trials
    releasing = [phase.steps for phase in Job.of(METHODS[method], settings, card).phases if phase.releases]
    assert steps == sum(releasing) * settings.get("answers", 1)
    drawn = (inside.x > 0.5).mean()
    assert drawn == pytest.approx(rate, abs=5 * (rate * (1 - rate) / inside.x.size) ** 0.5 + 1e-9)
    rest = np.concatenate([np.where(inside.x > 0.5, inside.x - 1, inside.x), outside.x], axis=1) / inside.noise[:, None]
    assert rest.mean() == pytest.approx(0, abs=0.02 + 5 / rest.size**0.5)
    assert rest.std() == pytest.approx(1, rel=0.02 + 5 / (2 * rest.size) ** 0.5)


@pytest.mark.parametrize(("draw", "answers", "own"), [("round_robin", 2, 3), ("paper", 1, 6)])
def test_where_everyone_knows_who_answers_the_canary_s_critic_alone_is_listened_to(
    draw: str, answers: int, own: int
) -> None:
    """Noise of a hundredth: 1 with the canary and 0 without in its critic's answers, 1/2 kept for those of others.

    6 answers of 2 critics: 3 of each in turns; by lot 6, of which half are the canary's, within five standard errors.
    """
    card = DataCard(shape=(1, 28, 28), classes=2, declared_size=61)
    settings = {**GsWgan.trial.settings, "noise_multiplier": 0.01, "draw": draw, "answers": answers}
    job = Job.of(METHODS["gs-wgan"], {**settings, "steps": 6 // answers}, card)
    runs = TrialRunner(job, 1e-5, seed=0, noise_seed=1)
    inside, outside = runs.observations(10)
    assert inside.x.shape[0] == own
    says = inside.x != 0.5
    assert inside.x[says] == pytest.approx(1, abs=0.05)
    assert outside.x[outside.x != 0.5] == pytest.approx(0, abs=0.05)
    assert inside.revealed == (draw == "paper")
    assert says.mean() == (pytest.approx(0.5, abs=2.5 / says.size**0.5) if draw == "paper" else 1)
    expected = (
        bounds.poisson_gaussian_epsilon(0.5, 1.0, 6, 1e-5, revealed=True)
        if draw == "paper"
        else bounds.gaussian_epsilon(3**0.5, 1e-5)
    )
    assert inside.declared.epsilon(1.0, 1e-5) == pytest.approx(expected)


def test_a_coin_decides_before_each_trial_whether_the_canary_takes_part() -> None:
    """7 trials of two releases in one training, without noise to speak of: who is in is so for both releases of a trial."""
    card = DataCard(shape=(1, 2, 2), classes=2, declared_size=61)
    settings = {**Privae.trial.settings, "steps": 2, "noise_multiplier": 1e-3, "expected_batch_size": 61}
    runs = TrialRunner(Job.of(METHODS["privae"], settings, card), 1e-5, seed=0, noise_seed=3)
    inside, outside = runs.observations(7)
    assert inside.x.shape[1] == np.random.default_rng(3).random(14).__lt__(0.5).sum()
    assert inside.x.shape[0] == outside.x.shape[0] == 2
    assert inside.x == pytest.approx(1, abs=0.02)
    assert outside.x == pytest.approx(0, abs=0.02)


@pytest.mark.slow
def test_trials_are_dealt_to_processes_with_coins_and_noise_of_their_own() -> None:
    card = DataCard(shape=(1, 8, 8), classes=2, declared_size=61)
    runs = TrialRunner(
        Job.of(METHODS["moments"], {"axes": 4, "noise_multiplier": 1.0}, card), 1e-5, seed=0, noise_seed=1
    )
    inside, outside = runs.observations(20, 2)
    assert inside.x.shape[1] + outside.x.shape[1] == 40
    assert len(np.unique(np.concatenate([inside.x, outside.x], axis=1))) == 40
    assert dataclasses.astuple(inside.declared) == pytest.approx(dataclasses.astuple(outside.declared))


def test_a_steered_canary_pulls_at_the_network_s_own_weights() -> None:
    """Two groups: what goes along u is exchanged, group by group, and all else stays. In double precision."""
    own = torch.randn(2, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    pulls = torch.tensor([[3.0, -2.0], [0.5, 0.0]], dtype=torch.float64)
    found = steered(own, pulls, [2, 1, 3], [0, 1, 0])
    other = steered(own, pulls + 1, [2, 1, 3], [0, 1, 0])
    u = (other - found)[0]
    assert u[[0, 1, 3, 4, 5]].norm() == pytest.approx(1)
    assert abs(u[2]) == pytest.approx(1)
    assert found[:, 2].sum() * u[2] == pytest.approx(float(pulls[:, 1].sum()))
    first = torch.where(torch.arange(6) == 2, 0, u)
    assert (found @ first).tolist() == pytest.approx(pulls[:, 0].tolist(), abs=1e-6)
    rest = own - (own @ first)[:, None] * first
    assert (found - (found @ first)[:, None] * first)[:, [0, 1, 3, 4, 5]].numpy() == pytest.approx(
        rest[:, [0, 1, 3, 4, 5]].numpy(), abs=1e-6
    )


@pytest.mark.slow
def test_who_sees_the_model_alone_sees_less() -> None:
    """One plain step over all records, so that the weights are start and noise and the canary, in the batch-wise term mostly.

    About 120 models and as many releases on either side, fixed noise: at the least 8.5 and 15.9 where 20 is claimed.
    """
    settings = {"steps": 1, "optimiser": "sgd", "release_encoder": True, "expected_batch_size": 61}
    terms: dict[str, Any] = {"epsilon": 20.0, "trials": 120, "settings": settings, "noise_seed": 3}
    models, releases = audit("privae", final=True, **terms), audit("privae", **terms)
    assert models.statistic == "weights of the model"
    assert 0 < models.lower_bound < releases.lower_bound <= models.claim
    assert models.trials + models.without == 240


def test_an_audit_says_claim_and_bound_and_that_a_low_value_proves_nothing() -> None:
    found = audit("teacher", epsilon=6.0, trials=200, settings={"steps": 1, "expected_batch_size": 260}, noise_seed=3)
    assert 5.9 < found.claim <= 6.0
    assert 0 < found.lower_bound <= found.claim
    assert found.counted <= found.lower_bound
    assert found.verdict == CONSISTENT
    text = "\n".join(lines(found))
    assert "proves nothing" in text
    assert f"{found.lower_bound:.3f}" in text
    assert json.loads(json.dumps(found.to_json()))["verdict"] == CONSISTENT


def test_a_row_of_a_table_is_found_by_all_that_it_moves() -> None:
    """40 trials, fixed noise, two rounds that choose by noisy errors. All five queries together are the claim."""
    found = audit("marginals", epsilon=20.0, trials=20, settings={"rounds": 2}, noise_seed=3)
    assert 0.3 * found.claim < found.lower_bound <= found.claim
    assert (found.trials + found.without, found.releases, found.sampling_rate) == (40, 5, 1.0)
    declared = bounds.gaussian_epsilon(5**0.5 / found.noise_multiplier, 1e-5)
    assert declared == pytest.approx(found.claim, rel=1e-3)


def test_models_of_tables_cannot_be_compared_by_their_weights(gossamer: Callable[..., Any]) -> None:
    answer = gossamer("audit", "marginals", "--final")
    assert (answer.status, "--final compares weights: leave it out" in answer.err) == (2, True)


def test_either_bound_above_the_claim_refutes_it() -> None:
    terms = {
        "method": "m", "claim": 3.0, "delta": 1e-5, "confidence": 0.95, "trials": 100, "without": 100, "releases": 1,
        "sampling_rate": 1.0, "noise_multiplier": 1.0, "noise_at_most": 1.0, "seconds": 1.0, "canary": "c",
        "statistic": "s", "settings": {},
    }  # fmt: skip
    assert AuditReport(lower_bound=3.0, counted=2.0, **terms).verdict == CONSISTENT  # type: ignore[arg-type]  # a dict of mixed types
    assert AuditReport(lower_bound=3.1, counted=2.0, **terms).verdict == REFUTED  # type: ignore[arg-type]  # the same
    assert AuditReport(lower_bound=2.0, counted=3.1, **terms).verdict == REFUTED  # type: ignore[arg-type]  # the same


def test_a_method_without_a_claim_has_nothing_to_refute() -> None:
    answer = CliRunner().invoke(cli, ["audit", "privgan"])
    assert answer.exit_code != 0
    assert "claims nothing" in str(answer.exception)


@pytest.mark.parametrize(("bound", "status"), [(2.0, 0), (3.1, 1)])
def test_the_exit_status_is_1_where_a_claim_is_refuted(
    bound: float, status: int, monkeypatch: pytest.MonkeyPatch, gossamer: Callable[..., Any]
) -> None:
    found = {each.name: 3.0 for each in dataclasses.fields(AuditReport)} | {"lower_bound": bound, "counted": 0.0}
    found |= {"method": "m", "trials": 5, "without": 5, "releases": 1, "canary": "c", "statistic": "s", "settings": {}}
    monkeypatch.setattr(auditing, "audit", lambda *_, **__: AuditReport(**found))  # type: ignore[arg-type]  # a dict of mixed types
    assert gossamer("audit", "teacher").status == status
    assert gossamer("audit", "teacher", "--json").status == status


def test_an_audit_needs_a_method_or_a_run(gossamer: Callable[..., Any]) -> None:
    answer = gossamer("audit", "--trials", 100)
    assert answer.status == 2
    assert "--run RUN" in answer.err


def test_the_audit_of_a_run_goes_into_its_report_and_into_the_certificate_of_its_release(
    made: Path, tmp_path: Path, gossamer: Callable[..., Any]
) -> None:
    run = tmp_path / "run"
    shutil.copytree(made, run)
    assert gossamer("audit", "--run", run, "--trials", 100).status == 0
    found = json.loads((run / AUDIT).read_text())
    claimed = float(Certificate.load(run).guarantee["epsilon"])
    assert 0.98 * claimed < found["claim"] <= claimed + 5e-4
    said = [note for note in verify(run).notes if note.startswith("Audited on ")]
    assert len(said) == 1
    assert f"at least {found['lower_bound']:.2f}" in said[0]
    assert said[0].endswith(LOW_VALUE)
    assert said[0] in (run / "report.html").read_text(encoding="utf-8")
    out = release(run, tmp_path / "out")
    assert Certificate.load(out).declared["audited"] == said[0]
    assert said[0] in verify(out).notes
    assert said[0] in (out / "report.html").read_text(encoding="utf-8")
    assert said[0] in (out / "README.md").read_text(encoding="utf-8")
    assert not (out / AUDIT).exists()
    with pytest.raises(RequestError, match="audit its RUN"):
        audit_run(out)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            ["--run", "RUN", "moments", "--trials", "40"],
            "--run is written before moments. Leave moments out: the run has a method.",
        ),
        (["--trials", "40", "moments"], "--trials is written before moments. Write it after moments."),
        (["--run", "nope"], "nope is not a folder."),
        (["--run", "."], "holds neither a run nor a release"),
    ],
)
def test_an_audit_that_would_be_of_something_else_is_refused(
    gossamer: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    answer = gossamer("audit", *words)
    assert answer.status == 2, "1 is for a claim that is refuted"
    assert says in " ".join(answer.err.split())


def test_a_run_whose_claim_was_refuted_does_not_verify_and_is_not_released(made: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(made, run)
    found = {"date": "2026-11-22", "method": "dpgan", "claim": 3.0, "lower_bound": 4.0, "confidence": 0.95}
    (run / AUDIT).write_text(json.dumps({**found, "trials": 100, "without": 90, "verdict": REFUTED}))
    assert verify(run).problems == [f"{AUDIT}: the audit refutes the epsilon of this run."]
    with pytest.raises(RequestError, match="refutes the epsilon"):
        release(run, tmp_path / "out")
    (run / AUDIT).write_text("{")
    assert any(AUDIT in each and "gossamer audit --run" in each for each in verify(run).problems)
