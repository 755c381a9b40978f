"""Class moments: axes from public pictures, a release, Gaussians; with cells, a release before it that says where to cut."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from sklearn.cluster import KMeans
from torch import Tensor, nn

from gossamer.data.card import DataCard
from gossamer.data.records import Records
from gossamer.methods import method
from gossamer.methods.common.learners import subset
from gossamer.methods.method import Logs, Run
from gossamer.methods.moments import CUT_BY, Config, first_noise
from gossamer.methods.moments.class_moments import Moments
from gossamer.methods.moments.mixture import Mixture
from gossamer.nets.latent import Latent
from gossamer.privacy.confined import Confined
from gossamer.privacy.mechanisms.gaussian import PoissonGaussianSum

PUBLIC = 20_000
"""Public pictures that principal axes are taken from, at most."""


def train(run: Run[Config], state: "State", private: Confined[Records]) -> Iterator[Logs]:
    """One release, and the Gaussians that it makes."""
    config, net = run.config, state.net
    query = Moments(net.latent, run.card.classes, config.radius)
    if config.cells > 1:
        centres = net.mixture.means.double().cpu().view(run.card.classes, config.cells, -1)
        query = Moments(net.latent, run.card.classes, config.cells_radius, centres)
    yield from released(run, state, net.mixture, query, private, config.noise_multiplier)


def whole_classes(run: Run[Config], state: "State", private: Confined[Records]) -> Iterator[Logs]:
    """The moments of whole classes, with more noise: only to know where they may be cut."""
    assert state.whole is not None
    query = Moments(state.net.latent, run.card.classes, run.config.radius)
    yield from released(run, state, state.whole, query, private, first_noise(run.config))


def released(
    run: Run[Config], state: "State", mixture: Mixture, query: Moments, private: Confined[Records], noise: float
) -> Iterator[Logs]:
    """Ask once."""
    release = PoissonGaussianSum(sampling_rate=1.0, max_norm=1.0, noise_multiplier=noise, rng=run.rng)
    if state.step == 0 and private.remaining(release.event):  # a phase before this may have the same event
        answer = private.release(release, query)
        mixture.take(answer, query, noise_multiplier=noise)
        yield {"released_norm": answer.norm()}


def cut(run: Run[Config], state: "State") -> Iterator[Logs]:
    """Centres of cells: of codes that the released Gaussians draw, by k-means. Costs nothing."""
    assert state.whole is not None
    if state.step == 0:
        stream, mixture = run.rng.public("cells"), state.net.mixture
        for label in range(run.card.classes):
            normals = torch.randn(CUT_BY, 1 + mixture.axes, generator=stream).to(mixture.means.device)
            codes = state.whole(normals, torch.full((CUT_BY,), label, device=normals.device))
            seed = int(torch.randint(2**31, (), generator=stream))
            kmeans = KMeans(mixture.cells, n_init=1, random_state=seed).fit(codes.cpu().numpy())
            mixture.means[mixture.groups == label] = torch.from_numpy(kmeans.cluster_centers_).to(mixture.means)
        yield {}


def axes(run: Run[Config], state: "State", public: Records) -> Iterator[Logs]:
    """Principal axes of public pictures replace cosine waves, with their Gaussians until others come. Costs nothing."""
    if state.step == 0:
        images, labels = subset(public, PUBLIC).tensors(run.device)
        state.net.latent.fit(images)
        state.net.mixture.fit(state.net.latent.code(images), labels)
        yield {}


class Generator(nn.Module):
    """Standard normals [n, latent_size] and labels [n] to images [n, C, H, W] in [0, 1]; what is faint in one is black."""

    def __init__(self, shape: tuple[int, ...], classes: int, axes: int, cells: int, threshold: float = 0.0) -> None:
        super().__init__()
        self.threshold = threshold
        self.classes, self.latent_size = classes, 1 + axes
        self.latent, self.mixture = Latent(shape, axes), Mixture(classes, cells, axes)

    def forward(self, latents: Tensor, labels: Tensor) -> Tensor:
        """See the class."""
        codes: Tensor = self.mixture(latents, labels)
        images = self.latent.decode(codes).clamp(0, 1)
        return torch.where(images < self.threshold * images.amax((1, 2, 3), keepdim=True), 0.0, images)


@dataclass
class State(method.State):
    """The Gaussians have seen records through releases only. `whole` has those of whole classes, where there are cells."""

    net: Generator
    whole: Mixture | None

    @property
    def released(self) -> Generator:
        """The generator that the run hands out."""
        return self.net


def start(run: Run[Config]) -> State:
    """Cosine waves, and one Gaussian for all."""
    net = generator(run.config, run.card).to(run.device)
    several = run.config.cells > 1
    return State(net, Mixture(run.card.classes, 1, run.config.axes).to(run.device) if several else None)


def generator(config: Config, card: DataCard) -> Generator:
    """The network that a run releases."""
    return Generator(card.shape, card.classes, config.axes, config.cells, config.threshold)
