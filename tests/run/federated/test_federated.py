"""Federated GS-WGAN: the same as the central loop, both guarantees, and what clients and the server refuse."""

import dataclasses
import json
import math
import os
import resource
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from inspect import signature
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch
from centrally import centrally
from dp_accounting import GaussianDpEvent
from scipy.stats import binom
from slowly import slow_among
from torch import Tensor

from gossamer.data.card import DataCard
from gossamer.data.fingerprint import NOBODY, identify
from gossamer.data.records import Records
from gossamer.data.source import Source
from gossamer.errors import CardError, DataError, Interrupted, RequestError, RunFolderError, TooFewClients
from gossamer.events import Event, note
from gossamer.files import LEDGER
from gossamer.methods.common.adversarial import Fakes
from gossamer.methods.gs_wgan import GsWgan
from gossamer.methods.job import Job
from gossamer.privacy.accounting import cost, federated
from gossamer.privacy.accounting.cost import smallest
from gossamer.privacy.budget_log import BudgetLog
from gossamer.privacy.certificate.certificate import Certificate, sha256
from gossamer.privacy.certificate.statements import NO_PUBLIC, NO_UNITS
from gossamer.privacy.ledger import PrivacyLedger
from gossamer.privacy.mechanisms.sanitized_rows import SanitizedRows
from gossamer.privacy.random import noise
from gossamer.privacy.random.noise import Rng
from gossamer.run.budget.entry import charge_of
from gossamer.run.federated import simulate as module_of_simulation
from gossamer.run.federated.centre import ask as train
from gossamer.run.federated.clients import SERVED, Clients, decide
from gossamer.run.federated.network import Local, Reply
from gossamer.run.federated.questions import (
    END,
    ROUND,
    TERMS,
    Answer,
    Malformed,
    NoReply,
    Question,
    Refused,
    Terms,
    digest,
    read,
    refusal,
    written,
)
from gossamer.run.federated.simulate import clients_of, simulate
from gossamer.run.federated.site import REFUSED, Site, _batches, _check_size
from gossamer.run.release import verify as module_of_verification
from gossamer.run.release.verify import verify
from gossamer.run.storage.data_sources import DataFacts, DataSources, RawData
from gossamer.run.storage.run_folder import RunFolder
from gossamer.run.training import checkpoint
from gossamer.run.training.progress import Process
from gossamer.run.training.resume import resume

K = 4
CARD = DataCard(shape=(1, 28, 28), classes=3, declared_size=K, unit="client")
TINY: dict[str, Any] = {
    "noise_multiplier": 1.0, "steps": 6, "batch_size": 4, "critic_steps": 2, "critic_batch_size": 6, "width": 2,
    "latent_size": 4, "warm_steps": 0, "generator": "dcgan", "visits": 2, "answers": 2,
}  # fmt: skip
NAMES = [f"client-{number}" for number in range(K)]
LOST = 1.8, 2.2
"""Bounds on the deviation of the noise in place of a lost answer: 2 with TINY, and 8 standard errors of 3,136 numbers."""


def records(seed: int, n: int = 10) -> Records:
    draw = np.random.default_rng(seed)
    return Records(draw.integers(0, 256, (n, 1, 28, 28)).astype(np.uint8), draw.integers(3, size=n))


class Heard(list[str]):
    """A sink that keeps the notes."""

    def __call__(self, event: Event) -> None:
        if event.kind == "note":
            self.append(str(event.values["text"]))


def client(folder: Path, number: int, held: Records | None = None, *, secret: bool = False, **named: Any) -> Site:
    """A client with a noise of its own that repeats, unless it is secret."""
    own = held or records(number)
    data = RawData(None, DataFacts(public=NO_PUBLIC, units=NO_UNITS, identity=identify(own)), own)
    given = {"card": CARD, "epsilon": math.inf, "delta": 1e-3, "accounts": False, **named}
    if not secret:
        given["rng"] = lambda seed: Rng(seed, noise_seed=number)
    return Site(folder=RunFolder(folder / NAMES[number]), sources=DataSources.of("d"), raw=data, **given)


def read_by(one: Site, read: Callable[..., object]) -> None:
    """Let a client read its records in this way."""
    one.raw, one.sources = None, cast(DataSources, SimpleNamespace(read=read))


@pytest.fixture
def four(tmp_path: Path) -> Iterator[list[Site]]:
    made = [client(tmp_path, number) for number in range(K)]
    yield made
    for one in made:
        one.close()


def grid_of(clients: Iterable[Site]) -> Local:
    return Local({one.folder.path.name: one.reply for one in clients})


def run(grid: Any, out: Path, *, secret: bool = False, **named: Any) -> Any:
    rng = None if secret else Rng(0, noise_seed=99)
    given: dict[str, Any] = {"accounts": False, "process": Process(rng=rng), **named}
    grid.reply_timeout, grid.wait = given.pop("reply_timeout", 20), given.pop("wait", 0.3)
    of_call = {name: given.pop(name) for name in [*given] if name in signature(train).parameters}
    return train(decide(CARD, **{**TINY, "delta": 1e-3, **given}), network=grid, out=out, **of_call)


def weights(synthesizer: Any) -> Tensor:
    return torch.cat([value.reshape(-1) for value in synthesizer.net.state_dict().values()])


# ---------------------------------------------------------------------- the same as the central loop

QUIET = {"noise_multiplier": 0.02}
"""So little noise that another critic would move the generator by more than the tolerance."""


