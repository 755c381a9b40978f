"""From noise to pictures: the stochastic Heun sampler of Karras et al. (2022), Algorithm 2, with guidance.

It can begin with noisy samples of another generator in place of noise (Meng et al. 2022, SDEdit): of the start, another method.
"""

import copy
import math
from itertools import pairwise

import torch
from torch import Tensor, nn

from gossamer.data.card import draw_labels
from gossamer.methods.contract import BaseConfig, DataCard, Draw, State
from gossamer.methods.dp_diffusion import Config
from gossamer.methods.dp_diffusion.nets import Denoiser, Generator
from gossamer.methods.job import Job
from gossamer.methods.registry import METHODS

SIGMA_MAX, SIGMA_MIN, RHO = 20.0, 0.02, 7.0


def refined_start(config: Config, card: DataCard) -> Job[BaseConfig, State]:
    """The start whose samples are refined: another method, with a generator of its own."""
    start = Job(METHODS["dp-diffusion"], config, card).first
    assert start is not None  # `check` refuses to refine nothing
    return start


@torch.no_grad()
def draw(net: nn.Module, asked: Draw[Config]) -> tuple[Tensor, Tensor]:
    """Images [n, C, H, W] in [0, 1] and their labels [n], see `Method.sample`."""
    assert isinstance(net, Generator)
    config, n, labels, stream = asked.config, asked.n, asked.labels, asked.stream
    device = next(net.denoiser.parameters()).device
    begun = None
    if net.start is not None:
        start = copy.deepcopy(net.start).cpu()  # samples come from the processor, wherever it has learnt
        images, labels = refined_start(config, asked.card).sample(start, n, labels, stream)
        begun = net.code(images.to(device))
    elif labels is None:
        labels = draw_labels(n, asked.card, stream)
    codes = heun(net.denoiser, config, (n, *net.code_shape), labels.to(device), stream, begun)
    images = net.decode(codes).clamp(0, 1)
    return torch.where(images < config.threshold, 0.0, images).cpu(), labels


def heun(
    denoiser: Denoiser,
    config: Config,
    shape: tuple[int, ...],
    labels: Tensor,
    stream: torch.Generator,
    begun: Tensor | None = None,
) -> Tensor:
    """Codes of these labels. Algorithm 2, its lines. labels: [n]; gives `shape`, whose first number is n.

    begun: codes of that shape, which are refined from the noise level `config.refine` on. None: all of it is noise.
    """
    levels = noise_levels(config.sampler_steps, SIGMA_MAX if begun is None else config.refine)
    gamma = min(config.churn, math.sqrt(2) - 1)
    x = torch.randn(shape, generator=stream).to(labels.device) * levels[0]  # l. 2
    x = x if begun is None else begun + x
    for now, following in pairwise(levels):  # l. 3
        if gamma > 0:
            raised = now * (1 + gamma)  # l. 5
            fresh = torch.randn(shape, generator=stream).to(labels.device)  # l. 4
            x, now = x + math.sqrt(raised**2 - now**2) * fresh, raised  # l. 6  # noqa: PLW2901 (t of the paper, raised)
        slope = (x - denoised(denoiser, config, x, now, labels)) / now  # l. 7
        there = x + (following - now) * slope  # l. 8
        if following > 0:  # l. 9
            slope_there = (there - denoised(denoiser, config, there, following, labels)) / following  # l. 10
            there = x + (following - now) * (slope + slope_there) / 2  # l. 11
        x = there
    return x  # l. 12


def denoised(denoiser: Denoiser, config: Config, x: Tensor, sigma: float, labels: Tensor) -> Tensor:
    """D(x; sigma, y), pushed away from the prediction without a label. Ho and Salimans 2022, equation 6."""
    sigmas = x.new_full((len(x),), sigma)
    conditional: Tensor = denoiser(x, sigmas, labels)
    if config.guidance == 0:
        return conditional
    unconditional: Tensor = denoiser(x, sigmas, torch.full_like(labels, denoiser.classes))
    return conditional + config.guidance * (conditional - unconditional)


def noise_levels(steps: int, highest: float = SIGMA_MAX) -> list[float]:
    """Equation 5: `steps` levels from the highest to SIGMA_MIN, and 0."""
    first, last = highest ** (1 / RHO), SIGMA_MIN ** (1 / RHO)
    levels = [(first + i / max(steps - 1, 1) * (last - first)) ** RHO for i in range(steps)]
    return [*levels, 0.0]
