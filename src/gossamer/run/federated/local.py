"""Clients in this process: the same messages, through the same bytes, without a network.

Flower's own simulation runs each message in a process of a Ray pool. A client would have to load its critic and its ledger from
disk for every round. Here all clients stay in memory, one after the other.
"""

from collections.abc import Iterable, Mapping

from flwr.app import Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.common.serde import message_from_proto, message_to_proto
from flwr.proto.message_pb2 import Message as ProtoMessage

from gossamer.run.federated.grid import NamedGrid


class LocalGrid(NamedGrid):
    """A grid of ClientApps in memory, by the names of the clients. Each answers before the next one is asked."""

    def __init__(self, apps: Mapping[str, ClientApp]) -> None:
        self._nodes = {name: number for number, name in enumerate(sorted(apps), start=2)}
        self._apps = {self._nodes[name]: app for name, app in apps.items()}
        self._replies: dict[str, Message] = {}

    def present(self) -> dict[str, int]:
        """All."""
        return dict(self._nodes)

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        """Have each client answer."""
        numbers = []
        for message in messages:
            node = message.metadata.dst_node_id
            answer = self._apps[node](from_bytes(to_bytes(message)), context(node))
            numbers.append(message.metadata.message_id)
            self._replies[numbers[-1]] = from_bytes(to_bytes(answer))
        return numbers

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        """The replies, each once."""
        return [self._replies.pop(number) for number in set(message_ids) if number in self._replies]

    def forget(self, message_ids: Iterable[str]) -> None:
        """Nothing comes late here."""


def context(node: int) -> Context:
    """Flower's memory of a client: none, ours is in its folder."""
    return Context(run_id=0, node_id=node, node_config={}, state=RecordDict(), run_config={})


def to_bytes(message: Message) -> bytes:
    """A message as it goes over the wire: Flower's protobuf."""
    return bytes(message_to_proto(message).SerializeToString())


def from_bytes(data: bytes) -> Message:
    """The inverse of `to_bytes`."""
    return message_from_proto(ProtoMessage.FromString(data))
