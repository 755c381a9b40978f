"""`gossamer audit`: a lower bound on epsilon, measured through a method's own loop, next to its claim.

Loop, sampling, clipping, noise and ledger are those of a run, on small nets (`canary_trials.py`). `canary_confined.py` inserts
canaries and keeps what their queries return. The attacker knows every record but the canary, and sees every noisy query, or
with `final` the released model alone. A bound above the claim refutes it. A bound below proves nothing.
"""

import dataclasses
import json
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from gossamer.attacks import audit as bounds
from gossamer.attacks.arrays import Scores
from gossamer.errors import RequestError
from gossamer.events import Sink, silent
from gossamer.files import write_atomically
from gossamer.methods import method_of
from gossamer.privacy.certificate.certificate import Certificate
from gossamer.privacy.guarantee import in_full, rounded_up
from gossamer.run.auditing import canary_trials
from gossamer.run.auditing.canary_trials import Observations, ReleaseProfile, TrialRunner
from gossamer.run.release.verify import is_release
from gossamer.run.report.audit_record import CONSISTENT, LOW_VALUE, REFUTED
from gossamer.run.report.html import write_report
from gossamer.run.storage.run_folder import AUDIT, RunFolder, today
from gossamer.run.training.plan import method_named, plan
from gossamer.run.validation import checked_arguments

_RATES = {"gradients": 0.25, "terms": 0.5}
"""Sampling rate of the small runs, or of a group, by the kind of canary, unless --expected-batch-size says another."""
_Errors: TypeAlias = bounds.AuditErrors | bounds.MeanError
_FINAL = 500
"""Models with the canary, and about as many without, where only models are looked at."""


@dataclass(frozen=True, kw_only=True)
class AuditBound:
    """The best bound of several statistics.

    Args:
        lower_bound: on epsilon, if the noisy queries are of the declared kind, with any noise.
        counted: lower bound from the two errors alone, for any mechanism.
        noise_at_most: the most that the errors allow.
        statistic: which one gave the bound.
    """

    lower_bound: float
    counted: float
    noise_at_most: float
    statistic: str


@dataclass(frozen=True, kw_only=True)
class AuditReport(AuditBound):
    """The result of an audit.

    Args:
        claim: epsilon of the run, as a certificate would print it.
        delta: of both bounds, like the confidence.
        trials: number of canaries that took part.
        without: number of canaries that did not.
        releases: number of noisy queries in one trial.
        sampling_rate: of each noisy query.
        noise_multiplier: declared by the loop.
        canary: what the attacker looked for.
        settings: of the small runs.
    """

    method: str
    claim: float
    delta: float
    confidence: float
    trials: int
    without: int
    releases: int
    sampling_rate: float
    noise_multiplier: float
    seconds: float
    canary: str
    settings: Mapping[str, Any]

    @property
    def verdict(self) -> str:
        """Whether the bound is above the claim: "REFUTED", or else "consistent"."""
        return REFUTED if max(self.lower_bound, self.counted) > self.claim else CONSISTENT

    def to_json(self) -> dict[str, Any]:
        """With the verdict; infinity as the string "inf"."""
        fields = {**dataclasses.asdict(self), "verdict": self.verdict, "note": LOW_VALUE}
        return {
            name: "inf" if isinstance(value, float) and math.isinf(value) else value for name, value in fields.items()
        }


