"""A generator of Private Evolution (`pe.api`) as a picture generator of `gossamer fit evolve`.

    # my_generator.py
    from pe.api.image import StableDiffusion
    from private_evolution import PEGenerator
    generator = PEGenerator(StableDiffusion(...), names=["benign", "malignant"], licence="...", trained_on="...")

    gossamer --plugin my_generator:generator fit evolve --generator my_generator:generator ...

It is for generators that vary a picture by itself. Those that need how the picture was drawn, such as DrawText, are refused by
the first variation. Pictures are made one by one, so that each depends on its own seed alone. That is slow on a GPU.
"""

import random
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from PIL import Image
from torch import Tensor


class PEGenerator:
    """What `evolve` asks of a picture generator, by an object of `pe.api.API`.

    Args:
        api: the generator of Private Evolution.
        names: of the classes, in order, as the generator knows them.
        degrees: how many degrees of variation the generator was given, from the largest to the smallest.
        licence: of its weights, for the certificate.
        trained_on: what its weights were trained on, for the certificate. No private record may be among it.
    """

    def __init__(self, api: Any, names: Sequence[str], *, degrees: int = 1, licence: str, trained_on: str) -> None:
        self.api, self.names, self.degrees = api, [*names], degrees
        self.licence, self.trained_on = licence, trained_on

    def random(self, labels: Tensor, shape: tuple[int, ...], seeds: Tensor) -> Tensor:
        """Draw pictures of these classes: uint8 [n, *shape]. labels, seeds: int64 [n]."""
        return torch.stack(
            [
                _fitting(self.api.random_api(self._data(label).metadata.label_info[0], 1), shape)
                for label in self._seeded(labels, seeds)
            ]
        )

    def vary(self, images: Tensor, labels: Tensor, degree: float, seeds: Tensor) -> Tensor:
        """Draw pictures like these: uint8 [n, C, H, W]. degree: 1 varies the most, 0 the least."""
        iteration = round((1 - degree) * (self.degrees - 1)) - 1
        return torch.stack(
            [
                _fitting(self.api.variation_api(self._data(label, image, iteration=iteration)), image.shape)
                for image, label in zip(images, self._seeded(labels, seeds), strict=True)
            ]
        )

    def _data(self, label: int, *images: Tensor, **more: int) -> Any:
        """Pictures of a class as Private Evolution holds them."""
        from pe.constant.data import IMAGE_DATA_COLUMN_NAME, LABEL_ID_COLUMN_NAME  # noqa: PLC0415  # loaded where the package is
        from pe.data import Data  # noqa: PLC0415  # loaded where the package is

        coloured = [image.expand(3, -1, -1).permute(1, 2, 0).numpy() for image in images]
        frame = pd.DataFrame({IMAGE_DATA_COLUMN_NAME: coloured, LABEL_ID_COLUMN_NAME: [0] * len(coloured)})
        return Data(data_frame=frame, metadata={"label_info": [{"name": self.names[label]}], **more})

    def _seeded(self, labels: Tensor, seeds: Tensor) -> Iterator[int]:
        """Each label, after its seed: all generators of random numbers begin anew."""
        for label, seed in zip(labels.tolist(), seeds.tolist(), strict=True):
            random.seed(seed)
            np.random.seed(seed % 2**32)
            torch.manual_seed(seed)
            yield label


def _fitting(data: Any, shape: Sequence[int]) -> Tensor:
    """The one picture of an answer, in this shape: grey where there is one channel, resized where the size differs."""
    from pe.constant.data import IMAGE_DATA_COLUMN_NAME  # noqa: PLC0415  # loaded where the package is

    (pixels,) = data.data_frame[IMAGE_DATA_COLUMN_NAME]
    picture = Image.fromarray(np.asarray(pixels, np.uint8)).convert("L" if shape[0] == 1 else "RGB")
    resized = np.array(picture.resize((shape[2], shape[1]), Image.Resampling.BOX))
    return torch.from_numpy(resized).view(shape[1], shape[2], shape[0]).permute(2, 0, 1)
