"""All Flower messages between server and clients, and the checks of what comes in.

    message       from the server                            reply of a client
    query.terms   settings, card, seed, weights to start on  number of answers that it grants, noise multiplier
    train.round   fakes to train on, fakes to answer for     sanitised rows, if it was asked for answers
    query.end     weights of the released generator          nothing
    query.ask     a question, see `questions.py`             the answer

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
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Error, Message, Metadata, RecordDict
from flwr.app.message import make_message
from flwr.common.serde import message_from_proto, message_to_proto
from flwr.proto.message_pb2 import Message as ProtoMessage
from torch import Tensor, nn

from gossamer.methods.common.adversarial import Fakes
from gossamer.methods.gs_wgan.loop import State
from gossamer.run.federated.questions import Malformed

TERMS, ROUND, END, ASK = "query.terms", "train.round", "query.end", "query.ask"
REFUSED = 1_000
"""Code of Flower's error reply where a client refuses."""
SERVER_ID = 1
"""Node of the server; clients have others."""
_SHORT = 200  # characters of a reason that came over the wire


@dataclass(frozen=True)
class Round:
    """What a client is asked to do.

    Args:
        train: fakes for a visit to its critic; None: it does not train.
        to_answer: fakes to answer for, one batch for each answer.
    """

    train: Fakes | None
    to_answer: list[Fakes]


def to_client(node: int, kind: str, content: RecordDict, *, run_id: int = 0, lives: float = 3600.0) -> Message:
    """A message from the server, which Flower lets expire after so many seconds.

    Flower derives the id of a message from its content. Because of the random `group_id`, a client cannot guess the id of a
    message to another client, and cannot reply to it.
    """
    metadata = Metadata(
        run_id=run_id, message_id=uuid.uuid4().hex, src_node_id=SERVER_ID, dst_node_id=node, reply_to_message_id="",
        group_id=uuid.uuid4().hex, created_at=time.time(), ttl=lives, message_type=kind,
    )  # fmt: skip
    return make_message(metadata=metadata, content=content)


def reply(message: Message, content: RecordDict | None = None) -> Message:
    """The reply to a message; without content: done."""
    return Message(content or RecordDict(), reply_to=message)


def refusal(message: Message, reason: str) -> Message:
    """The reply of a client that will not do it. reason: public words."""
    return Message(Error(REFUSED, reason), reply_to=message)


def refused(message: Message) -> bool:
    """Whether a client refused. Other errors are Flower's and the messenger's: no reply came from the client."""
    return message.has_error() and message.error.code == REFUSED


def reason_of(message: Message) -> str:
    """Why a client refused, or why no reply came: one short printable line."""
    reason = message.error.reason or "no reason given"
    return "".join(letter if letter.isprintable() else " " for letter in reason[:_SHORT])


def context(node: int) -> Context:
    """Flower's memory of a client: none, ours is in its folder."""
    return Context(run_id=0, node_id=node, node_config={}, state=RecordDict(), run_config={})


def to_bytes(message: Message) -> bytes:
    """A message as it goes over the wire: Flower's protobuf."""
    return bytes(message_to_proto(message).SerializeToString())


def from_bytes(data: bytes) -> Message:
    """The inverse of `to_bytes`."""
    return message_from_proto(ProtoMessage.FromString(data))


# ---------------------------------------------------------------------- what is in them


