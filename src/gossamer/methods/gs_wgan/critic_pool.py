"""The critics as the loop sees them: they train and answer. Which of them do so, and at what cost, is decided here."""

import dataclasses
from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from gossamer.methods.common.adversarial import Fakes
from gossamer.methods.contract import Run
from gossamer.methods.gs_wgan import Config
from gossamer.methods.gs_wgan.critics import Answers, Critics
from gossamer.privacy.confined import Confined
from gossamer.privacy.mechanisms.sanitized_rows import SanitizedRows


class CriticProtocol(Protocol):
    """The critics that answer the generator: a `CriticPool` in one process, or clients that each hold their own records."""

    @property
    def left(self) -> int: ...
    def train(self, fakes: Fakes) -> None: ...
    def release(self, fakes: Fakes) -> Tensor: ...


class CriticPool:
    """Critics whose records are all in this process. A new pool begins a new pass of the round robin."""

    def __init__(self, run: Run[Config], critics: Confined[Critics]) -> None:
        self._run, self._critics = run, critics
        self._mechanism: SanitizedRows = dataclasses.replace(run.query("answers"), answers=run.config.answers)

    @property
    def left(self) -> int:
        """How many more steps the plan holds."""
        return self._answers_left // self._run.config.answers

    def train(self, fakes: Fakes) -> None:
        """One visit to each critic whose turn it is. Equations 8 and 12."""
        here, streams = turns_here(self._run, self._turns())
        images = fakes.images.detach()
        if here:
            self._critics.update(lambda value: value.learn(here, images, fakes.labels, streams))

    def release(self, fakes: Fakes) -> Tensor:
        """Sanitised gradients of critics at the first images: left factor of equation 11. [answers x B, C, H, W]"""
        shape = (self._run.config.answers, self._run.config.batch_size)
        batch = fakes[: shape[0] * shape[1]]
        query = Answers(batch.images.detach().unflatten(0, shape), batch.labels.view(shape))
        return self._critics.release(self._mechanism, query)

    def _turns(self) -> list[int]:
        """Who trains now: for the secret draw in turns, which no draw moves; else those that will answer."""
        config, answering = self._run.config, self._mechanism.next_critic(self._run.rng)
        if answering is not None:
            return [(answering + i) % config.critics for i in range(config.answers)]
        answered = config.steps * config.answers - self._answers_left
        first = answered // config.answers * config.visits
        return [(first + i) % config.critics for i in range(config.visits)]

    @property
    def _answers_left(self) -> int:
        config, mechanism = self._run.config, self._mechanism
        return mechanism.answers_left(self._critics.remaining(mechanism.paid), config.steps * config.answers)


def turns_here(run: Run[Config], critics: Sequence[int]) -> tuple[list[int], list[torch.Generator]]:
    """The critics that train and are on this rank, and a secret stream of random numbers for each. No record decides which."""
    drawn = [(critic, run.rng.secret_generator()) for critic in critics]
    here = [(critic, stream) for critic, stream in drawn if critic % run.ranks.count == run.ranks.number]
    return [critic for critic, _ in here], [stream for _, stream in here]