@checked_arguments
def audit(  # noqa: PLR0913 (its arguments are the options of a command)
    method: str,
    *,
    epsilon: float,
    delta: float = 1e-5,
    settings: Mapping[str, Any] | None = None,
    trials: int | None = None,
    confidence: float = bounds.CONFIDENCE,
    final: bool = False,
    jobs: int = 1,
    seed: int = 0,
    sink: Sink = silent,
    noise_seed: int | None = None,
) -> AuditReport:
    """Measure a lower bound on a method's epsilon through its own loop on small nets, next to its claim.

    Args:
        method: a key of METHODS.
        epsilon: the epsilon that the method claims.
        delta: the delta of the claim, and of the lower bound.
        settings: fields of its Config, instead of the small ones.
        trials: number of canaries that take part; about as many do not. Default: 500 to 180,000, by method and epsilon.
        confidence: probability that the lower bound is right, from 0 to 1.
        final: show the attacker the released model only, without noisy queries. The lower bound is then usually much
            lower.
        jobs: number of processes for trials with one canary each.
        seed: number that fixes initial weights and public random choices. Noise and sampling stay random.
        sink: receives the progress.
        noise_seed: for tests: fixes noise and random choices too.

    Raises:
        RequestError: if the method promises nothing, or the settings are impossible.
    """
    chosen_method = method_named(method)
    method = chosen_method.name
    if chosen_method.without_guarantee or math.isinf(epsilon):
        raise RequestError(
            f"{method} claims nothing, so there is nothing to refute: its epsilon is infinity. Use `gossamer.attack` instead."
        )
    given = {name: value for name, value in (settings or {}).items() if value is not None}
    if chosen_method.trial is None:
        raise RequestError(
            f"{method} declares no trial, so it cannot be audited. Its author adds one, and tests it with gossamer.testing. "
            "To attack what it releases, use `gossamer.attack`."
        )
    trial = chosen_method.trial.given(given)
    if final and not trial.one_size:
        raise RequestError(
            f"{method} releases a model of another size in each run, and `final` compares weights: leave it out."
        )
    if final and trial.settings.get("bands", 1) != 1:
        raise RequestError("`final` looks at runs without the canary, whose groups would not last: leave `bands` out.")
    kind, began = trial.canary, time.monotonic()
    trials = trials or (_FINAL if final else canary_trials.usual_canaries(trial, epsilon))
    in_a_run = 1
    if kind == "gradients" and not final:  # delta is below 1 / declared size
        in_a_run = min(trials, canary_trials.CANARIES_IN_A_RUN, int(0.9 / delta) - canary_trials.ORDINARY)
    card, merged = canary_trials.card_of(trial, in_a_run), dict(trial.settings)
    rate = _RATES.get(kind, 1.0) / int(merged.get("bands", 1))
    if "expected_batch_size" in {field.name for field in dataclasses.fields(chosen_method.config_type)}:
        merged.setdefault("expected_batch_size", max(1, round(rate * card.declared_size)))
    request = plan(method, card, merged, epsilon=epsilon, delta=delta)
    runner = TrialRunner(request.job, delta, seed, noise_seed)
    if final:
        declared, members, others = runner.models(trials, sink)
        errors = {"weights of the model": _errors(members, others, confidence)}
        bound, counts = _best_bound(errors, declared, delta), [len(members), len(others)]
    else:
        inside, outside = runner.observations(trials, jobs, sink)
        declared, counts = inside.declared, [inside.x.shape[1], outside.x.shape[1]]
        bound = lower_bound(inside, outside, delta=delta, confidence=confidence)
    return AuditReport(
        method=method,
        claim=float(rounded_up(request.promise.epsilon)),
        **dataclasses.asdict(bound),
        delta=delta,
        confidence=confidence,
        trials=counts[0],
        without=counts[1],
        releases=declared.count,
        sampling_rate=declared.rate,
        noise_multiplier=declared.noise,
        seconds=time.monotonic() - began,
        canary=trial.about or canary_trials.ABOUT[kind],
        settings=request.job.settings,
    )


def lower_bound(inside: Observations, outside: Observations, *, delta: float, confidence: float) -> AuditBound:
    """Return the best bound of two statistics: the exact one, and one for noise that is drawn once and used again.

    The first gets 19/20 of the failure probability. Each chooses its threshold on a fifth of the trials. Where all queries are
    over all records, the exact one has mirror images with the canary and without. So its threshold is 0, and both of its errors
    are counted together.
    """
    declared, wrong = inside.declared, 1 - confidence
    exact, level = (inside.ratio, outside.ratio), 1 - 0.95 * wrong
    errors: dict[str, _Errors] = {
        "log-likelihood ratio": bounds.mean_error_at(*exact, 0.0, confidence=level)
        if declared.rate == 1
        else _errors(*exact, level)
    }
    if declared.count > 1:
        errors["spread of the releases"] = _errors(inside.spread, outside.spread, 1 - 0.05 * wrong)
    return _best_bound(errors, declared, delta)


