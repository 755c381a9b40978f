"""What brings questions to sites and their answers back: Flower (`flower.py`), or this process. No Flower is loaded here."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TypeAlias

from gossamer.run.federated.questions import NoReply

Reply: TypeAlias = str | NoReply


class Network(ABC):
    """The sites that can be reached now, each under the name that it has proved."""

    pause = 0.1
    """Seconds between two looks for replies or sites."""
    reply_timeout = 60.0
    """Seconds that a reply may take."""
    wait = 600.0
    """Seconds for which too few sites, or an answer, are waited for."""
    stop: Sequence[int] = ()
    """Signals that ask to stop. Then no reply is waited for."""

    @abstractmethod
    def present(self) -> Collection[str]:
        """Names of the sites that can be reached now."""

    @abstractmethod
    def exchange(self, texts: Mapping[str, str]) -> Iterator[tuple[str, Reply]]:
        """Send a text to each site, and yield the replies that come within `reply_timeout` seconds, with the sites' names.

        A reply belongs to the site that was sent the message. Its own metadata do not count.
        """

    def ask(self, questions: Mapping[str, str]) -> dict[str, str]:
        """Bring questions to sites, by name, and give the answers and refusals that come within `wait` seconds."""
        found: dict[str, str] = {}
        end = time.monotonic() + self.wait
        while len(found) < len(questions) and time.monotonic() < end:
            open_ = {name: questions[name] for name in self.present() if name in questions and name not in found}
            found |= {name: reply for name, reply in self.exchange(open_) if isinstance(reply, str)}
            time.sleep(self.pause if len(found) < len(questions) else 0)
        return found


class Local(Network):
    """Sites in this process, or behind functions of it, by name. Each answers before the next one is asked."""

    def __init__(self, sites: Mapping[str, Callable[[str], Reply]]) -> None:
        self.sites = sites

    def present(self) -> Collection[str]:
        return sorted(self.sites)

    def exchange(self, texts: Mapping[str, str]) -> Iterator[tuple[str, Reply]]:
        for name, text in texts.items():
            yield name, NoReply("stopped") if self.stop else self.sites[name](text)
