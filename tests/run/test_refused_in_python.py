"""Wrong calls of a data owner from Python: one paragraph that names arguments and calls, and no flags or commands."""

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gossamer
from gossamer.errors import Interrupted, RequestError
from gossamer.methods import DPGAN, DPMEPF, DPWGAN, GSWGAN, Evolve, Moments, PrivAE, PrivGAN, Teacher

CARD = gossamer.DataCard(shape=(1, 28, 28), classes=2, declared_size=160)
PEOPLE = dataclasses.replace(CARD, unit="person")
RECORDS = np.random.default_rng(0).integers(0, 256, (160, 28, 28), dtype=np.uint8), np.arange(160) % 2
BUDGET: dict[str, Any] = {"epsilon": 10.0, "delta": 1e-4}


def fit(config: Any = "moments", **changed: Any) -> object:
    return gossamer.fit(config, **{"data": RECORDS, "card": CARD, "out": "out", **BUDGET, **changed})


def plan(config: Any = "moments", **changed: Any) -> object:
    return gossamer.plan(config, CARD, **{**BUDGET, **changed})


def stopped() -> Path:
    """A run that has reserved its budget, and was stopped before its end."""

    def stop(event: Any) -> None:
        if event.kind == "step" and event.step == 3:
            raise Interrupted("stopped")

    with pytest.raises(Interrupted):
        fit(
            DPGAN(steps=9, width=4, latent_size=8, expected_batch_size=16),
            out="stopped",
            process=gossamer.Process(sink=stop),
        )
    return Path("stopped")


