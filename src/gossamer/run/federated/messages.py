"""All that goes between server and clients, as Flower messages, and the checks of what comes in.

    query.terms   settings, card and seed of the run, and    ->  how many answers the client grants, and their noise multiplier
                  weights to begin with, where public records made some
    train.round   fakes to train on, fakes to answer for     ->  sanitised rows, or nothing where nothing was asked
    query.end     the weights of the released generator      ->  nothing

Nothing in a message is unpickled: arrays are read by NumPy without pickles, and settings are JSON.
"""

import io
import json
import time
import uuid
from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, Error, Message, Metadata, RecordDict
from flwr.app.message import make_message
from torch import Tensor, nn

from gossamer.errors import GossamerError
from gossamer.methods.common.adversarial import Fakes
from gossamer.methods.gs_wgan.loop import State

TERMS, ROUND, END = "query.terms", "train.round", "query.end"
REFUSED = 1_000
"""Code of Flower's error reply where a client refuses; the reason is in words."""
SERVER_ID = 1
"""Number of the server where nodes have numbers; clients have others."""
_LIVES = 24 * 3600.0  # seconds after which Flower lets a message expire; rounds end long before
_SHORT = 200  # characters of a reason that came over the wire


class Malformed(GossamerError):
    """A message does not hold what it should. Says what, and quotes nothing of it."""


@dataclass(frozen=True)
class Round:
    """What a client is asked.

    Args:
        train: fakes for a visit to its critic; None: it does not train.
        to_answer: fakes to answer for, one batch for each answer.
    """

    train: Fakes | None
    to_answer: list[Fakes]


def to_client(node: int, kind: str, content: RecordDict) -> Message:
    """A message from the server."""
    metadata = Metadata(
        run_id=SERVER_ID, message_id=uuid.uuid4().hex, src_node_id=SERVER_ID, dst_node_id=node, reply_to_message_id="",
        group_id="", created_at=time.time(), ttl=_LIVES, message_type=kind,
    )  # fmt: skip
    return make_message(metadata=metadata, content=content)


def reply(message: Message, content: RecordDict | None = None) -> Message:
    """The reply to a message; without content: done."""
    return Message(content or RecordDict(), reply_to=message)


def refusal(message: Message, reason: str) -> Message:
    """The reply of a client that will not do it. reason: public words."""
    return Message(Error(REFUSED, reason), reply_to=message)


def reason_of(message: Message) -> str:
    """Why a client refused, in its own words: one short printable line."""
    reason = message.error.reason or "no reason given"
    return "".join(letter if letter.isprintable() else " " for letter in reason[:_SHORT])


# ---------------------------------------------------------------------- what is in them


def terms_record(terms: Mapping[str, Any], start: Mapping[str, Tensor] | None = None) -> RecordDict:
    """Settings, card and seed; and weights that public records have made, for clients to begin with."""
    record = RecordDict({"terms": ConfigRecord({"json": json.dumps(terms)})})
    if start is not None:
        record["start"] = _weights_record(start)
    return record


def read_terms(content: RecordDict) -> dict[str, Any]:
    """The settings, card and seed of `terms_record`. Raises Malformed."""
    try:
        terms = json.loads(str(_config(content, "terms", beside={"start"})["json"]))
        if not isinstance(terms, dict):
            raise TypeError
    except (KeyError, TypeError, ValueError, RecursionError):
        raise Malformed("the terms are no JSON object") from None
    return terms


def networks(state: State) -> nn.ModuleDict:
    """Those whose weights a start holds: the critic that all critics begin as, and the generator."""
    return nn.ModuleDict({"critic": state.critic, "generator": state.G.net})


def read_start(content: RecordDict, like: Mapping[str, Tensor]) -> dict[str, Tensor] | None:
    """The weights of `terms_record`, for networks like these; None: it has none. Raises Malformed."""
    return _read_weights(content, "start", like) if "start" in content else None


def grant_record(*, answers: int, noise_multiplier: float) -> RecordDict:
    """How many answers a client grants, and the noise multiplier that its ledger has reserved for each."""
    return RecordDict({"grant": ConfigRecord({"answers": answers, "noise_multiplier": noise_multiplier})})


def read_grant(content: RecordDict) -> tuple[int, float]:
    """The inverse of `grant_record`. Raises Malformed."""
    grant = _config(content, "grant")
    answers, noise = grant.get("answers"), grant.get("noise_multiplier")
    if type(answers) is not int or type(noise) is not float:
        raise Malformed("the grant is no whole number of answers with a noise multiplier")
    return answers, noise


def round_record(message: Round) -> RecordDict:
    """Fakes and labels, and nothing else."""
    parts = RecordDict()
    if message.train is not None:
        parts["train"] = _fakes_record([message.train])
    if message.to_answer:
        parts["asked"] = _fakes_record(message.to_answer)
    return parts


def read_round(content: RecordDict, *, shape: tuple[int, ...], classes: int, trains: int, rows: int) -> Round:
    """The inverse of `round_record`.

    Args:
        content: of the message.
        shape: of an image.
        classes: number of labels.
        trains: fakes to train on.
        rows: fakes of an answer (B).

    Raises:
        Malformed: arrays of another shape or type, values that are not finite, or labels outside the classes.
    """
    if not set(content) <= {"train", "asked"} or not content:
        raise Malformed("a round holds fakes to train on, or to answer for")
    train = _read_fakes(content, "train", shape=shape, classes=classes, n=trains) if "train" in content else []
    to_answer = _read_fakes(content, "asked", shape=shape, classes=classes, n=rows) if "asked" in content else []
    if len(train) > 1:
        raise Malformed("a round trains once")
    return Round(train[0] if train else None, to_answer)


