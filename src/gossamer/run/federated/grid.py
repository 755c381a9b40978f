"""Clients that have names: what the server's side of the loop needs of whatever carries its messages."""

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable

from flwr.app import Message

_PAUSE = 0.002  # seconds between two looks for replies


class NamedGrid(ABC):
    """The clients that can be reached now, each under the name that it has proved. The methods are those of Flower's `Grid`."""

    @abstractmethod
    def present(self) -> dict[str, int]:
        """Name and node of each client that can be reached now."""

    @abstractmethod
    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        """Send; gives the ids of the messages."""

    @abstractmethod
    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        """The replies that have come to these, each once."""

    @abstractmethod
    def forget(self, message_ids: Iterable[str]) -> None:
        """Take no reply to these any more."""

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float) -> list[Message]:
        """Send, and wait for the replies, at most `timeout` seconds."""
        missing = set(self.push_messages(messages))
        replies: list[Message] = []
        end = time.monotonic() + timeout
        while missing:
            new = self.pull_messages(missing)
            missing -= {reply.metadata.reply_to_message_id for reply in new}
            replies += new
            if time.monotonic() >= end:
                break
            if missing and not new:
                time.sleep(_PAUSE)
        self.forget(missing)
        return replies