@pytest.fixture(scope="module")
def off_the_grid() -> Iterator[None]:
    """Noise that is not rounded to its grid: on it, a last digit that differs can jump by a whole grid, 2^-10 of the noise."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(noise, "round_to_grid_", lambda values, _std: values)
        yield


@pytest.fixture(scope="module")
def central(off_the_grid: None) -> Tensor:
    """What the central loop trains on the same shards, with the same draws and the same noise."""
    return centrally([records(number) for number in range(K)], CARD, {**TINY, **QUIET})


def test_one_machine_gives_what_the_central_loop_gives(tmp_path: Path, four: list[Site], central: Tensor) -> None:
    """Tolerance: a critic is computed alone here and in a stack there, which moves the last digits."""
    found = weights(run(grid_of(four), tmp_path / "run", **QUIET))
    torch.testing.assert_close(found, central, rtol=0, atol=1e-5)
    untrained = weights(
        run(grid_of([client(tmp_path / "b", i) for i in range(K)]), tmp_path / "c", generator_learning_rate=1e-9)
    )
    assert (found - untrained).abs().max() > 1e-4  # it has moved by more than the tolerance forgives


BEGUN = {**TINY, **QUIET, "public_steps": 4, "warm_steps": 2, "warm_stack": K, "public_learning_rate": 1e-2}


def test_clients_begin_on_the_servers_public_records(tmp_path: Path, four: list[Site], off_the_grid: None) -> None:
    """And warm up on fakes of that generator, as a central run does; no message but the first carries weights."""
    shown = records(77, n=20)
    np.savez(tmp_path / "public.npz", images=shown.images[:, 0], labels=shown.labels)
    sent: list[Question] = []

    class Seen(Local):
        def exchange(self, texts: Mapping[str, str]) -> Iterator[tuple[str, Reply]]:
            sent.extend(read(Question, text) for text in texts.values())
            return super().exchange(texts)

    grid = Seen({one.folder.path.name: one.reply for one in four})
    made, held = run(grid, tmp_path / "run", public=tmp_path / "public.npz", **BEGUN), [records(i) for i in range(K)]
    torch.testing.assert_close(weights(made), centrally(held, CARD, BEGUN, shown), rtol=0, atol=1e-5)
    assert (weights(made) - centrally(held, CARD, BEGUN)).abs().max() > 1e-3  # without them it is another one
    weighty = {each.about for each in sent if any(isinstance(part, Tensor) for part in each.state.values())}
    assert weighty == {TERMS, END}
    assert "public.npz" in made.certificate.not_covered[0]
    assert any("the server cannot check" in each for each in made.certificate.assumptions)
    assert all(verify(each).ok for each in [tmp_path / "run", *(one.folder.path for one in four)])


def test_a_server_goes_on_with_the_public_records_that_it_began_with(tmp_path: Path) -> None:
    shown = records(77)
    np.savez(tmp_path / "public.npz", images=shown.images[:, 0], labels=shown.labels)
    with pytest.raises(TooFewClients):
        run(Local({}), tmp_path / "run", public=tmp_path / "public.npz", public_steps=1)
    np.savez(tmp_path / "public.npz", images=255 - shown.images[:, 0], labels=shown.labels)
    with pytest.raises(DataError, match="not what it was"):
        run(Local({}), tmp_path / "run", public=tmp_path / "public.npz", public_steps=1)


def test_a_server_does_not_speak_of_force_which_it_does_not_have(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "mine.txt").write_text("", encoding="utf-8")
    with pytest.raises(RunFolderError, match=r"not empty and holds no run\. Choose another `out`\.$"):
        run(Local({}), folder)
    with pytest.raises(TooFewClients):
        run(Local({}), tmp_path / "begun")
    with pytest.raises(RunFolderError, match="under other terms"):
        run(Local({}), tmp_path / "begun", seed=1)


# ---------------------------------------------------------------------- guarantees


def test_both_guarantees_stand_in_the_certificate_and_all_folders_verify(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    n = 24
    np.savez(
        tmp_path / "d.npz", images=draw.integers(0, 256, (n, 28, 28), np.uint8), labels=np.arange(n) % 3,
        units=np.arange(n) % K,
    )  # fmt: skip
    settings = {**TINY, "answers": 1, "noise_multiplier": 4.0}
    made = simulate(
        data=Source(tmp_path / "d.npz", units=":units"),
        card=CARD,
        out=tmp_path / "run",
        delta=1e-3,
        accounts=tmp_path / "book",
        **settings,
    )
    granted = federated.enough(answers=6, critics=K, clients=K)
    s = 4.0 / math.sqrt(4)
    lost = cost.guarantee(
        [(GaussianDpEvent(s / math.sqrt(granted)), 1)], delta=1e-3, relation=federated.ADD_OR_REMOVE_ONE,
        unit="client",
    )  # fmt: skip
    stated = made.certificate
    views = {view["against"]: view["guarantee"] for view in stated.facts["views"]}
    assert views["those who see the release and nothing else"] == str(federated.Guarantee.from_json(
        {key: stated.guarantee[key] for key in ("epsilon", "delta", "relation", "unit")}
    ))  # fmt: skip
    against_server = federated.against_server({
        "config": {"batch_size": 4, "noise_multiplier": 4.0}, "federated": {"answers": granted}, "card": {"unit": "client"},
        "delta": 1e-3,
    })  # fmt: skip
    assert against_server.epsilon == pytest.approx(
        lost.epsilon, rel=1e-3
    )  # granted Gaussians are one of s / sqrt(granted)
    assert views["the server and the other clients"] == str(against_server)
    assert str(against_server) in stated.statement
    (entry,) = BudgetLog(tmp_path / "book").read().entries
    assert entry.charge.by_client
    together = smallest(BudgetLog(tmp_path / "book").read().budget_under_name(entry.charge.name).spent(1e-3)).to_json()
    assert stated.facts["all_runs"]["together"] == together
    assert together["relation"] == stated.guarantee["relation"] == "replace-one"
    folder = RunFolder(tmp_path / "run")
    assert charge_of(folder, PrivacyLedger.load(folder.file(LEDGER)), folder.config(), folder.source()).by_client
    assert verify(tmp_path / "run").ok
    clients = sorted((tmp_path / "run" / "checkpoint" / "clients").iterdir())
    assert len(clients) == K
    for one in clients:
        assert verify(one).ok
        assert Certificate.load(one).guarantee["epsilon"] == pytest.approx(against_server.epsilon)
    fewer = folder.config()
    fewer["federated"]["answers"] = granted - 1  # the loss against the server would look smaller
    problems = module_of_verification._settings(fewer, PrivacyLedger.load(folder.file(LEDGER)), stated.guarantees)
    assert problems == [f"config.json: 'answers' says {granted - 1}; these settings lead to {granted}."]


def test_a_client_grants_what_the_draw_may_ask(tmp_path: Path) -> None:
    """By the tail of the binomial, summed term by term, over all clients."""
    for answers, critics, clients in ((6, 4, 4), (400, 8, 10), (50, 1, 3)):
        n = federated.enough(answers=answers, critics=critics, clients=clients) - federated.SPARE
        tail = lambda n, t=answers, k=critics: math.fsum(binom(t, 1 / k).pmf(np.arange(n + 1, t + 1)))  # noqa: E731
        assert clients * tail(n) <= 1e-18
        assert n == 0 or clients * tail(n - 1) > 1e-18
    assert federated.CHANCE == 1e-18, "no figure counts it, and the certificate names it"
    assert federated.enough(answers=20_000, critics=100, clients=100) - federated.SPARE == 343
    with pytest.raises(RequestError, match="so many clients must be there"):
        federated.enough(answers=6, critics=5, clients=4)


@pytest.mark.parametrize("draws", slow_among([1_500, 6_000], {6_000}))
def test_draws_are_uniform_over_those_who_are_there(draws: int) -> None:
    """Chi-square of the draws among 3 of 4 clients; it fails once in a million times."""
    asked: list[str] = []

    class Three(Local):
        def present(self) -> list[str]:
            return [name for name in super().present() if name != "client-2"]

        def exchange(self, texts: Mapping[str, str]) -> Iterator[tuple[str, Reply]]:
            for name, text in texts.items():
                question = read(Question, text)
                asked.extend([name] * len(question.state["asked"][1]) if question.about == ROUND else [])
            return super().exchange(texts)

    settings = {**TINY, "critics": 3, "answers": 3, "steps": 4, "visits": 1}
    panel = clients_alone(Three(dict.fromkeys(NAMES, granting)), settings, steps=draws // 3)
    fakes = Fakes(torch.zeros(12, 1, 28, 28), torch.zeros(12, dtype=torch.int64))
    while panel.left:
        panel.release(fakes)
    counts = np.array([asked.count(name) for name in NAMES])
    assert counts[2] == 0
    expected = counts.sum() / 3
    assert float(((counts[[0, 1, 3]] - expected) ** 2 / expected).sum()) < 27.6


def answered(question: Question, text: str, values: Tensor | None) -> str:
    return written(Answer(question.site, digest(text), values, ""))


def granting(text: str) -> str:
    """A client that agrees to everything and answers with zeros."""
    question = read(Question, text)
    asked = question.state.get("asked") if question.about == ROUND else None
    return answered(question, text, None if asked is None else torch.zeros(len(asked[1]), 1, 28, 28))


def clients_alone(grid: Any, settings: dict[str, Any], *, steps: int = 6, heard: Heard | None = None) -> Clients:
    """The server's side without a folder around it."""
    method = GsWgan()
    job = Job(method, method.config_type(**{"critics": K, **settings, "steps": steps}), CARD)
    ledger = PrivacyLedger(budget=math.inf, delta=1e-3, relation=job.relation)
    ledger.reserve(job.plan)
    heard = Heard() if heard is None else heard
    grid.reply_timeout, grid.wait = 20.0, 0.3
    alone: Any = SimpleNamespace(
        ledger=ledger, rng=Rng(0), device="cpu", job=job, sink=heard, log=lambda text: heard(note(text))
    )
    return Clients(alone, Terms(job, 1e-3, 0, ()), grid)


