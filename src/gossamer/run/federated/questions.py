"""What centre and sites write to each other: terms, questions and answers, as texts of JSON. No Flower is loaded here.

Few sites: a question holds the state of the centre's loop, which has released values only. A site goes on with the same loop
from there, up to the query that the loop asks next. So no site takes a query, a bound or noise from the centre.

Many clients of GS-WGAN, which keep their critics between questions:

    about     in the state                                  values of the answer
    terms     with a public start: weights to start on      none; the client grants the answers of the terms
    round     fakes to train on, fakes to answer for        sanitised rows, if it was asked for answers
    the end   weights of the released generator             none
"""

import base64
import dataclasses
import hashlib
import json
import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from gossamer.data.tables.any_card import card_from
from gossamer.errors import GossamerError, RequestError, RunFolderError
from gossamer.methods import METHODS
from gossamer.methods.job import Job
from gossamer.privacy.accounting import federated
from gossamer.privacy.accounting.events import is_noisy
from gossamer.privacy.certificate import sites
from gossamer.privacy.confined import Confined
from gossamer.privacy.elsewhere import Ask, Elsewhere
from gossamer.privacy.guarantee import ADD_OR_REMOVE_ONE
from gossamer.privacy.ledger import PrivacyLedger
from gossamer.privacy.queries import Mechanism
from gossamer.run.federated import METHOD
from gossamer.run.storage.run_folder import RunFolder
from gossamer.run.training.open_run import OpenRun
from gossamer.run.training.plan import Request, checked

