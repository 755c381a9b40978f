"""Codes that are made one record at a time: in the latents of an autoencoder, or of aligned pictures."""

import copy
import dataclasses

import numpy as np
import torch

from gossamer.data.records import Records, at_once
from gossamer.methods.common.bounded_sum import MOST
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
    step = at_once(records.shape, MOST)
    codes = np.empty((len(records), latent.axes))
    if latent.basis.numel() <= _FEW:
        latent = copy.deepcopy(latent).double()
    for lo in range(0, len(records), step):
        images, _ = records[lo : lo + step].tensors(latent.basis.device)
        latents = images if autoencoder is None else autoencoder(images)
        for i, row in enumerate(latents.split(1), start=lo):
            codes[i] = latent.wide_code(row)[0].cpu().numpy()
    return dataclasses.replace(records, images=codes)