def rows_record(rows: Tensor) -> RecordDict:
    """Sanitised rows. [answers x B, C, H, W]"""
    return RecordDict({"rows": ArrayRecord({"rows": Array(rows.cpu().numpy())})})


def read_rows(content: RecordDict, *, shape: tuple[int, ...], largest: float) -> Tensor:
    """The inverse of `rows_record`.

    Args:
        content: of the reply.
        shape: [answers x B, C, H, W].
        largest: the longest row that a client of these terms can send.

    Raises:
        Malformed: another shape or type, a value that is not finite, or a row longer than that.
    """
    if set(content) != {"rows"}:
        raise Malformed("the reply holds no rows, or something besides")
    array = _array(content, "rows", "rows", shape, np.float32)
    rows = torch.from_numpy(array.copy())
    if not bool(torch.isfinite(rows).all()):
        raise Malformed("a row holds a value that is not finite")
    if len(rows) and float(rows.flatten(1).double().norm(dim=1).max()) > largest:
        raise Malformed("a row is longer than clipping and noise can make it")
    return rows


def weights_record(weights: Mapping[str, Tensor]) -> RecordDict:
    """The state of a released generator."""
    return RecordDict({"weights": _weights_record(weights)})


def read_weights(content: RecordDict, like: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The inverse of `weights_record`, for a generator like this one. Raises Malformed."""
    return _read_weights(content, "weights", like)


# ---------------------------------------------------------------------- parts


def _weights_record(weights: Mapping[str, Tensor]) -> ArrayRecord:
    return ArrayRecord({name: Array(value.cpu().numpy()) for name, value in weights.items()})


def _read_weights(content: RecordDict, part: str, like: Mapping[str, Tensor]) -> dict[str, Tensor]:
    if set(_arrays(content, part)) != set(like):
        raise Malformed("the weights are those of another network")
    return {
        name: torch.from_numpy(
            _array(content, part, name, tuple(value.shape), value.numpy().dtype).copy()
        ).reshape(value.shape)
        for name, value in like.items()
    }  # fmt: skip


def _fakes_record(batches: list[Fakes]) -> ArrayRecord:
    """images [batches, n, C, H, W], labels [batches, n]."""
    images = torch.stack([batch.images.detach() for batch in batches]).cpu().numpy()
    labels = torch.stack([batch.labels for batch in batches]).cpu().numpy()
    return ArrayRecord({"images": Array(images), "labels": Array(labels)})


def _read_fakes(content: RecordDict, part: str, *, shape: tuple[int, ...], classes: int, n: int) -> list[Fakes]:
    if set(_arrays(content, part)) != {"images", "labels"}:
        raise Malformed("fakes are images with labels")
    images = _array(content, part, "images", (None, n, *shape), np.float32)
    labels = _array(content, part, "labels", (len(images), n), np.int64)
    if not np.isfinite(images).all() or (labels < 0).any() or (labels >= classes).any():
        raise Malformed("fakes hold a value that is not finite, or a label outside the classes")
    return [
        Fakes(torch.from_numpy(one.copy()), torch.from_numpy(of.copy()))
        for one, of in zip(images, labels, strict=True)
    ]  # fmt: skip


def _array(content: RecordDict, part: str, name: str, shape: tuple[int | None, ...], dtype: Any) -> np.ndarray:
    """An array of this type and shape (None: any length). Its header is read first, so that none can ask for memory."""
    arrays = _arrays(content, part)
    if name not in arrays:
        raise Malformed(f"{part} lacks {name}")
    data = io.BytesIO(arrays[name].data)
    try:
        if np.lib.format.read_magic(data) != (1, 0):
            raise ValueError
        actual_shape, fortran, of = np.lib.format.read_array_header_1_0(data)
    except Exception:  # what NumPy raises on damaged bytes is open-ended, and may quote them
        raise Malformed(f"{name} is no array") from None
    fits = len(actual_shape) == len(shape) and all(
        expected in (None, n) for n, expected in zip(actual_shape, shape, strict=True)
    )
    size = int(np.prod(actual_shape, dtype=object)) * np.dtype(dtype).itemsize
    if not fits or fortran or of != np.dtype(dtype) or len(arrays[name].data) - data.tell() != size:
        raise Malformed(f"{name} has another shape or type than the terms say")
    return np.frombuffer(arrays[name].data, dtype=dtype, offset=data.tell()).reshape(actual_shape)


def _arrays(content: RecordDict, part: str) -> ArrayRecord:
    record = content.get(part)
    if not isinstance(record, ArrayRecord):
        raise Malformed(f"there are no arrays called {part}")
    return record


def _config(content: RecordDict, part: str, beside: Set[str] = frozenset()) -> ConfigRecord:
    record = content.get(part)
    if not isinstance(record, ConfigRecord) or not set(content) <= {part, *beside}:
        raise Malformed(f"there is no {part}, or something besides")
    return record
