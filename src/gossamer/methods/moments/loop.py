"""Class moments: axes from public pictures, a release, Gaussians; with cells, a release before it that says where to cut."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from gossamer.data.card import DataCard
from gossamer.data.records import Records
from gossamer.methods import contract
from gossamer.methods.common.clusters import k_means
from gossamer.methods.common.learners import subset
from gossamer.methods.contract import Logs, Run
from gossamer.methods.moments import CUT_BY, Config
from gossamer.methods.moments.aligned_latent import AlignedLatent
from gossamer.methods.moments.class_moments import Moments
from gossamer.methods.moments.latents import axes_of, with_codes
from gossamer.methods.moments.mixture import Mixture
from gossamer.methods.moments.principal_axes import Mean, Products, SumInWaves, waves_of
from gossamer.methods.moments.public_detail import PublicDetail
from gossamer.nets.autoencoders import PluginAutoencoder
from gossamer.nets.latent import Latent
from gossamer.privacy.confined import Confined

_FAR, _NARROW = 1e3, 1e-6
"""The largest number of a centre, and the least scale, that a site accepts. Pixels are in [0, 1]."""
PUBLIC, _BYTES, _FEWEST = 20_000, 1 << 29, 4
"""Public pictures that principal axes are taken from, their bytes in single precision, and pictures for an axis at least."""


def train(run: Run[Config], state: "State", private: Confined[Records]) -> Iterator[Logs]:
    """One release, and the Gaussians that it makes."""
    config, net = run.config, state.net
    query = asked(net, config.radius)
    if config.cells > 1:
        centres = net.mixture.means.double().cpu().view(run.card.classes, config.cells, -1)
        query = asked(net, config.cells_radius, centres)
    yield from released(run, state, "moments", query, private, into(net.mixture, query))


def mean(run: Run[Config], state: "State", private: Confined[Records]) -> Iterator[Logs]:
    """The mean of the records becomes the centre of the latent, with `--mean-noise` or `--axes-noise`."""
    net, size = state.net, run.card.declared_size
    waves = waves_of(net.latent) if run.config.axes_noise else net.latent
    query = Mean(waves, run.config.radius, net.codes_one_by_one, declared_size=size)
    yield from released(run, state, "mean", query, private, into_latent(net.latent, query))


def principal_axes(run: Run[Config], state: "State", private: Confined[Records]) -> Iterator[Logs]:
    """The principal axes of the records replace cosine waves, with `--axes-noise`."""
    net = state.net
    query = Products(waves_of(net.latent), run.config.cells_radius, net.codes_one_by_one)
    yield from released(run, state, "principal axes", query, private, into_latent(net.latent, query))


def whole_classes(run: Run[Config], state: "State", private: Confined[Records]) -> Iterator[Logs]:
    """The moments of whole classes, with more noise: only to know where they may be cut."""
    assert state.whole is not None
    query = asked(state.net, run.config.radius)
    yield from released(run, state, "whole classes", query, private, into(state.whole, query))


def asked(net: "Generator", radius: float, centres: Tensor | None = None) -> Moments:
    """The query in the axes of a generator; see `Moments`."""
    return Moments(net.latent, net.classes, radius, centres, coded=net.codes_one_by_one)


def released(
    run: Run[Config],
    state: "State",
    name: str,
    query: Moments | SumInWaves,
    private: Confined[Records],
    take: Callable[[Tensor, float], None],
) -> Iterator[Logs]:
    """Ask the declared query of this name once, and hand the noisy answer on, with its noise multiplier."""
    release = run.query(name)
    if state.step == 0 and private.remaining(release.event):  # a phase before this may have the same event
        if query.coded:
            private = private.map(lambda records: with_codes(state.net.autoencoder, query.latent, records))
        answer = private.release(release, query)
        take(answer, release.noise_multiplier)
        yield {"released_norm": answer.norm()}


def into(mixture: Mixture, query: Moments) -> Callable[[Tensor, float], None]:
    """Where an answer goes: into the Gaussians."""

    def take(answer: Tensor, noise: float) -> None:
        mixture.take(answer, query, noise_multiplier=noise)
        if isinstance(query.latent, AlignedLatent):
            query.latent.make_plain(mixture.means, mixture.roots, query.errors(mixture.weights.clamp(min=1), noise))

    return take


def into_latent(latent: Latent, query: SumInWaves) -> Callable[[Tensor, float], None]:
    """Where an answer goes: into the latent."""
    return lambda answer, _noise: query.take(answer, latent)


def cut(run: Run[Config], state: "State") -> Iterator[Logs]:
    """Centres of cells: of codes that the released Gaussians draw, by k-means. Costs nothing."""
    assert state.whole is not None
    if state.step == 0:
        stream, mixture = run.rng.public("cells"), state.net.mixture
        for label in range(run.card.classes):
            normals = torch.randn(CUT_BY, 1 + mixture.axes, generator=stream).to(mixture.means.device)
            codes = state.whole(normals, torch.full((CUT_BY,), label, device=normals.device))
            mixture.means[mixture.groups == label] = k_means(codes, mixture.cells, stream).to(mixture.means)
        yield {}


def axes(run: Run[Config], state: "State", public: Records) -> Iterator[Logs]:
    """Principal axes of public pictures replace cosine waves, with their Gaussians until others come. Costs nothing.

    With an autoencoder, those of their latents. The pictures themselves are kept where they have the detail.
    """
    if state.step == 0:
        some, net = subset(public, largest_fit(run.card.shape, run.config.axes)), state.net
        images, labels = some.tensors(run.device)
        coordinates = images if net.autoencoder is None else net.autoencoder(images)
        net.latent.fit(coordinates)
        codes = net.latent.wide_code(coordinates)
        net.mixture.fit(codes, labels)
        if net.detail is not None:
            net.detail.take(torch.from_numpy(np.array(some.images)), codes)
        yield {}


def largest_fit(shape: Sequence[int], axes: int) -> int:
    """How many public pictures the principal axes are taken from, at most."""
    return max(_FEWEST * axes, min(PUBLIC, _BYTES // (4 * math.prod(shape))))


class Generator(nn.Module):
    """Standard normals [n, latent_size] and labels [n] to images [n, C, H, W] in [0, 1].

    What is faint in one is black, or of the ground where pictures are aligned. An autoencoder is no part of its state.
    """

    def __init__(self, config: Config, shape: tuple[int, ...], classes: int) -> None:
        super().__init__()
        self.threshold = config.threshold
        self.classes = classes
        self.autoencoder = PluginAutoencoder(config.autoencoder, shape) if config.autoencoder else None
        of_latents = axes_of(self.autoencoder, config.axes) if self.autoencoder else None
        of_pixels = AlignedLatent if config.align else Latent
        self.latent = of_latents or of_pixels(shape, config.axes)
        self.latent_size = 1 + self.latent.axes
        self.mixture = Mixture(classes, config.cells, self.latent.axes)
        self.detail = PublicDetail(shape, config.axes) if config.public_detail else None

    def forward(self, latents: Tensor, labels: Tensor) -> Tensor:
        """See the class."""
        codes: Tensor = self.mixture(latents, labels)
        images = self.latent.decode(codes)
        if self.autoencoder is not None:
            images = self.autoencoder.decode(images)
        if self.detail is not None:
            images = images + self.detail(codes, self.latent)
        images = images.clamp_(0, 1)  # in place: large pictures need the memory
        if isinstance(self.latent, AlignedLatent):
            return self.latent.cleared(images, codes, self.threshold)
        return images.masked_fill_(images < self.threshold * images.amax((1, 2, 3), keepdim=True), 0.0)

    @property
    def unseen(self) -> list[int]:
        """See `Mixture.unseen`."""
        return self.mixture.unseen

    @property
    def codes_one_by_one(self) -> bool:
        """Whether a code is made of its record by itself, before the query sees it."""
        return self.autoencoder is not None or isinstance(self.latent, AlignedLatent)

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """As of any module. It has as many public pictures as the state."""
        if self.detail is not None and isinstance(images := state_dict.get("detail.images"), Tensor):
            self.detail.hold(len(images))
        return super().load_state_dict(state_dict, strict=strict, assign=assign)


@dataclass
class State(contract.NetState):
    """The Gaussians have seen records through releases only. `whole` has those of whole classes, where there are cells."""

    net: Generator
    whole: Mixture | None

    def check_sent(self) -> None:
        """Refuse axes and a centre so large that one record could change how the codes of others are rounded."""
        latent = self.net.latent
        largest = max(float(latent.basis.abs().max()), float(latent.centre.abs().max()) / _FAR)
        if largest > 1 + 1e-4 or float(latent.scale) < _NARROW:
            raise ValueError("the axes, the centre or the scale of the codes is out of its range")


def start(run: Run[Config]) -> State:
    """Cosine waves, and one Gaussian for all."""
    net = generator(run.config, run.card).to(run.device)
    if net.autoencoder is not None:
        net.autoencoder.check(run.device)
    several = run.config.cells > 1
    return State(net, Mixture(run.card.classes, 1, net.latent.axes).to(run.device) if several else None)


def generator(config: Config, card: DataCard) -> Generator:
    """The network that a run releases."""
    return Generator(config, card.shape, card.classes)