def terms_record(terms: Mapping[str, Any], start: Mapping[str, Tensor] | None = None) -> RecordDict:
    """Settings, card and seed. start: weights from public records, which clients begin with."""
    record = RecordDict({"terms": ConfigRecord({"json": json.dumps(terms)})})
    if start is not None:
        record["start"] = _arrays_of(start)
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
    """The networks whose weights a start holds: the critic that all critics begin as, and the generator."""
    return nn.ModuleDict({"critic": state.critic, "generator": state.G.net})


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
    """The inverse of `round_record`. trains: number of fakes to train on. rows: fakes of an answer (B).

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
    return RecordDict({"rows": _arrays_of({"rows": rows})})


def read_rows(content: RecordDict, *, shape: tuple[int, ...], largest: float) -> Tensor:
    """The inverse of `rows_record`. largest: norm of the longest row that a client of these terms can send.

    Raises:
        Malformed: another shape or type, a value that is not finite, or a longer row.
    """
    if set(content) != {"rows"}:
        raise Malformed("the reply holds no rows, or something besides")
    rows = _read_arrays(content, "rows", {"rows": (shape, np.float32)})["rows"]
    if not bool(torch.isfinite(rows).all()):
        raise Malformed("a row holds a value that is not finite")
    if len(rows) and float(rows.flatten(1).double().norm(dim=1).max()) > largest:
        raise Malformed("a row is longer than clipping and noise can make it")
    return rows


def text_record(text: str) -> RecordDict:
    """A question of a federation of few, or its answer."""
    return RecordDict({"text": ConfigRecord({"json": text})})


def read_text(content: RecordDict) -> str:
    """The inverse of `text_record`. Raises Malformed."""
    return str(_config(content, "text").get("json"))


def weights_record(weights: Mapping[str, Tensor]) -> RecordDict:
    """The state of a released generator."""
    return RecordDict({"weights": _arrays_of(weights)})


def read_weights(content: RecordDict, like: Mapping[str, Tensor], part: str = "weights") -> dict[str, Tensor]:
    """The weights in a part of a message, for networks whose state is like this. Raises Malformed."""
    return _read_arrays(content, part, {name: (tuple(old.shape), old.numpy().dtype) for name, old in like.items()})


# ---------------------------------------------------------------------- parts


def _arrays_of(tensors: Mapping[str, Tensor]) -> ArrayRecord:
    return ArrayRecord({name: Array(value.cpu().numpy()) for name, value in tensors.items()})


def _fakes_record(batches: list[Fakes]) -> ArrayRecord:
    """images [batches, n, C, H, W], labels [batches, n]."""
    images = torch.stack([batch.images.detach() for batch in batches])
    return _arrays_of({"images": images, "labels": torch.stack([batch.labels for batch in batches])})


def _read_fakes(content: RecordDict, part: str, *, shape: tuple[int, ...], classes: int, n: int) -> list[Fakes]:
    expected = {"images": ((None, n, *shape), np.float32), "labels": ((None, n), np.int64)}
    images, labels = _read_arrays(content, part, expected).values()
    if len(images) != len(labels):
        raise Malformed("fakes hold other batches of labels than of images")
    if not images.isfinite().all() or (labels < 0).any() or (labels >= classes).any():
        raise Malformed("fakes hold a value that is not finite, or a label outside the classes")
    return [Fakes(*batch) for batch in zip(images, labels, strict=True)]


def _read_arrays(
    content: RecordDict, part: str, expected: Mapping[str, tuple[tuple[int | None, ...], Any]]
) -> dict[str, Tensor]:
    """The arrays of a part, by name. expected: shape (None: any length) and type of each."""
    record = content.get(part)
    if not isinstance(record, ArrayRecord) or set(record) != set(expected):
        raise Malformed(f"{part} does not hold the arrays that the terms say")
    return {name: _read_array(name, record[name].data, *kind) for name, kind in expected.items()}


def _read_array(name: str, data: bytes, shape: tuple[int | None, ...], dtype: Any) -> Tensor:
    """An array of this type and shape. Its header is checked before memory is allocated for it."""
    file = io.BytesIO(data)
    try:
        if np.lib.format.read_magic(file) != (1, 0):
            raise ValueError
        actual_shape, fortran, actual_dtype = np.lib.format.read_array_header_1_0(file)
    except Exception:  # damaged bytes raise any error of NumPy, and the error may quote them
        raise Malformed(f"{name} is no array") from None
    fits = len(actual_shape) == len(shape) and all(
        expected in (None, n) for n, expected in zip(actual_shape, shape, strict=True)
    )
    size = int(np.prod(actual_shape, dtype=object)) * np.dtype(dtype).itemsize
    if not fits or fortran or actual_dtype != np.dtype(dtype) or len(data) - file.tell() != size:
        raise Malformed(f"{name} has another shape or type than the terms say")
    return torch.from_numpy(np.frombuffer(data, dtype=dtype, offset=file.tell()).reshape(actual_shape).copy())


def _config(content: RecordDict, part: str, beside: Set[str] = frozenset()) -> ConfigRecord:
    record = content.get(part)
    if not isinstance(record, ConfigRecord) or not set(content) <= {part, *beside}:
        raise Malformed(f"there is no {part}, or something besides")
    return record