def test_an_answer_is_charged_on_both_sides_before_it_is_asked(tmp_path: Path, four: list[Site]) -> None:
    seen: list[int] = []

    class Watched(Local):
        def exchange(self, texts: Mapping[str, str]) -> Iterator[tuple[str, Reply]]:
            questions = [read(Question, text) for text in texts.values()]
            seen.extend([sum(panel.run.ledger.used)] * any("asked" in each.state for each in questions))
            return super().exchange(texts)

    panel = clients_alone(Watched({one.folder.path.name: one.reply for one in four}), {**TINY, "visits": 1})
    fakes = Fakes(torch.rand(8, 1, 28, 28), torch.zeros(8, dtype=torch.int64))
    panel.release(fakes)
    panel.release(fakes)
    assert seen == [2, 4]  # two answers a step, each charged by then
    assert sum(count for one in four for count in one._run.ledger.used) == 4


def test_records_reach_a_message_only_through_the_mechanism(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a deaf mechanism, unrelated records give the same replies, bit for bit."""
    monkeypatch.setattr(
        SanitizedRows, "exact", lambda self, held, query, rng: torch.zeros(self.batch_size, 1, 28, 28)
    )  # fmt: skip
    sent: list[list[Tensor | None]] = []
    for salt in (0, 50):
        replies: list[Tensor | None] = []
        clients = [client(tmp_path / str(salt), i, records(i + salt, n=10 + (i * salt) % 7)) for i in range(K)]

        def listened(one: Site, replies: list[Tensor | None] = replies) -> Callable[[str], str]:
            def reply(text: str) -> str:
                answer = one.reply(text)
                assert read(Answer, answer).ledger == ""
                replies.append(read(Answer, answer).values)
                return answer

            return reply

        run(Local({one.folder.path.name: listened(one) for one in clients}), tmp_path / f"run{salt}")
        sent.append(replies)
    same = [one is other is None or torch.equal(one, other) for one, other in zip(*sent, strict=True)]
    assert all(same) and any(each is not None for each in sent[0])


# ---------------------------------------------------------------------- what a client refuses


def terms(**changed: Any) -> dict[str, Any]:
    """Terms under which a client grants six answers."""
    config = dataclasses.asdict(GsWgan().config_type(**TINY, critics=K)) | {"steps": 1} | changed.pop("config", {})
    own = {"method": "gs-wgan", "config": config, "card": CARD.to_dict(), "delta": 1e-3, "seed": 0, "sites": []}
    return {**own, **changed}


def asking(about: str = TERMS, state: dict[str, Any] | None = None, site: str = "a", **changed: Any) -> str:
    """The text of a question."""
    return written(Question(terms(**changed), site, 0, about, state or {}))


def fakes_of(n: int) -> tuple[Tensor, Tensor]:
    return torch.rand(n, 1, 28, 28), torch.zeros(n, dtype=torch.int64)


def question(answers: int = 1) -> str:
    return asking(ROUND, {"asked": fakes_of(4 * answers)})


TRAIN = {"train": fakes_of(8)}


def ask(one: Site, text: str) -> Tensor | None:
    """The rows of a client. Raises Refused."""
    return read(Answer, one.reply(text)).values


def refused(one: Site, text: str) -> str:
    """Why a client refuses, as its server sees it."""
    with pytest.raises(Refused) as error:
        ask(one, text)
    return str(error.value)


def test_a_client_refuses_rounds_beyond_its_ledger_whatever_the_server_says(tmp_path: Path) -> None:
    heard = Heard()
    one = client(tmp_path, 0, sink=heard)
    ask(one, asking())
    assert ask(one, question(5)) is not None
    assert refused(one, question(2)) == REFUSED  # one is left
    assert ask(one, question(1)) is not None
    assert refused(one, question(1)) == REFUSED
    assert "not the terms" in refused(one, asking(config={"steps": 100}))
    assert refused(one, question(1)) == REFUSED
    assert [text.split("granted ")[1] for text in heard] == [
        "6 answers, 1 are left, and 2 were asked for at once", *["6 answers, 0 are left, and 1 were asked for at once"] * 2
    ]  # fmt: skip
    one.close()


def test_a_client_refuses_terms_that_cost_more_than_it_gives(tmp_path: Path) -> None:
    seen: list[int] = []
    heard = Heard()
    one = client(tmp_path, 0, epsilon=5.0, sink=heard)
    read_by(one, lambda *_given, **_more: seen.append(1))  # to see that it is not called
    for cheap in ({}, {"noise_multiplier": 0.0}, {"steps": 10**6}):
        assert refused(one, asking(config=cheap)) == REFUSED
        assert "more than the budget of epsilon 5" in heard.pop()
    assert not seen
    assert not one.folder.path.exists() or one.folder.blank


def test_a_client_answers_nothing_without_noise(tmp_path: Path) -> None:
    """Whatever its limit: `epsilon=inf` says that it sets none, and not that its records may be read."""
    one = client(tmp_path, 0, accounts=tmp_path / "book")
    assert "no noise" in refused(one, asking(config={"noise_multiplier": 0.0}))
    assert not any(tmp_path.iterdir())


WRONG_START = {"critic.out.bias": torch.zeros(7)}
FAILURES: dict[str, Any] = {
    "a class that the card does not declare": CardError("the card declares 3 classes"),
    "damaged records": DataError("mine.npz is damaged"),
    "an error of a library": ValueError("invalid literal: 'patient 4711'"),
    "too many records for the memory": MemoryError(),
}


@pytest.mark.parametrize("what", FAILURES)
def test_a_refusal_does_not_tell_what_is_wrong_with_the_records(tmp_path: Path, what: str) -> None:
    """The kind of error was in the reply: one bit about the records, without noise. Its own log has the reason."""
    heard, broke = Heard(), client(tmp_path, 0, epsilon=5.0)
    failing = client(tmp_path, 1, sink=heard)

    def fail(*_given: object, **_more: object) -> RawData:
        raise FAILURES[what]

    read_by(failing, fail)
    assert [one.reply(asking()) for one in (failing, broke)] == [refusal(REFUSED)] * 2
    assert len(heard) == 1
    assert "4711" not in heard[0]
    assert str(FAILURES[what]) in heard[0] or "could hold a record" in heard[0]


def test_terms_are_checked_before_records_and_budget(tmp_path: Path) -> None:
    """A server that sends a start of another shape learns the same from all: that it is malformed."""

    def fail(*_given: object, **_more: object) -> RawData:
        raise CardError("the card declares 3 classes")

    clients = [client(tmp_path, 0), client(tmp_path, 1, epsilon=5.0), client(tmp_path, 2)]
    read_by(clients[2], fail)
    (said,) = {refused(one, asking(state=WRONG_START)) for one in clients}
    assert "weights are not those" in said
    assert not any(one.folder.path.exists() for one in clients)


def test_a_round_is_checked_before_its_folder(tmp_path: Path) -> None:
    one = client(tmp_path, 0)
    ask(one, asking())
    one.folder.path.rename(tmp_path / "moved")
    assert "holds fakes" in refused(one, asking(ROUND))
    with pytest.raises(RunFolderError):
        one.close()


@pytest.mark.parametrize("place", ["train", "release"])
def test_what_fails_at_the_records_is_refused_without_a_word_and_the_client_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """An error that is none of ours ended the client, and the server saw it go."""
    heard = Heard()
    one = client(tmp_path, 0, sink=heard)
    ask(one, asking())

    def fail(*_: Any) -> None:
        raise RuntimeError("patient 4711")

    with monkeypatch.context() as patch:
        patch.setattr(one._critics, place, fail)
        assert refused(one, asking(ROUND, TRAIN) if place == "train" else question()) == REFUSED
    assert "error in fail" in heard[0] and "4711" not in heard[0] and "RuntimeError" not in heard[0]
    assert ask(one, question()) is not None
    one.close()


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"card": {**CARD.to_dict(), "declared_size": 5}}, "not the one that this site was given"),
        ({"delta": 1e-4}, "not the one that this site was given"),
        ({"config": {"batch_size": 0}}, "no terms"),
        ({"config": {"gift": 1}}, "no terms"),
        ({"config": {"steps": 0}}, "no terms"),
        ({"config": {"critics": 5}}, "none of this method"),
        ({"config": {"draw": "round_robin"}}, "no terms"),
        ({"seed": None}, "no terms"),
    ],
)
def test_a_client_refuses_other_terms(tmp_path: Path, changed: dict[str, Any], why: str) -> None:
    assert why in refused(client(tmp_path, 0), asking(**changed))


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"width": 10**6}, "a batch in the critic"),
        ({"width": 500, "generator": "resnet"}, "the networks"),
        ({"width": 500, "latent_size": 10**6}, "the networks"),
        ({"width": 10**400}, "no terms"),
        ({"latent_size": 2**31 - 1}, "the networks"),
        ({"critic_batch_size": 2**31 - 1}, "the pictures of a round, a batch in the critic"),
        ({"batch_size": 85_600}, "the pictures of a round"),
        ({"answers": 50_000}, "the pictures of a round"),
        ({"answers": 2.5}, "no terms"),
        ({"critic_batch_size": 90_000, "width": 1}, "the pictures of a round"),
        ({"critic_steps": 10**6}, "a visit to the critic"),
        ({"warm_steps": 10**7, "critic_steps": 1000}, "the warm start"),
    ],
)
def test_terms_that_ask_for_too_much_are_refused_before_a_network_is_built(
    tmp_path: Path, changed: dict[str, Any], what: str
) -> None:
    """`width: 1000000` took 24 seconds and 8 GiB. Whoever may send terms could stop a site."""
    one = client(tmp_path, 0)
    one.records = lambda _card, _ledger: pytest.fail("the terms were taken")
    used, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    said = refused(one, asking(config=changed))
    assert said.startswith("the question is malformed: ") and what in said, said
    assert time.process_time() - began < 2
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - used < 100_000, "KiB"
    assert not one.folder.path.exists()


def test_the_numbers_of_the_draw_are_whole_numbers(tmp_path: Path) -> None:
    for steps in ("10", 10.7, True, 10**30, None):
        assert "no terms" in refused(client(tmp_path, 0), asking(config={"steps": steps})), steps


def test_the_largest_settings_of_the_paper_are_taken() -> None:
    paper = GsWgan().config_type(
        noise_multiplier=1.0, width=64, critic_batch_size=32, batch_size=32, warm_steps=10_000, critics=1, answers=1
    )
    _check_size(paper, CARD, at_once=500)


def test_a_client_takes_part_under_one_name(tmp_path: Path) -> None:
    """Two SuperNodes before one records service would be picked twice as often as the guarantee counts."""
    one = client(tmp_path, 0)
    ask(one, asking(site="site-a"))
    assert "not the terms" in refused(one, asking(site="site-b"))
    one.close()
    again = client(tmp_path, 0)
    again.go_on()
    assert "not the terms" in refused(again, asking(site="site-b"))
    ask(again, asking(site="site-a"))
    again.close()


def test_the_server_names_each_client_in_its_terms() -> None:
    seen: list[str] = []

    def hear(text: str) -> str:
        seen.append(read(Question, text).site)
        return granting(text)

    clients_alone(Local(dict.fromkeys(NAMES, hear)), TINY)._wait_for_clients()
    assert sorted(seen) == NAMES


def test_a_client_answers_nothing_before_the_terms(tmp_path: Path) -> None:
    for about in (ROUND, END):
        assert "not sent its terms" in refused(client(tmp_path, 0), asking(about))


def test_the_noise_of_a_client_does_not_follow_from_the_seed_that_the_server_chose(tmp_path: Path) -> None:
    held, rows = records(0), []
    for place in ("a", "b"):
        one = client(tmp_path / place, 0, held, secret=True)
        ask(one, asking())
        torch.manual_seed(0)
        found = ask(one, question())
        assert found is not None
        rows.append(found)
        assert not one._run.ledger.reasons
        one.close()
    spread = (rows[0] - rows[1]).std() / (
        2 * math.sqrt(2)
    )  # of two independent noises; 3,136 values: within 10 % but for 1e-14
    assert 0.9 < spread < 1.1


def test_a_killed_client_comes_back_with_its_critic_and_its_charges(tmp_path: Path) -> None:
    one = client(tmp_path, 0)
    ask(one, asking())
    ask(one, asking(ROUND, TRAIN))
    one._save()
    ask(one, question())  # paid for, and in no checkpoint
    before = one._critics._critics
    copies: list[Tensor] = []
    before.update(lambda held: copies.append(held.weights.clone()))
    one._open.close()  # as a kill does: nothing more is saved
    again = client(tmp_path, 0)
    ask(again, asking())
    again._critics._critics.update(lambda held: copies.append(held.weights.clone()))
    assert torch.equal(copies[0], copies[1])
    assert again._critics.left == 5
    assert refused(again, question(6)) == REFUSED
    again.close()


def test_a_client_whose_folder_was_moved_answers_and_pays_no_more(tmp_path: Path) -> None:
    """Another run may be in its place by now. Its locks went with it, and are let go of when it closes."""
    one, moved = client(tmp_path, 0), tmp_path / "moved"
    ask(one, asking())
    one.folder.path.rename(moved)
    paid = (moved / "ledger.jsonl").read_bytes()
    for asked in (question(), asking(ROUND, TRAIN)):
        assert refused(one, asked) == REFUSED
    assert (moved / "ledger.jsonl").read_bytes() == paid
    with pytest.raises(RunFolderError, match="was moved, deleted or replaced"):
        one.close()
    assert not one.folder.path.exists()
    moved.rename(one.folder.path)
    again = client(tmp_path, 0)
    ask(again, asking())
    assert again._critics.left == 6
    again.close()


def test_a_killed_client_does_not_go_on_with_other_records(tmp_path: Path) -> None:
    one = client(tmp_path, 0)
    ask(one, asking())
    one._open.close()
    heard = Heard()
    again = client(tmp_path, 0, records(7), sink=heard)
    assert refused(again, asking()) == REFUSED
    assert "not what it was when the run began" in heard[0]
    again.close()


def test_a_killed_client_does_not_go_on_with_other_settings(tmp_path: Path) -> None:
    one = client(tmp_path, 0)
    ask(one, asking())
    config = one.folder.file("config.json")
    one._open.close()
    text = config.read_text()
    config.write_text(text.replace('"max_norm": 1.0', '"max_norm": 2.0'))
    assert config.read_text() != text
    heard = Heard()
    again = client(tmp_path, 0, sink=heard)
    assert refused(again, asking()) == REFUSED
    assert "config.json is not the one" in heard[0]
    again.close()


def test_a_killed_client_does_not_go_on_with_other_terms(tmp_path: Path) -> None:
    """They were agreed on with one server. Another seed trains another critic, at the cost of the first."""
    one = client(tmp_path, 0)
    ask(one, asking())
    one._open.close()
    heard = Heard()
    again = client(tmp_path, 0, sink=heard)
    assert refused(again, asking(seed=1)) == REFUSED
    assert "holds another run" in heard[0]
    again.close()


# ---------------------------------------------------------------------- what the server refuses


def lying(rows: Callable[[int], Tensor | str | None]) -> Callable[[str], str]:
    """A client that sends something else in place of its rows."""

    def reply(text: str) -> str:
        question = read(Question, text)
        if question.about != ROUND or "asked" not in question.state:
            return granting(text)
        lie = rows(len(question.state["asked"][1]))
        return lie if isinstance(lie, str) else answered(question, text, lie)

    return reply


WRONG: dict[str, tuple[Callable[[int], Tensor | str | None], str]] = {
    "not finite": (lambda n: torch.full((n, 1, 28, 28), math.nan), "not finite"),
    "too long": (lambda n: torch.full((n, 1, 28, 28), 1e6), "longer than"),
    "another shape": (lambda n: torch.zeros(n + 1, 1, 28, 28), "another shape"),
    "another type": (lambda n: torch.zeros(n, 1, 28, 28).double(), "another shape or type"),
    "no message": (lambda _: "{", "no message"),
    "an answer to another question": (lambda _: written(Answer(NAMES[3], digest("x"), None, "")), "another question"),
    "nothing": (lambda _: None, "or none"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_malicious_client_is_named_and_shut_out(name: str) -> None:
    rows, why = WRONG[name]
    heard = Heard()
    apps = dict.fromkeys(NAMES[:3], granting) | {NAMES[3]: lying(rows)}
    panel = clients_alone(Local(apps), {**TINY, "critics": 3}, steps=60, heard=heard)
    fakes = Fakes(torch.rand(8, 1, 28, 28), torch.zeros(8, dtype=torch.int64))
    for _ in range(40):  # 80 draws miss it with a chance of 1e-10
        answers = panel.release(fakes).view(2, -1)
        assert all(not part.any() or LOST[0] < part.std() < LOST[1] for part in answers), (
            "zeros of the honest, or noise"
        )
    assert [said for said in heard if said.startswith(f"{NAMES[3]}: shut out: ")]
    assert why in " ".join(heard)
    assert panel._wait_for_clients() == set(NAMES[:3])


@pytest.mark.parametrize(
    ("app", "why"),
    [
        (lambda text: refusal("I will\nnot"), "no agreement to the terms: I will not"),
        (lambda text: answered(read(Question, text), text, torch.zeros(1)), "not asked for"),
        (lambda text: "{}", "no message"),
    ],
)
def test_a_client_that_does_not_agree_takes_no_part(app: Any, why: str) -> None:
    heard = Heard()
    apps = dict.fromkeys(NAMES[:3], granting) | {NAMES[3]: app}
    panel = clients_alone(Local(apps), {**TINY, "critics": 4}, heard=heard)
    with pytest.raises(TooFewClients, match="only 3 of the 4"):
        panel.release(Fakes(torch.rand(8, 1, 28, 28), torch.zeros(8, dtype=torch.int64)))
    assert sum(panel.run.ledger.used) == 0
    assert why in " ".join(heard)


def test_a_lost_answer_loses_its_round_alone(tmp_path: Path) -> None:
    """The answer that did not come is noise of its size; the charge stays, and no other client is picked for it."""
    calls: list[int] = []
    ones = lying(lambda n: torch.ones(n, 1, 28, 28))

    def silent_one(text: str) -> str:
        if read(Question, text).about != ROUND:
            return granting(text)
        calls.append(1)
        return refusal("lost")

    panel = clients_alone(
        Local(dict.fromkeys(NAMES[:3], ones) | {NAMES[3]: silent_one}), {**TINY, "visits": 1}, steps=50
    )  # fmt: skip
    lost = 0
    for step in range(1, 41):
        rows = panel.release(Fakes(torch.rand(8, 1, 28, 28), torch.zeros(8, dtype=torch.int64)))
        for part in rows.view(2, -1):
            if (part == 1).all():
                continue
            lost += 1
            assert LOST[0] < part.std() < LOST[1], "as wide as the noise of an answer"
            assert abs(part.mean()) < 6 * LOST[1] / len(part) ** 0.5
        assert sum(panel.run.ledger.used) == 2 * step
    assert lost >= len(calls) > 0


def test_an_error_that_is_no_refusal_shuts_nobody_out() -> None:
    """A messenger without its service, and a SuperNode that was killed, get the terms again."""
    lost, heard = [4], Heard()

    def app(text: str) -> Reply:
        if read(Question, text).about == TERMS and lost[0]:
            lost[0] -= 1
            return NoReply("the records service gave no answer")
        return granting(text)

    panel = clients_alone(Local(dict.fromkeys(NAMES, app)), TINY, heard=heard)
    assert panel._wait_for_clients() == set(NAMES)
    assert sum("sent again: the records service gave no answer" in each for each in heard) == 4


def test_terms_without_a_reply_are_sent_again() -> None:
    class Loses(Local):
        lost = 1

        def exchange(self, texts: Mapping[str, str]) -> Iterator[tuple[str, Reply]]:
            replies = list(super().exchange(texts))
            drop, self.lost = self.lost if replies else 0, self.lost - bool(replies)
            yield from replies[max(drop, 0) :]

    panel = clients_alone(Loses(dict.fromkeys(NAMES, granting)), TINY)
    assert panel._wait_for_clients() == set(NAMES)


def test_a_client_that_goes_between_its_turn_and_the_draw_holds_nobody_up() -> None:
    class Leaves(Local):
        gone = False

        def present(self) -> list[str]:
            return [name for name in super().present() if not (self.gone and name == NAMES[0])]

    grid = Leaves(dict.fromkeys(NAMES, granting))
    panel = clients_alone(grid, {**TINY, "critics": 3, "visits": 3})
    fakes = Fakes(torch.rand(8, 1, 28, 28), torch.zeros(8, dtype=torch.int64))
    panel.train(fakes)
    grid.gone = True
    assert panel.release(fakes).shape == (8, 1, 28, 28)


def test_a_simulation_goes_on_with_its_clients(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    np.savez(
        tmp_path / "d.npz", images=draw.integers(0, 256, (12, 28, 28), np.uint8), labels=np.arange(12) % 3,
        units=np.arange(12) % 3,
    )  # fmt: skip
    request: dict[str, Any] = {
        "data": Source(tmp_path / "d.npz", units=":units"), "card": CARD, "out": tmp_path / "run", "delta": 1e-3,
        "accounts": tmp_path / "book",
    }  # fmt: skip

    def stopped(event: Event) -> None:
        if event.kind == "progress" and event.step == 3:
            raise KeyboardInterrupt

    request |= {**TINY, "steps": 20, "noise_multiplier": 30.0}
    with pytest.raises(KeyboardInterrupt):
        simulate(**request, process=Process(sink=stopped))
    simulate(**request)
    folders = [tmp_path / "run", *sorted((tmp_path / "run" / "checkpoint" / "clients").iterdir())]
    assert len(folders) == 1 + K  # one of the declared four has no records, and answers all the same
    assert all(verify(each).ok for each in folders)


def test_a_stop_ends_the_start_of_a_simulation_and_it_goes_on(tmp_path: Path) -> None:
    """Clients warm up one after the other, before the first step: hours with many. The terminal shows how many have."""
    labels = np.arange(12) % 3
    np.savez(tmp_path / "d.npz", images=np.zeros((12, 28, 28), np.uint8), labels=labels, units=labels)
    seen: list[tuple[int, Any]] = []

    def stopped(event: Event) -> None:
        if event.phase == "clients":
            seen.append((event.step, event.values["of"]))
            os.kill(os.getpid(), signal.SIGTERM)

    request: dict[str, Any] = {
        "data": Source(tmp_path / "d.npz", units=":units"), "card": CARD, "out": tmp_path / "run", "delta": 1e-3,
        "accounts": tmp_path / "book", **TINY, "noise_multiplier": 30.0, "warm_steps": 2, "warm_stack": 1,
    }  # fmt: skip
    with pytest.raises(Interrupted, match="Nothing is lost"):
        simulate(**request, process=Process(sink=stopped))
    assert seen == [(1, K)]
    simulate(**request)
    assert verify(tmp_path / "run").ok


def test_a_stop_ends_a_warm_start_which_goes_on_from_there(tmp_path: Path) -> None:
    warm = asking(config={"warm_steps": 5, "warm_stack": 1})
    one = client(tmp_path, 0, stop=[signal.SIGTERM])
    with pytest.raises(Interrupted):
        one.reply(warm)
    one.close()
    assert checkpoint.saved_position(one.folder.private) == ("warm start", 1)
    again = client(tmp_path, 0)
    ask(again, warm)
    assert again._critics.left == 6
    again.close()


def test_the_server_of_a_simulation_has_no_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the clients are in the same process. The server would confine them with a ledger of its own."""
    labels = np.arange(12) % 3
    np.savez(tmp_path / "d.npz", images=np.zeros((12, 28, 28), np.uint8), labels=labels, units=labels)
    held: list[int] = []
    monkeypatch.setattr(module_of_simulation, "ask", lambda *_, here, **_more: held.append(len(here[1].private)))
    simulate(
        data=Source(tmp_path / "d.npz", units=":units"), card=CARD, out=tmp_path / "run", delta=1e-3,
        accounts=tmp_path / "book", **{**TINY, "noise_multiplier": 30.0},
    )  # fmt: skip
    assert held == [0]


def test_who_is_which_client_follows_from_coins_alone(tmp_path: Path) -> None:
    """Turns go by the names of clients, so these may not follow the ids of units. The order is kept, for `resume`.

    Each of six orders comes 50 to 150 times in 600 draws: error rate 1e-7.
    """
    orders = Counter(tuple(module_of_simulation.random_unit_order(3)) for _ in range(600))
    assert len(orders) == 6 and all(50 <= often <= 150 for often in orders.values())
    run, seen = tmp_path / "run", []
    labels = np.arange(12) % 3
    np.savez(tmp_path / "d.npz", images=np.zeros((12, 28, 28), np.uint8), labels=labels, units=labels)
    request: dict[str, Any] = {
        "data": Source(tmp_path / "d.npz", units=":units"), "card": CARD, "out": run, "delta": 1e-3,
        "accounts": tmp_path / "book",
    }  # fmt: skip

    @contextmanager
    def watched(folder: RunFolder, held: Records, *given: Any) -> Iterator[Local]:
        with clients_of(folder, held, *given) as grid:
            seen.append(given[-1])
            yield grid

    request |= {**TINY, "noise_multiplier": 30.0}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module_of_simulation, "clients_of", watched)
        simulate(**request)
        simulate(**request)
    assert seen[0] == seen[1] and sorted(seen[0]) == [0, 1, 2, 3]
    for number, unit in enumerate(seen[0]):  # unit k has the records with label k, and the fourth client has none
        client = RunFolder(run / "checkpoint" / "clients" / f"client-{number + 1:04d}")
        held = Records(np.zeros((4, 1, 28, 28), np.uint8), np.full(4, unit))
        assert client.source()["records"] == identify(held if unit < 3 else records(0, 0)).fingerprint
    source = run / "checkpoint" / "source.json"
    source.write_text(
        json.dumps({key: value for key, value in json.loads(source.read_text()).items() if key != "places"})
    )
    with pytest.raises(RunFolderError, match="which client is which client"):
        simulate(**request)