def _errors(inside: Scores, outside: Scores, confidence: float) -> bounds.AuditErrors:
    """Return the errors at a threshold that a part of the scores has chosen."""
    threshold, with_canary, without = bounds.split(inside, outside)
    return bounds.errors_at(with_canary, without, threshold, confidence=confidence)


def _best_bound(errors: Mapping[str, _Errors], declared: ReleaseProfile, delta: float) -> AuditBound:
    """Return the best bound of statistics, from the errors of each."""

    def of(statistic: str) -> AuditBound:
        noise = bounds.most_noise(errors[statistic], declared.profile, claimed=declared.noise)
        epsilon = 0.0 if math.isinf(noise) else declared.epsilon(noise, delta)
        counted = errors[statistic].epsilon(delta)
        return AuditBound(lower_bound=epsilon, counted=counted, noise_at_most=noise, statistic=statistic)

    return max(map(of, errors), key=lambda bound: (bound.lower_bound, bound.counted))


@checked_arguments
def audit_run(run: str | Path, *, trials: int | None = None, seed: int = 0, sink: Sink = silent) -> AuditReport:
    """Audit the method of a finished RUN at the run's epsilon and delta, and write RUN/audit.json for its report.

    The audit runs the method's own loop on small nets, with the run's settings for noise (`TrialConfig.of_a_run`). It
    reads no record of the run.

    Args:
        run: a finished RUN.
        trials: see `run.auditing.audit.audit`.
        seed: see `run.auditing.audit.audit`.
        sink: receives the progress.

    Raises:
        RunFolderError: if it is no finished run, or another run replaced it meanwhile.
        RequestError: if it is a release, or its epsilon is infinity.
    """
    folder = RunFolder(Path(run))
    folder.check_finished()
    unchanged = folder.unchanged()
    certificate = Certificate.load(folder.path)
    if is_release(folder.path):
        raise RequestError(f"{folder.path} is a release, which holds what it was made with: audit its RUN.")
    epsilon, delta = (float(certificate.guarantee[name]) for name in ("epsilon", "delta"))
    method = method_of(certificate.method, folder=folder.path)
    of_a_run = () if method.trial is None else method.trial.of_a_run
    run_settings = {name: certificate.config[name] for name in of_a_run if name in certificate.config}
    report = audit(
        method.name, epsilon=epsilon, delta=delta, settings=run_settings, trials=trials, seed=seed, sink=sink
    )
    unchanged()
    write_atomically(folder.file(AUDIT), json.dumps({**report.to_json(), "date": today()}, indent=2) + "\n")
    write_report(folder.path, internal=True)
    return report


def lines(report: AuditReport) -> list[str]:
    """The result in words, for the terminal."""
    share = report.lower_bound / report.claim
    counted = f"{report.counted:.3f} from the counted errors alone"
    return [
        f"{report.method}: claims epsilon {report.claim:g} at delta {in_full(report.delta)}",
        f"lower bound  {report.lower_bound:.3f} ({share:.0%} of the claim) at {report.confidence:.0%} confidence; {counted}",
        f"attacker     {report.canary}; {report.statistic}",
        f"trials       {report.trials:,} with a canary and {report.without:,} without, {report.releases:,} releases each, rate "
        f"{report.sampling_rate:.4g}, noise multiplier {report.noise_multiplier:.4g} (at most {report.noise_at_most:.4g} is "
        "left by what was seen)",
        f"cost         {report.seconds:.0f} s",
        f"verdict      {report.verdict}",
        LOW_VALUE,
    ]
