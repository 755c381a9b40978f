"""Divergences between the codes of a group of records and a prior, from samples, with gradients for the codes.

They cannot be written as a sum over records: PriVAE's batch-wise terms (Takahashi et al. 2020, sections 5.1 and 5.2).
"""

import math
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.utils.checkpoint import checkpoint

SCALES = (0.2, 0.4, 1.0, 2.0, 4.0, 10.0)
"""C of the Cauchy kernels C / (C + (x - y)^2), section 5.1."""
_AT_ONCE = 1 << 21
"""Entries of kernels and offsets that are in memory at a time, so that a large group cannot run out of memory."""


def mmd(codes: Tensor, prior: Tensor) -> Tensor:
    """The squared MMD, dimension by dimension, with the sum of the Cauchy kernels; unbiased. One number; may be below zero.

    Takahashi et al. 2020, section 5.1; Mathieu et al. 2019. The gradient is that of the codes [n, d]; prior: draws [m, d].
    Memory does not grow with the number of pairs. A set of one has no pairs, and its within-set term counts as zero.
    """
    value: Tensor = _Mmd.apply(codes, prior)  # type: ignore[no-untyped-call]  # torch gives it no types
    return value


class _Mmd(torch.autograd.Function):
    """The value and, in the same pass, the gradient for the codes: autograd would keep twelve matrices per dimension."""

    @staticmethod
    def forward(ctx: Any, codes: Tensor, prior: Tensor) -> Tensor:
        (n, d), m = codes.shape, len(prior)
        total = codes.new_zeros(())
        gradient = torch.zeros_like(codes)
        within, slope = _kernel(codes, codes)
        total += (within - within.new_full((), float(len(SCALES) * n * d))) / max(1, n * (n - 1))
        gradient += slope * (2 / max(1, n * (n - 1)))
        across, slope = _kernel(codes, prior)
        total -= across * (2 / (n * m))
        gradient -= slope * (2 / (n * m))
        within, _ = _kernel(prior, prior)
        total += (within - within.new_full((), float(len(SCALES) * m * d))) / max(1, m * (m - 1))
        ctx.save_for_backward(gradient)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, outer: Tensor) -> tuple[Tensor, None]:
        (gradient,) = ctx.saved_tensors
        return outer * gradient, None


def _kernel(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """The sum over all pairs and dimensions of the kernels, and its derivative for x as the first argument: [n, d]."""
    total, gradient = x.new_zeros(()), torch.zeros_like(x)
    for part in y.split(_rows(x)):
        difference = x[:, None] - part[None]
        squares = difference.square()
        slope = torch.zeros_like(difference)
        for scale in SCALES:
            inverse = (squares + scale).reciprocal_()
            total += scale * inverse.sum()
            slope.addcmul_(inverse, inverse, value=scale)
        gradient -= 2 * slope.mul_(difference).sum(1)
    return total, gradient


def kl_from_prior(mean: Tensor, scale: Tensor, prior: Tensor, log_prior: Tensor) -> Tensor:
    """KL(p || q) from samples z of the prior p, where q is the mixture of the group's posteriors. One number.

    The mean over z of log p(z) - log((1/n) sum_i q(z|x_i)). Takahashi et al. 2020, section 5.2, which writes sums and leaves
    the 1/n away; averages keep the size of a group out of the term. What does not fit at once is computed again backwards.

    Args:
        mean: [n, d], of the normal posteriors q(z|x_i).
        scale: [n, d], their standard deviations. The gradient is that of means and scales.
        prior: [m, d], draws z from p.
        log_prior: [m], log p(z).
    """
    parts = prior.split(_rows(mean))
    if len(parts) == 1:
        log_q = _log_mixture(mean, scale, prior)
    else:
        log_q = torch.cat(
            [
                checkpoint(_log_mixture, mean, scale, part, use_reentrant=False, preserve_rng_state=False)
                for part in parts
            ]
        )
    return (log_prior - log_q).mean()


def _log_mixture(mean: Tensor, scale: Tensor, points: Tensor) -> Tensor:
    """log((1/n) sum_i q(z|x_i)) at each of the points, [m, d]. Gives [m]."""
    offsets = (points[:, None] - mean[None]) / scale[None]
    log_q = -0.5 * offsets.square().sum(2) - scale.log().sum(1) - 0.5 * math.log(2 * math.pi) * mean.shape[1]
    return torch.logsumexp(log_q, 1) - math.log(len(mean))


def _rows(of: Tensor) -> int:
    """How many rows are held against all of these at a time."""
    return max(1, _AT_ONCE // of.numel())