CALLS_REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    # fit
    "no such method": (lambda: fit("dpgam"), "there is no method 'dpgam'. Did you mean 'dpgan'?"),
    "misspelt argument": (lambda: fit(eps=3), "fit has no argument 'eps'. Did you mean 'epsilon'?"),
    "misspelt setting": (lambda: fit(axs=3), "moments has no setting 'axs'. Did you mean 'axes'?"),
    "no card": (lambda: fit(card=None), "card is missing. Draft one with gossamer.draft_card(data)"),
    "a card that is not there": (lambda: fit(card="card.toml"), "`gossamer.draft_card(DATA)` drafts one"),
    "text for epsilon": (lambda: fit(epsilon="10"), "`epsilon` must be a number or None, not of type str"),
    "a share of all": (lambda: fit(public=1.0), "`public=SHARE` must lie between 0 and 1"),
    "a key that a source has": (
        lambda: fit(images_key="x"),
        "fit has no argument 'images_key'. Pass data=gossamer.Source(data, images_key=...).",
    ),
    "a key of public records": (
        lambda: fit(public_labels_key="y"),
        "fit has no argument 'public_labels_key'. Pass public=gossamer.Source(public, labels_key=...).",
    ),
    "what the process has": (lambda: fit(sink=print), "Pass process=gossamer.Process(sink=...)."),
    "public records that help nothing": (
        lambda: fit(PrivGAN(batch_size=16), public="digits", epsilon=None, delta=None),
        "leave `public` and `public=SHARE` out",
    ),
    "public records are missing": (
        lambda: fit(DPMEPF()),
        "give `public`, or `public=SHARE`, or `start=evolve` or `start=moments`",
    ),
    "no such device": (lambda: fit(device="cudo"), "`device=cudo` cannot be used on this machine"),
    "no ids": (lambda: fit(card=PEOPLE), "Give `units`: a FILE.csv"),
    "records that are not there": (lambda: fit(data="mnist"), "mnist"),
    "the same records": (
        lambda: fit(Moments(axes=4), data="digits", card=dataclasses.replace(CARD, classes=10), public="digits"),
        "`public` and `data` name the same records",
    ),
    "a key that is not there": (
        lambda: fit(data=gossamer.Source("keyed.npz", labels_key="who")),
        "Name another with `images_key` or `labels_key`",
    ),
    "a folder that is taken": (
        lambda: (Path("out").mkdir(), Path("out/notes").touch(), fit()),
        "Choose another `out`.",
    ),
    "an unfinished run": (
        lambda: (stopped(), fit(out="stopped")),
        "`gossamer.resume('stopped')`, choose another `out`, or delete the run with `gossamer.discard('stopped')`.",
    ),
    # plan
    "no budget": (
        lambda: plan(epsilon=None),
        "give `epsilon` (the budget) or `noise_multiplier`; together with `delta` they",
    ),
    "no delta": (lambda: plan(delta=None), "`delta` is missing."),
    "a large delta": (lambda: plan(delta=0.5), "`delta=0.5` is not below 1 / 160"),
    "epsilon of nothing": (lambda: plan(epsilon=0), "`epsilon` must be above 0, not 0"),
    "a budget for no guarantee": (lambda: plan(PrivGAN()), "so it takes no `epsilon` or `delta`"),
    "three that contradict": (lambda: plan(DPGAN(noise_multiplier=1.0, steps=40)), "Drop one of the three"),
    "two that contradict": (
        lambda: plan(Moments(noise_multiplier=1.0)),
        "moments has no steps that could follow from both `epsilon` and `noise_multiplier`",
    ),
    "a batch of more": (
        lambda: plan(DPGAN(expected_batch_size=1_000)),
        "`expected_batch_size=1,000` is more than the declared size 160.",
    ),
    "a wrong type": (
        lambda: plan(DPGAN(steps="3")),
        "`steps` must be a whole number, not of type str: leave out the quotes.",
    ),  # type: ignore[arg-type]
    "no such choice": (lambda: plan(PrivAE(divergence="hellinger")), "`divergence` must be one of none, mmd, kl."),  # type: ignore[arg-type]  # the wrong choice is what is tried
    "settings that contradict": (lambda: plan(PrivAE(aggregation="micro")), "give `divergence=mmd` or kl."),
    "settings of another choice": (
        lambda: plan(DPWGAN(groups=3)),
        "`groups=3` goes with `grouping=cluster`, not none.",
    ),
    "visits of another draw": (
        lambda: plan(GSWGAN(draw="paper", visits=2)),
        "`visits=2` goes with `draw=secret` alone.",
    ),
    "a start without its name": (
        lambda: plan(DPGAN(start={"axes": 4})),
        "'' is no start.",
    ),
    "a momentum of one": (lambda: plan(Teacher(momentum=1.0)), "`momentum` must be below 1, not 1."),
    "drawn digits": (lambda: plan(Evolve()), "`drawing=digits` draws the digits 0 to 9, and the card has 2 classes."),
    "no such preset": (lambda: plan("evolve", preset="papr"), "evolve has no preset 'papr'."),
    # a stopped run, and what is none
    "resume nothing": (lambda: gossamer.resume("out"), "out"),
    "resume without the records": (lambda: gossamer.resume(stopped()), "data"),
    "resume with others": (lambda: gossamer.resume(stopped(), data=(RECORDS[0][::-1], RECORDS[1])), ""),
    "load a stopped run": (lambda: gossamer.Synthesizer.load(stopped()), "`gossamer.resume` finishes it."),
    "verify a stopped run": (lambda: gossamer.verify(stopped()), "`gossamer.resume('stopped')` finishes it."),
    "release a stopped run": (lambda: gossamer.release(stopped(), "release"), "stopped"),
    "evaluate a stopped run": (
        lambda: gossamer.evaluate(stopped(), train=RECORDS, test=RECORDS),
        "`gossamer.resume('stopped')` finishes it.",
    ),
    "attack a stopped run": (
        lambda: gossamer.attack(stopped(), members=RECORDS, nonmembers=RECORDS),
        "`gossamer.resume",
    ),
    "verify nothing": (lambda: gossamer.verify("out"), "out is not a folder. Give a finished RUN or a release."),
    "discard nothing": (lambda: gossamer.discard("out"), "out"),
    # data and budgets
    "a side without records": (
        lambda: gossamer.split(RECORDS, out="split.npz", share=2.0),
        "`share` must lie between 0 and 1",
    ),
    "read nothing": (lambda: gossamer.read("mnist", split="train"), "mnist"),
    "draft of nothing": (lambda: gossamer.draft_card("mnist"), "mnist"),
    "half a limit": (
        lambda: gossamer.budget("eyes", epsilon=3.0),
        "a limit is `epsilon` and `delta` together, for example `epsilon=10` and `delta=1e-5`.",
    ),
    "no such data set": (lambda: gossamer.budget("eyes"), "give `card`."),
    "a looser limit": (
        lambda: [gossamer.budget("eyes", epsilon=e, delta=1e-5) for e in (1.0, 2.0)],
        "a looser one needs `force=True`.",
    ),
    "over the limit": (
        lambda: (
            gossamer.budget("eyes", epsilon=1.0, delta=1e-4),
            fit(card=dataclasses.replace(CARD, data_set="eyes")),
        ),
        "raise the limit: `gossamer.budget('eyes', epsilon=E, delta=D, force=True)`.",
    ),
    "advice for nothing": (
        lambda: gossamer.recommend(CARD, epsilon=1e-9, delta=1e-5),
        "`epsilon=1e-09` is too little for any advice",
    ),
}


