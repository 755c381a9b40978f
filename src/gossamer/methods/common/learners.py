"""Parts of a State that several methods have: a network that learns from sums, a running average, a generator in training."""

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeAlias, TypeVar

import torch
from torch import Tensor, nn

from gossamer.data.card import draw_labels
from gossamer.data.records import Records, sent
from gossamer.methods.common import adversarial
from gossamer.methods.common.adversarial import Fakes
from gossamer.methods.contract import BaseConfig, Run, State, StatefulDataclass
from gossamer.nets.flat import flatten, gradient
from gossamer.privacy.distributed import ALONE, Ranks

N = TypeVar("N", bound=nn.Module)
C = TypeVar("C", bound=BaseConfig)
ALL = slice(None)
Optimiser: TypeAlias = Callable[[list[Tensor]], torch.optim.Optimizer]
"""From parameters to a fresh optimiser of theirs."""


def adam(rate: float, betas: tuple[float, float]) -> Optimiser:
    """Fused Adam with this step size."""
    return lambda parameters: torch.optim.Adam(parameters, lr=rate, betas=betas, fused=True)


@dataclass(init=False, eq=False)
class Learner(StatefulDataclass, Generic[N]):
    """A network that learns from sums of gradients: its parameters are one vector, with an optimiser on it."""

    net: N
    optimiser: torch.optim.Optimizer

    def __init__(self, net: N, optimiser: Optimiser) -> None:
        self.net, self.vector = net, flatten(net)
        self.renew(optimiser)

    def renew(self, optimiser: Optimiser) -> None:
        """Take a new optimiser: the moments of the old one belong to other gradients."""
        self.optimiser = optimiser([self.vector])

    def step(self, gradient: Tensor) -> None:
        """One step of the optimiser. gradient: [D]"""
        self.vector.grad = gradient
        self.optimiser.step()


class Average(Generic[N]):
    """A network and the running average of its weights, which a run releases. A decay of 0 means the last weights."""

    def __init__(self, net: N, decay: float) -> None:
        self._net, self._decay = net, decay
        self.released = copy.deepcopy(net) if decay else net
        """The average, or the network itself."""

    @torch.no_grad()
    def follow(self, *, at_most: float = 1.0) -> None:
        """average <- decay * average + (1 - decay) * weights; `at_most` is the decay of a young average."""
        for mean, value in zip(self.released.parameters(), self._net.parameters(), strict=True):
            mean.lerp_(value, 1 - min(at_most, self._decay))
        for mine, theirs in zip(self.released.buffers(), self._net.buffers(), strict=True):
            mine.copy_(theirs)

    def restart(self) -> None:
        """Start the average again from the present weights."""
        self.released.load_state_dict(self._net.state_dict())

    def state_dict(self) -> dict[str, Any]:
        """Its weights."""
        return dict(self.released.state_dict()) if self._decay else {}

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """The inverse, in place."""
        if self._decay:
            self.released.load_state_dict(saved)


@dataclass(init=False, eq=False)
class InTraining(StatefulDataclass, Generic[N]):
    """A generator in training: network, optimiser and average.

    The network takes latents [n, latent_size] and labels [n] to images [n, C, H, W] in [0, 1].
    """

    net: N
    average: Average[N]
    optimiser: torch.optim.Optimizer

    def __init__(self, net: N, optimiser: Optimiser, average_decay: float) -> None:
        self.net, self.average = net, Average(net, average_decay)
        self.optimiser = optimiser(list(net.parameters()))

    def renew(self, optimiser: Optimiser) -> None:
        """Take a new optimiser: the moments of the old one belong to other gradients."""
        self.optimiser = optimiser(list(self.net.parameters()))

    def descend(self, loss: Tensor, ranks: Ranks = ALONE) -> None:
        """See `adversarial.descend`."""
        adversarial.descend(self.optimiser, loss, self.net, ranks)

    def latents(self, run: Run[C], n: int, *, prefix: str = "", part: slice = ALL) -> tuple[Tensor, Tensor]:
        """Latents [n, latent_size] and labels [n] from public streams: no record can change their place.

        The streams move by n, whatever part of them is handed out. `prefix` begins the names of the streams.
        """
        size = int(self.net.latent_size)  # type: ignore[arg-type]  # every generator of this kind states it
        z = torch.randn(n, size, generator=run.rng.public(f"{prefix}latents"))
        y = draw_labels(n, run.card, run.rng.public(f"{prefix}labels"))
        return sent(z[part], run.device), sent(y[part], run.device)

    @torch.no_grad()
    def fakes(self, run: Run[C], n: int, *, part: slice = ALL) -> Fakes:
        """A batch from the present weights, or a part of it."""
        latents, labels = self.latents(run, n, part=part)
        return Fakes(self.net(latents, labels), labels)


@dataclass(kw_only=True)
class Adversaries(State):
    """A discriminator and a generator. They have seen records through releases only.

    Args:
        since: discriminator steps since the last generator step.
        shown: figures of the last generator step.
    """

    D: Learner[Any]
    G: InTraining[Any]
    since: int = 0
    shown: dict[str, float] = field(default_factory=dict)

    @property
    def released(self) -> nn.Module:
        """The generator that the run hands out."""
        net: nn.Module = self.G.average.released
        return net

    def renew(self, of_D: Optimiser, of_G: Optimiser) -> None:
        """Fresh optimisers: after a warm start, their moments belong to gradients without noise."""
        self.D.renew(of_D)
        self.G.renew(of_G)


def warm_step(run: Run[C], D: Learner[N], G: InTraining[Any], public: Records, n: int) -> None:
    """One step of a discriminator without privacy, on n public records and as many fakes."""
    batch = drawn_from(public, n, run.rng.public("warm start"))
    loss = adversarial.loss_on_records(D.net, batch).mean()
    loss = loss + adversarial.loss_on_fakes(D.net, G.fakes(run, n)).mean()
    D.step(gradient(loss / 2, D.net))


def drawn_from(records: Records, n: int, stream: torch.Generator) -> Records:
    """n of the records, with replacement."""
    return records[torch.randint(len(records), (n,), generator=stream).numpy()]


def subset(records: Records, n: int) -> Records:
    """At most n of public records, evenly from the whole of them: they may lie in the order of their classes."""
    return records if len(records) <= n else records[torch.linspace(0, len(records) - 1, n).long().numpy()]
