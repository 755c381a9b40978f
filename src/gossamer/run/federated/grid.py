"""Flower's `Grid` for clients that have names: what the server's side of the loop needs of whoever carries its messages."""

import time
from abc import abstractmethod
from collections.abc import Iterable
from typing import NoReturn

from flwr.app import Message, RecordDict
from flwr.serverapp import Grid

_PAUSE = 0.002  # seconds between two looks for replies


class NamedGrid(Grid):
    """A grid whose nodes are the clients that can be reached now, each under the name that it has proved."""

    @abstractmethod
    def present(self) -> dict[str, int]:
        """Name and node of each client that can be reached now."""

    def get_node_ids(self) -> Iterable[int]:
        """The nodes of `present`."""
        return self.present().values()

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        """Send, and wait for the replies, at most `timeout` seconds."""
        missing = set(self.push_messages(messages))
        replies: list[Message] = []
        end = None if timeout is None else time.monotonic() + timeout
        while missing:
            new = list(self.pull_messages(missing))
            missing -= {reply.metadata.reply_to_message_id for reply in new}
            replies += new
            if end is not None and time.monotonic() >= end:
                break
            if missing and not new:
                time.sleep(_PAUSE)
        self.forget(missing)
        return replies

    @abstractmethod
    def forget(self, message_ids: Iterable[str]) -> None:
        """Take no reply to these any more."""

    def create_message(
        self, content: RecordDict, message_type: str, dst_node_id: int, group_id: str, ttl: float | None = None
    ) -> NoReturn:
        """Flower has given this way of making messages up; `messages.to_client` makes them."""
        raise NotImplementedError  # nobody may call it

    def set_run(self, run: object) -> None:
        """There is one run, that of the server's folder; Flower's own numbers are not used."""

    @property
    def run(self) -> NoReturn:
        """See `set_run`."""
        raise NotImplementedError  # there is nothing to give, and nobody asks
