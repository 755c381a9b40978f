"""Class moments: axes from public pictures, one release, a Gaussian for each class."""

from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor, nn

from gossamer.data.card import DataCard
from gossamer.data.records import Records
from gossamer.methods import method
from gossamer.methods.class_moments import ClassGaussians, Moments
from gossamer.methods.method import Run, Shown
from gossamer.methods.moments import Config
from gossamer.nets.latent import Latent
from gossamer.privacy.confined import Confined
from gossamer.privacy.mechanisms import PoissonGaussianSum

PUBLIC = 20_000
"""Public pictures that principal axes are taken from, at most."""


def train(run: Run[Config], state: "State", private: Confined[Records]) -> Iterator[Shown]:
    """One release, and the Gaussians that it makes."""
    config, net = run.config, state.net
    query = Moments(net.latent, run.card.classes, config.radius)
    release = PoissonGaussianSum(sampling_rate=1.0, max_norm=1.0, noise_multiplier=config.noise_multiplier, rng=run.rng)
    if private.remaining(release.event):
        released = private.release(release, query)
        net.gaussians.take(released, query, noise_multiplier=config.noise_multiplier)
        yield {"released_norm": released.norm()}


def axes(run: Run[Config], state: "State", public: Records) -> Iterator[Shown]:
    """Principal axes of public pictures in the place of cosine waves, and their Gaussians until others come. Costs nothing."""
    if state.step == 0:
        images, labels = public[:PUBLIC].tensors(run.device)
        state.net.latent.fit(images)
        state.net.gaussians.fit(state.net.latent.code(images), labels)
        yield {}


class Generator(nn.Module):
    """Standard normals [n, latent_size] and labels [n] to images [n, C, H, W] in [0, 1]."""

    def __init__(self, shape: tuple[int, ...], classes: int, axes: int) -> None:
        super().__init__()
        self.classes, self.latent_size = classes, axes
        self.latent, self.gaussians = Latent(shape, axes), ClassGaussians(classes, axes)

    def forward(self, latents: Tensor, labels: Tensor) -> Tensor:
        """See the class."""
        codes: Tensor = self.gaussians(latents, labels)
        return self.latent.decode(codes).clamp(0, 1)


@dataclass
class State(method.State):
    """The Gaussians have seen records through the one release only."""

    net: Generator

    @classmethod
    def fresh(cls, run: Run[Config]) -> "State":
        """Cosine waves, and one Gaussian for all."""
        return cls(generator(run.config, run.card).to(run.device))

    @property
    def released(self) -> Generator:
        """The generator that the run hands out."""
        return self.net


start = State.fresh


def generator(config: Config, card: DataCard) -> Generator:
    """The network that a run releases."""
    return Generator(card.shape, card.classes, config.axes)