def test_a_client_of_a_simulation_is_not_served_alone(tmp_path: Path) -> None:
    """No budget log counts it by itself. Elsewhere it would answer without a cost in any log."""
    begun = client(tmp_path, 0)
    ask(begun, asking())
    begun.close()
    heard = Heard()
    alone = client(tmp_path, 0, accounts=None, sink=heard)
    assert refused(alone, asking()) == REFUSED
    assert "is a client of a simulation" in heard[0]


def test_a_simulation_goes_on_with_the_same_records_only(tmp_path: Path) -> None:
    labels = np.arange(12) % 3
    images = np.random.default_rng(0).integers(0, 256, (12, 28, 28)).astype(np.uint8)
    np.savez(tmp_path / "d.npz", images=images, labels=labels, units=labels)
    request: dict[str, Any] = {
        "data": Source(tmp_path / "d.npz", units=":units"), "card": CARD, "out": tmp_path / "run", "delta": 1e-3,
        "accounts": tmp_path / "book",
    }  # fmt: skip

    def stopped(event: Event) -> None:
        if event.kind == "step" and event.step == 3:
            raise KeyboardInterrupt

    request |= {**TINY, "noise_multiplier": 30.0}
    with pytest.raises(KeyboardInterrupt):
        simulate(**request, process=Process(sink=stopped))
    before = (tmp_path / "run" / LEDGER).read_bytes()
    np.savez(tmp_path / "d.npz", images=255 - images, labels=labels, units=labels)
    with pytest.raises(DataError, match=r"d\.npz is not what it was when the run began"):
        simulate(**request)
    assert (tmp_path / "run" / LEDGER).read_bytes() == before


