"""Codes of pictures in the latents of an autoencoder: principal axes of public latents replace those of public pixels."""

import dataclasses

import numpy as np
import torch

from gossamer.data.records import Records, at_once
from gossamer.methods.moments.class_moments import MOST
from gossamer.nets.autoencoders import PluginAutoencoder
from gossamer.nets.latent import Latent


def axes_of(autoencoder: PluginAutoencoder, axes: int) -> Latent:
    """Axes of latents before there is a public picture: the first numbers of a latent. Raises RequestError: there are fewer."""
    return Latent((autoencoder.size,), axes, torch.eye(autoencoder.size, axes))


def with_codes(autoencoder: PluginAutoencoder, latent: Latent, records: Records) -> Records:
    """The same records with codes in place of images: float64 [n, axes]. Each code follows from its own record.

    Each row has a product of its own, so that no other row changes how its sums are rounded.
    """
    step = at_once(records.shape, MOST)
    codes = np.empty((len(records), latent.axes))
    for lo in range(0, len(records), step):
        images, _ = records[lo : lo + step].tensors(latent.basis.device)
        for i, row in enumerate(autoencoder(images).split(1), start=lo):
            codes[i] = latent.wide_code(row)[0].cpu().numpy()
    return dataclasses.replace(records, images=codes)
