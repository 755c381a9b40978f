"""The start whose samples are refined: another method, with a generator of its own."""

import copy

import torch
from torch import Tensor, nn

from gossamer.data.card import DataCard
from gossamer.methods.contract import BaseConfig, State
from gossamer.methods.dp_diffusion import Config
from gossamer.methods.job import Job
from gossamer.methods.registry import METHODS


def start_generator(config: Config, card: DataCard) -> nn.Module:
    """The network of the start, with fresh weights."""
    return _start(config, card).generator()


def start_samples(
    net: nn.Module, config: Config, card: DataCard, n: int, labels: Tensor | None, stream: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Images [n, C, H, W] in [0, 1] and labels [n] of the start's generator, drawn on the processor as a start draws them."""
    return _start(config, card).sample(copy.deepcopy(net).cpu(), n, labels, stream)


def _start(config: Config, card: DataCard) -> Job[BaseConfig, State]:
    start = Job(METHODS["dp-diffusion"], config, card).first
    assert start is not None  # `check` refuses to refine nothing
    return start