def test_the_answers_of_clients_are_checked(tmp_path: Path) -> None:
    """The second guarantee follows from them: fewer than the draw asks of any would make it look better than it is."""
    labels = np.arange(12) % 3
    np.savez(tmp_path / "d.npz", images=np.zeros((12, 28, 28), np.uint8), labels=labels, units=labels)
    run = tmp_path / "run"
    simulate(
        data=Source(tmp_path / "d.npz", units=":units"),
        card=CARD,
        out=run,
        delta=1e-3,
        accounts=tmp_path / "book",
        **{**TINY, "noise_multiplier": 30.0},
    )
    for each in (run, run / "checkpoint" / "clients" / "client-0001"):
        assert verify(each).ok
        stated, ledger = Certificate.load(each), PrivacyLedger.load(each / "ledger.jsonl")
        settings = json.loads((each / "config.json").read_text())
        settings["federated"]["answers"] -= 1
        (each / "config.json").write_text(json.dumps(settings))
        again = PrivacyLedger(budget=ledger.budget, delta=ledger.delta, relation=ledger.relation, unit=ledger.unit)
        again.reserve(ledger.plan)
        (each / "ledger.jsonl").unlink()
        again.create(each / "ledger.jsonl", settings=sha256(each / "config.json"))
        for event, count in ledger.charged:
            for _ in range(count):
                again.charge(event)
        again.close()
        Certificate.build(
            PrivacyLedger.load(each / "ledger.jsonl"), settings, model_sha256=stated.model["sha256"], versions=stated.versions,
            created=stated.created, declared=stated.declared,
        ).save(each)  # fmt: skip
        (problem,) = verify(each).problems
        assert "'answers' says" in problem


