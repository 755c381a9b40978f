"""Autoencoders that a plug-in adds: pictures to latents, as an encoder does, and latents back to pictures.

An autoencoder has two functions, for pictures uint8 [n, C, H, W]:

    encode(pictures): latents, floats [n, ...]
    decode(latents): pictures of the size that was encoded

It may state `side`, `channels` and `batch`, as an encoder does, and it passes the same tests before it sees a record.
"""

from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from gossamer import plugins
from gossamer.errors import RequestError
from gossamer.nets.encoders import PluginEncoder


class PluginAutoencoder(PluginEncoder):
    """Float32 images [n, C, H, W] in [0, 1] to flat latents float32 [n, size], and back. Latents keep their length.

    Pictures are resized as for an encoder, and back to the card's shape. A decoded picture of one channel is the mean of the
    decoder's channels. Copies share the autoencoder; its weights are no part of a release.

    Args:
        name: of the plug-in.
        shape: of the pictures, (C, H, W).

    Raises:
        RequestError: if there is no such autoencoder, or it does not fit the pictures.
    """

    kind: ClassVar[plugins.PluginKind] = "autoencoder"
    _latent_shape: tuple[int, ...] = ()

    def __init__(self, name: str, shape: tuple[int, ...]) -> None:
        super().__init__(name, shape)
        self._unit_length = False

    def decode(self, latents: Tensor) -> Tensor:
        """Pictures float32 [n, C, H, W] in [0, 1] from flat latents [n, size]. Each batch has the size that encoding has.

        Raises:
            ConfinedError: if the decoder fails. Its message is withheld, because it has seen records.
        """
        return self._unseen(lambda: self._decoded(latents))

    def check(self, device: str) -> None:
        """Refuse an autoencoder whose latents depend on another picture, or whose decoder gives no pictures. See the base.

        Raises:
            RequestError: naming what to do.
        """
        super().check(device)
        latents = self._tried(self._public(0, device))
        pictures, again = (self._seen(lambda: self._decoded(latents), "to decode public latents") for _ in range(2))
        if not torch.equal(pictures, again):
            raise RequestError(
                f"{self.what} gives other pictures when the same latents are decoded again. Switch off dropout, and keep "
                "nothing from one call to the next."
            )

    def _check_form(self, encoder: Any) -> None:
        """Refuse what cannot be asked, with a RequestError."""
        if isinstance(encoder, type) or not all(
            callable(getattr(encoder, part, None)) for part in ("encode", "decode")
        ):
            raise RequestError(
                f"{self.what} lacks the function encode or decode. Name an object that has both, not a class."
            )

    def _rows(self, pictures: Tensor) -> Any:
        """Flat latents of one batch; whatever is no batch of latents, as it comes."""
        latents = self._encoder.encode(pictures)
        if not isinstance(latents, Tensor) or latents.ndim < 2:
            return latents
        self._latent_shape = self._latent_shape or tuple(latents.shape[1:])
        return latents.flatten(1)

    @torch.no_grad()
    def _decoded(self, latents: Tensor) -> Tensor:
        batches = self._batches(latents)
        pictures = torch.cat([self._pictures(batch.clone().view(-1, *self._latent_shape)) for batch in batches])
        return pictures[: len(latents)].to(latents.device)

    def _pictures(self, latents: Tensor) -> Tensor:
        """Pictures of one batch, of the card's shape. Raises RequestError: the decoder gives another form."""
        pictures = self._encoder.decode(latents)
        height, width = (self._side, self._side) if self._side else self.shape[1:]
        wanted = [len(latents), self._channels, height, width]
        if not isinstance(pictures, Tensor) or pictures.dtype != torch.uint8 or list(pictures.shape) != wanted:
            given = (
                f"{pictures.dtype} {list(pictures.shape)}" if isinstance(pictures, Tensor) else type(pictures).__name__
            )
            raise RequestError(
                f"{self.what} decodes {given}, and encoded torch.uint8 {wanted}. Return pictures of the size that was encoded, "
                "or state a `side` that the network keeps."
            )
        images = pictures.float() / 255
        if images.shape[2:] != self.shape[1:]:
            images = F.interpolate(images, self.shape[1:], mode="bilinear", antialias=True).clamp(0, 1)
        return images if self._channels == self.shape[0] else images.mean(1, keepdim=True)