LARGEST = 1 << 28
"""Bytes of a message."""
TERMS, ROUND, END = "terms", "round", "the end"
"""What a question is about that asks no query of a plan."""
_BITS = 31
"""Of a whole number in the settings."""
_SHORT = 200
"""Characters of a reason that came from a site."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_TYPES = {str(each): each for each in (np.dtype("float32"), np.dtype("float64"), np.dtype("int64"), np.dtype("bool"))}
_TEXTS = ("site", "about", "question", "ledger")
_KINDS: dict[str, Any] = {"terms": dict, "number": int, "state": dict, "values": Tensor | None} | dict.fromkeys(
    _TEXTS, str
)
"""What each part of a message is."""
T = TypeVar("T", bound="Question | Answer")


class Malformed(GossamerError):
    """A message does not hold what it should. Quotes nothing of it."""


class Refused(GossamerError):
    """A site will not answer. Its reason: one short printable line."""

    def __init__(self, reason: str) -> None:
        super().__init__("".join(letter if letter.isprintable() else " " for letter in reason[:_SHORT]))


class NoReply(Refused):
    """Nothing has come from a site itself: the network gives the reason."""


@dataclass(frozen=True)
class Terms:
    """What centre and sites agree to, word for word.

    Args:
        job: the method with its settings and the card. Its noise is that of one site.
        delta: of the guarantee of each site.
        seed: of the public random choices.
        names: of the sites. The clients of GS-WGAN are not listed.

    Raises:
        RequestError: if sites cannot answer such queries, or a name is none.
    """

    job: Job[Any, Any]
    delta: float
    seed: int
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        job = self.job
        if self.many:
            if job.card.unit == "record" or job.config.draw != "secret":
                raise RequestError(
                    'many clients are protected each with all its records, and drawn in secret. Set unit = "client" in the '
                    "card (or writer, hospital ...), declared_size to the number of clients, and leave `draw` out."
                )
            return
        if job.card.rows_have_units:
            raise RequestError("sites take no linked tables: give a card of one table, whose unit is the person.")
        if job.first is not None or job.pretrained or not job.method.can_ask_sites:
            raise RequestError(
                f"{job.method.name} with these settings asks for more than noisy sums over the units of each site. "
                "Choose marginals or moments, without a start and without a pre-trained network."
            )
        if job.relation is not ADD_OR_REMOVE_ONE or not is_noisy(job.plan):
            raise RequestError("each query to sites needs noise and all units: give `epsilon` or `noise_multiplier`.")
        if len({*self.names}) < max(1, len(self.names)) or not all(map(_NAME.fullmatch, self.names)):
            raise RequestError("each site needs a name of its own: letters, digits, `.`, `_` and `-`, at most 64.")

    @classmethod
    def of(cls, job: Job[Any, Any], *agreed: Any) -> "Terms":
        """Terms with all settings that follow from the noise of the sum, so that each site divides its noise alike."""
        if (terms := cls(job, *agreed)).many:
            return terms
        pooled = terms.pooled
        settings = dataclasses.asdict(pooled.config.resolved(pooled.card))
        own = {**settings, "noise_multiplier": job.config.noise_multiplier}
        return cls(Job.of(job.method, own, job.card), *agreed)

    @property
    def many(self) -> bool:
        """Whether clients keep critics, and the server picks among them in secret."""
        return self.job.method.name == METHOD

    @property
    def role(self) -> dict[str, Any]:
        """What the centre is, in its settings."""
        many = {"role": federated.SERVER, "answers": self.granted} if self.many else {}
        return many or {"role": sites.CENTRE, "sites": [*self.names]}

    @cached_property
    def granted(self) -> int:
        """How many answers each of many clients grants with these terms, so that no draw is refused."""
        config: Any = self.job.config
        answers, clients = config.steps * config.answers, self.job.card.declared_size
        return federated.enough(answers=answers, critics=config.critics, clients=clients)

    @cached_property
    def pooled(self) -> Job[Any, Any]:
        """The same with the noise of the sum over all sites. By it the loop decides what a query is worth."""
        noise = sites.of_sum(self.job.config.noise_multiplier, len(self.names))
        return Job.of(self.job.method, {**self.job.settings, "noise_multiplier": noise}, self.job.card)

    def stand_in(self, ask: Ask, records: Confined[Any] | None = None) -> Elsewhere:
        """What the loop gets in place of records: it may ask the plan, with the noise of the sum."""
        plan = PrivacyLedger(budget=math.inf, delta=self.delta)
        plan.reserve(self.pooled.plan)
        return Elsewhere(plan, ask, records)

    @property
    def count(self) -> int:
        """How many queries the plan has. The message after the last of them is the end."""
        return sum(query.times for query in self.job.queries)

    def own(self, mechanism: Mechanism[Any]) -> Any:
        """A mechanism of the pooled loop with the whole noise of one site."""
        pairs = zip(self.pooled.queries, self.job.queries, strict=True)
        own = {pooled.mechanism.event: query.mechanism for pooled, query in pairs}
        asked: Any = mechanism
        return dataclasses.replace(asked, noise_multiplier=own[asked.event].noise_multiplier)

    def to_json(self) -> dict[str, Any]:
        """The same as JSON."""
        job = self.job
        own = {"method": job.method.name, "config": job.settings, "card": job.card.to_dict()}
        return {**own, "delta": self.delta, "seed": self.seed, "sites": list(self.names)}

    @classmethod
    def from_json(cls, stated: Any) -> "Terms":
        """The inverse. Raises Malformed."""
        try:
            if any(type(value) is int and value.bit_length() > _BITS for value in stated["config"].values()):
                raise ValueError
            job = checked(Job.of(METHODS[stated["method"]], dict(stated["config"]), card_from(stated["card"])))
            terms = cls(job, float(stated["delta"]), int(stated["seed"]), tuple(stated["sites"]))
        except (KeyError, TypeError, ValueError, AttributeError, GossamerError):
            raise Malformed("these are no terms that a site can agree to") from None
        if terms.to_json() != stated:
            raise Malformed("the terms are not in the form in which they are written")
        return terms


@contextmanager
def opened(
    folder: RunFolder,
    request: Request,
    terms: dict[str, Any],
    *,
    role: dict[str, Any],
    private: dict[str, Any] | None = None,
    **more: Any,
) -> Iterator[OpenRun]:
    """Begin a run under these terms, or go on with the one in the folder. A new one reserves its whole plan.

    Raises:
        RunFolderError: if the folder holds a run under other terms.
    """
    if folder.begun and folder.source().get("terms") != terms:
        raise RunFolderError(f"{folder.path} holds another run, under other terms. Choose another folder.")
    facts: dict[str, Any] = {"public_facts": {"federated": role}, "private_facts": {"terms": terms, **(private or {})}}
    new = OpenRun.create(folder, request, seed=terms["seed"], **facts, **more)
    with OpenRun.resume(folder, **more) if folder.begun else new as run:
        yield run


@dataclass(frozen=True)
class Question:
    """What one site is asked.

    Args:
        terms: of the run.
        site: who is asked.
        number: of the query in the plan, from 0. The number after the last query: the end of the run.
        about: the query in words; the site's own loop has to come to the same.
        state: of the centre's loop. It has seen released values only.
    """

    terms: dict[str, Any]
    site: str
    number: int
    about: str
    state: dict[str, Any]


@dataclass(frozen=True)
class Answer:
    """What one site answers.

    Args:
        site: who answers.
        question: SHA-256 of the question's text.
        values: the noisy answer, float64 [n]; None: nothing was asked for.
        ledger: the site's ledger.jsonl. Empty from a client of GS-WGAN.
    """

    site: str
    question: str
    values: Tensor | None
    ledger: str


def in_words(query: Any) -> str:
    """A query in words, the same at the centre and at each site."""
    return f"{type(query).__name__}: {getattr(query, 'about', query.dimension)}"


def digest(text: str) -> str:
    """SHA-256 of a text, in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()