def on_disk(folder: Path) -> dict[Path, bytes]:
    """Ledgers, certificates, models and account books: all that a second charge would change."""
    return {
        each: each.read_bytes()
        for each in folder.rglob("*") if each.suffix in (".jsonl", ".json", ".safetensors") and each.name != SERVED
    }  # fmt: skip


def test_a_finished_simulation_that_is_resumed_is_left_as_it_is(tmp_path: Path) -> None:
    """Where all is done, and where it was killed before it had written down who has the generator."""
    draw = np.random.default_rng(0)
    images, whose = draw.integers(0, 256, (12, 28, 28), np.uint8), np.arange(12) % K
    np.savez(tmp_path / "d.npz", images=images, labels=np.arange(12) % 3, units=whose)
    request: dict[str, Any] = {
        "data": Source(tmp_path / "d.npz", units=":units"), "card": CARD, "out": tmp_path / "run", "delta": 1e-3,
        "accounts": tmp_path / "book",
    }  # fmt: skip
    request |= {**TINY, "noise_multiplier": 30.0}
    simulate(**request)
    before, heard = on_disk(tmp_path), Heard()
    simulate(**request, process=Process(sink=heard))
    (said,) = heard
    assert said.startswith(f"{tmp_path / 'run'} is finished and uses no more epsilon.")
    assert on_disk(tmp_path) == before
    (tmp_path / "run" / "checkpoint" / SERVED).unlink()
    heard.clear()
    began = time.monotonic()
    simulate(**request, process=Process(sink=heard))
    assert time.monotonic() - began < 60  # it waits for nobody
    assert heard == [said]
    assert on_disk(tmp_path) == before


