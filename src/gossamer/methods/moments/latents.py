"""Codes that are made one record at a time: in the latents of an autoencoder, or of aligned pictures."""

import copy

import torch
from torch import Tensor

from gossamer.data.records import Records
from gossamer.methods.common.bounded_sum import coded
from gossamer.nets.autoencoders import PluginAutoencoder
from gossamer.nets.latent import Latent

_FEW = 1 << 22
"""Numbers of axes that are kept in double precision, for speed. More would need much memory."""


def axes_of(autoencoder: PluginAutoencoder, axes: int) -> Latent:
    """Axes of latents before there is a public picture: the first numbers of a latent. Raises RequestError: there are fewer."""
    return Latent((autoencoder.size,), axes, torch.eye(autoencoder.size, axes))


def with_codes(autoencoder: PluginAutoencoder | None, latent: Latent, records: Records) -> Records:
    """The same records with codes in place of images: float64 [n, axes]. Each code follows from its own record.

    Each row is computed by itself, so that no other row changes how its sums are rounded. Without an autoencoder the latent
    takes the pictures as they are.
    """
    if latent.basis.numel() <= _FEW:
        latent = copy.deepcopy(latent).double()

    def code(images: Tensor) -> Tensor:
        latents = images if autoencoder is None else autoencoder(images)
        return torch.cat([latent.wide_code(row) for row in latents.split(1)])

    return coded(records, code, latent.axes, latent.basis.device)