def written(message: Question | Answer) -> str:
    """The text of a message."""
    return json.dumps({name: _encoded(value) for name, value in vars(message).items()}, allow_nan=False)


def read(kind: type[T], text: str) -> T:
    """The inverse of `written`. Raises Malformed, or Refused where the text is a refusal."""
    try:
        if len(text) > LARGEST:
            raise ValueError
        parts = json.loads(text, parse_constant=_no_number)
        if "refused" in parts:
            raise Refused(str(parts["refused"]))
        message = kind(**{name: _decoded(value) for name, value in parts.items()})
    except (TypeError, ValueError, AttributeError, KeyError, RecursionError):
        raise Malformed("this is no message of a federation") from None
    if not all(isinstance(value, _KINDS[name]) for name, value in vars(message).items()):
        raise Malformed("this is no message of a federation")
    return message


def refusal(reason: str) -> str:
    """The text of a site that will not answer. reason: public words."""
    return json.dumps({"refused": reason})


def answer_to(question: str, name: str, reply: str | NoReply) -> Answer:
    """What a site has answered to a question. Raises Malformed, Refused or NoReply: there is no such answer."""
    if isinstance(reply, NoReply):
        raise reply
    answer = read(Answer, reply)
    if (answer.site, answer.question) != (name, digest(question)):
        raise Malformed("the answer is of another site, or to another question")
    return answer


def _no_number(_text: str) -> None:
    raise ValueError("a number that is not finite")


def _encoded(value: Any) -> Any:
    if isinstance(value, Tensor):
        array = np.ascontiguousarray(value.detach().cpu().numpy())
        return {"tensor": [str(array.dtype), list(array.shape), base64.b64encode(array.tobytes()).decode()]}
    if isinstance(value, tuple):
        return {"tuple": [_encoded(each) for each in value]}
    if isinstance(value, dict):
        return {"dict": {name: _encoded(each) for name, each in value.items()}}
    return [_encoded(each) for each in value] if isinstance(value, list) else value


def _decoded(value: Any) -> Any:
    if isinstance(value, list):
        return [_decoded(each) for each in value]
    if not isinstance(value, dict):
        return value
    ((kind, held),) = value.items()
    if kind == "tensor":
        name, shape, text = held
        array = np.frombuffer(base64.b64decode(text, validate=True), _TYPES[name])
        return torch.from_numpy(array.reshape(shape).copy())
    return tuple(map(_decoded, held)) if kind == "tuple" else {name: _decoded(each) for name, each in held.items()}