def test_a_finished_server_that_is_resumed_serves_who_was_away_and_charges_nothing(
    tmp_path: Path, four: list[Site]
) -> None:
    late = four[3]

    def away_at_the_end(text: str) -> str:
        return refusal("away") if read(Question, text).about == END else late.reply(text)

    apps: dict[str, Any] = {one.folder.path.name: one.reply for one in four}
    book = {"accounts": tmp_path / "book"}
    run(Local({**apps, NAMES[3]: away_at_the_end}), tmp_path / "run", **book)
    assert [one.folder.finished for one in four] == [True, True, True, False]
    before = on_disk(tmp_path / "run") | on_disk(tmp_path / "book")
    paid = late._run.ledger.used
    heard = Heard()
    again: dict[str, Any] = {**book, "process": Process(sink=heard), "wait": 5}
    run(Local({NAMES[3]: late.reply}), tmp_path / "run", **again)
    assert len(heard) == 1 and "uses no more epsilon" in heard[0]
    assert late.folder.finished and verify(late.folder.path).ok
    assert late._run.ledger.used == paid
    assert on_disk(tmp_path / "run") | on_disk(tmp_path / "book") == before
    began = time.monotonic()
    run(Local({}), tmp_path / "run", **again)
    assert time.monotonic() - began < 4  # it waits for nobody
    assert on_disk(tmp_path / "run") | on_disk(tmp_path / "book") == before