@pytest.mark.parametrize("name", CALLS_REFUSED)
def test_a_wrong_call_is_answered_in_terms_of_python(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call, says = CALLS_REFUSED[name]
    monkeypatch.chdir(tmp_path)
    np.savez("keyed.npz", images=RECORDS[0], labels=RECORDS[1])
    with pytest.raises(RequestError) as refused:
        call()
    text = str(refused.value)
    assert says in text
    is_in_terms_of_python(text)
    assert refused.value.__cause__ is None
    assert refused.value.__context__ is None or refused.value.__suppress_context__, "a second traceback"


def is_in_terms_of_python(text: str) -> None:
    assert not re.search(r"(?<!\w)--\w", text), text
    assert "\n" not in text and "Traceback" not in text
    commands = re.findall(r"`gossamer (\w+)", text)
    assert not set(commands) & set(dir(gossamer)), text


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda run, _: gossamer.release(run, run), ""),
        (lambda run, at: ((at / "notes").touch(), gossamer.release(run, at)), "replace it with `force=True`."),
        (lambda run, at: gossamer.release(run, at, samples=-1), "samples"),
        (lambda run, at: gossamer.sign(run, key=at / "key"), "key"),
        (lambda run, _: gossamer.verify(run, key=__file__), "`key` takes the PEM file of a public key"),
        (lambda run, _: gossamer.attack(run, members=RECORDS, nonmembers=RECORDS), "`nonmembers`: all of these records are"),
        (lambda run, _: gossamer.evaluate(run, train=RECORDS, test=RECORDS, metrics="acuracy"), "acuracy"),
        (lambda run, _: gossamer.evaluate(run, train=RECORDS, test=RECORDS, card="card.toml"), "Leave it out."),
        (lambda run, _: gossamer.Synthesizer.load(run).sample(-1), "n must be a whole number"),
        (lambda run, _: gossamer.Synthesizer.load(run).sample(2, labels=[0]), "labels must be 2 whole numbers"),
        (lambda run, _: gossamer.Synthesizer.load(run).sample(10**12), "Take them in pieces, with `stream`."),
        (lambda run, at: [gossamer.Synthesizer.load(run).sample(1).save(at / "s.npz") for _ in "ab"], "give `force=True`"),
        (lambda run, _: gossamer.discard(run), "finished"),
    ],
)  # fmt: skip
def test_the_same_of_a_finished_run(
    call: Callable[[Path, Path], object], says: str, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "at").mkdir()
    with pytest.raises(RequestError) as refused:
        call(made, tmp_path / "at")
    assert says in str(refused.value)
    is_in_terms_of_python(str(refused.value))


@pytest.mark.parametrize(
    "call", [lambda: gossamer.fit("moments"), lambda: gossamer.attack("run"), lambda: gossamer.fit()]
)  # type: ignore[call-arg]
def test_a_missing_argument_is_named(call: Callable[[], object]) -> None:
    with pytest.raises(TypeError, match=r"missing a required.* argument"):
        call()
