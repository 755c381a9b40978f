"""What carries the messages: the grid that the server's side of the loop needs, and one of clients in this process.

Flower's own simulation runs each message in a process of a Ray pool. A client would have to load its critic and its ledger from
disk for every round. Here all clients stay in memory, one after the other. The bytes of the messages are those on a network.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping

from flwr.app import Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.common.serde import message_from_proto, message_to_proto
from flwr.proto.message_pb2 import Message as ProtoMessage


class NamedGrid(ABC):
    """The clients that can be reached now, each under the name that it has proved. The methods are those of Flower's `Grid`."""

    run_id = 0
    """Of Flower's run, in each message."""
    pause = 0.1
    """Seconds between two looks for replies or clients."""
    reply_timeout = 60.0
    """Seconds that the reply of a client may take in a round."""
    wait = 600.0
    """Seconds for which too few clients are waited for."""

    @abstractmethod
    def present(self) -> dict[str, int]:
        """Name and node of each client that can be reached now."""

    @abstractmethod
    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        """Send. Gives the ids of the messages, in order; an empty one for a message that could not be sent."""

    @abstractmethod
    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        """The replies that have come to these, each once."""

    def exchange(self, messages: Mapping[str, Message], *, timeout: float) -> list[tuple[str, Message]]:
        """Send a message to each client, and wait for the replies, at most `timeout` seconds. Both go by clients' names.

        A reply belongs to the client that was sent the message. Its own metadata do not count.
        """
        missing = dict(zip(self.push_messages(messages.values()), messages, strict=True))
        missing.pop("", None)
        replies: list[tuple[str, Message]] = []
        end = time.monotonic() + timeout
        while missing:
            new = self.pull_messages(missing)
            replies += [(missing.pop(reply.metadata.reply_to_message_id), reply) for reply in new]
            if time.monotonic() >= end:
                break
            if missing and not new:
                time.sleep(self.pause)
        return replies


class LocalGrid(NamedGrid):
    """A grid of ClientApps in memory, by the names of the clients. Each answers before the next one is asked."""

    def __init__(self, apps: Mapping[str, ClientApp]) -> None:
        self._nodes = {name: number for number, name in enumerate(sorted(apps), start=2)}
        self._apps = {self._nodes[name]: app for name, app in apps.items()}
        self._replies: dict[str, Message] = {}

    def present(self) -> dict[str, int]:
        return dict(self._nodes)

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        numbers = []
        for message in messages:
            node = message.metadata.dst_node_id
            answer = self._apps[node](from_bytes(to_bytes(message)), context(node))
            numbers.append(message.metadata.message_id)
            self._replies[numbers[-1]] = from_bytes(to_bytes(answer))
        return numbers

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        return [self._replies.pop(number) for number in set(message_ids) if number in self._replies]


def context(node: int) -> Context:
    """Flower's memory of a client: none, ours is in its folder."""
    return Context(run_id=0, node_id=node, node_config={}, state=RecordDict(), run_config={})


def to_bytes(message: Message) -> bytes:
    """A message as it goes over the wire: Flower's protobuf."""
    return bytes(message_to_proto(message).SerializeToString())


def from_bytes(data: bytes) -> Message:
    """The inverse of `to_bytes`."""
    return message_from_proto(ProtoMessage.FromString(data))