def test_the_server_goes_on_where_its_ledger_is(tmp_path: Path, four: list[Site]) -> None:
    class Breaks(Local):
        left = 3

        def exchange(self, texts: Mapping[str, str]) -> Iterator[tuple[str, Reply]]:
            if any(read(Question, text).about == ROUND for text in texts.values()):
                self.left -= 1
                if self.left < 0:
                    raise KeyboardInterrupt
            return super().exchange(texts)

    apps = {one.folder.path.name: one.reply for one in four}
    with pytest.raises(KeyboardInterrupt):
        run(Breaks(apps), tmp_path / "run", steps=20)
    with pytest.raises(RequestError, match="gossamer federated"):
        resume(tmp_path / "run")
    before = sum(count for one in four for count in one._run.ledger.used)
    made = run(Local(apps), tmp_path / "run", steps=20)
    ledger = PrivacyLedger.load(tmp_path / "run" / "ledger.jsonl")
    assert sum(ledger.used) == sum(ledger._reserved) == 40
    assert verify(tmp_path / "run").ok
    assert made.certificate.config["steps"] == 20
    answered = [
        Certificate.load(one.folder.path).ledger["lines"] - 3 for one in four
    ]  # opening, plan, and that the noise repeats
    assert before == 6
    assert (
        sum(answered) == before + 24
    )  # a block of 16 draws was paid for, and only 6 were asked for when it was killed
    assert all(one.folder.finished for one in four)


# ---------------------------------------------------------------------- what goes over the wire


def test_fakes_are_checked() -> None:
    images, labels = torch.rand(8, 1, 28, 28), torch.arange(8) % 3
    one, other = _batches((images, labels), CARD, size=4)
    assert torch.equal(one.images, images[:4]) and torch.equal(other.labels, labels[4:])
    assert _batches(None, CARD, size=4) == []
    wrong: list[tuple[Any, str]] = [
        ((images[:, :, 1:], labels), "another number or shape"), ((images[:6], labels), "another number"),
        ((images[:6], labels[:6]), "another number"), ((images, labels[:, None]), "another number"),
        ((images[:0], labels[:0]), "another number"), ((images.double(), labels), "no pair"),
        ((images, labels.int()), "no pair"),
        ((images,), "no pair"), ("fakes", "no pair"),
        ((images / 0, labels), "not finite"), ((images, labels + 1), "outside"),
        ((images, labels - 1), "outside"),
    ]  # fmt: skip
    for held, why in wrong:
        with pytest.raises(Malformed, match=why):
            _batches(held, CARD, size=4)


def test_a_message_cannot_ask_for_memory() -> None:
    text = written(Answer("a", "", torch.zeros(4), "")).replace("[4]", "[9999999999999]")
    with pytest.raises(Malformed, match="no message"):
        read(Answer, text)


def test_many_clients_may_open_many_files(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(module_of_simulation.resource, "getrlimit", lambda _: (1_024, 4_096))
    monkeypatch.setattr(module_of_simulation.resource, "setrlimit", lambda _, both: asked.append(both))
    module_of_simulation._allow_files(1_000)
    module_of_simulation._allow_files(1_334)
    assert asked == [(1_334, 4_096)]
    with pytest.raises(RequestError, match="ulimit"):
        module_of_simulation._allow_files(5_000)


def test_two_servers_without_records_are_not_taken_for_one_data_set() -> None:
    nothing = Records(np.zeros((0, 1, 28, 28), np.uint8), np.zeros(0, np.int64))
    assert identify(nothing).mark == NOBODY.mark == ""
    assert identify(records(0)).mark != ""


def test_a_federated_run_needs_a_unit_and_a_secret_draw(tmp_path: Path) -> None:
    alone = dataclasses.replace(CARD, unit="record")
    drawn = {**TINY, "visits": 1, "draw": "round_robin"}
    nobody = Local({})
    nobody.wait = 0.1
    for request in (decide(alone, delta=1e-3, **TINY), decide(CARD, delta=1e-3, **drawn)):
        with pytest.raises(RequestError, match='unit = "client"'):
            train(request, network=nobody, out=tmp_path / "run")
    with pytest.raises(RequestError, match="needs a network"):
        train(decide(CARD, delta=1e-3, **TINY), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
