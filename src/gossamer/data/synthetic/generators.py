"""Picture generators that a plug-in adds, as drawing programs: they replace the foundation model of Lin et al. 2024.

A generator has two functions, for pictures uint8 [n, C, H, W] on the processor:

    random(labels, shape, seeds): pictures of these classes. RANDOM_API
    vary(images, labels, degree, seeds): pictures that are similar, the less the larger degree (0 to 1) is. VARIATION_API

labels and seeds are int64 [n]. Equal arguments must give equal pictures. It may state `classes`, how many it knows. Where it
has a function run_on(device), that is called first.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from gossamer import plugins
from gossamer.data.synthetic.drawing import DrawingProgram
from gossamer.errors import RequestError

AT_ONCE = 64
"""Pictures that are asked for at once."""
_TRIED = 4
_SEED = 2**31 - 1


class PluginGenerator(DrawingProgram):
    """A picture generator. The parameters of a picture are its pixels, uint8 [n, C x H x W].

    Args:
        name: of the plug-in.
        shape: of the pictures, (C, H, W).

    Raises:
        RequestError: if there is no such generator; later, if it fails or gives no proper pictures.
    """

    choices, ranges, normals = 0, (), 2
    dtype = torch.uint8

    def __init__(self, name: str, shape: tuple[int, ...]) -> None:
        self._generator, self._name, self._shape = plugins.load("generator", name), name, tuple(shape)
        if not all(callable(getattr(self._generator, part, None)) for part in ("random", "vary")):
            raise RequestError(
                f"The generator {name!r} lacks the function random or vary. Name an object that has both."
            )

    @property
    def size(self) -> int:
        """How many pixels a picture has."""
        return math.prod(self._shape)

    def random(self, noise: Tensor, labels: Tensor | None = None) -> Tensor:
        """Pictures, flat, from standard normals [n, 2], whose bits are the seeds."""
        assert labels is not None
        return self._pieces(lambda y, seeds: self._generator.random(y, self._shape, seeds), labels, _seeds(noise))

    def vary(self, parameters: Tensor, degree: Tensor | float, noise: Tensor, labels: Tensor | None = None) -> Tensor:
        """Pictures near others, flat."""
        assert labels is not None
        far, pictures = float(degree), parameters.view(-1, *self._shape)
        return self._pieces(lambda x, y, seeds: self._generator.vary(x, y, far, seeds), pictures, labels, _seeds(noise))

    def draw(self, parameters: Tensor, labels: Tensor, size: int) -> Tensor:  # noqa: ARG002 (as every program)
        """The pictures themselves."""
        return parameters.view(-1, *self._shape)

    def check(self, classes: int) -> None:
        """Refuse a generator that gives no proper pictures, or others when it is asked again. Raises RequestError."""
        if (known := getattr(self._generator, "classes", classes)) != classes:
            raise RequestError(
                f"The generator {self._name!r} knows {known} classes, and the card declares {classes}. Give it a prompt for "
                "each class, in the order of the labels."
            )
        labels, stream = torch.arange(_TRIED) % classes, torch.Generator().manual_seed(0)
        noise = torch.randn(3, _TRIED, self.normals, generator=stream)
        first = self.random(noise[0], labels)
        varied = self.vary(first, 0.5, noise[1], labels)
        self.random(noise[2], labels)
        if not (
            torch.equal(self.random(noise[0], labels), first)
            and torch.equal(self.vary(first, 0.5, noise[1], labels), varied)
        ):
            raise RequestError(
                f"The generator {self._name!r} gives other pictures when it is asked again with the same seeds. Take all "
                "randomness from the seeds, and keep nothing from one call to the next."
            )

    def _pieces(self, ask: Callable[..., object], *given: Tensor) -> Tensor:
        """Flat pictures, piece by piece. The generator sees copies, on the processor."""
        if callable(move := getattr(self._generator, "run_on", None)):
            move(given[0].device)
        pieces = zip(*(part.split(AT_ONCE) for part in given), strict=True)
        found = [self._asked(ask, [part.cpu().clone() for part in piece]) for piece in pieces]
        return torch.cat(found).flatten(1).to(given[0].device)

    @torch.no_grad()
    def _asked(self, ask: Callable[..., object], given: list[Tensor]) -> Tensor:
        try:
            pictures = ask(*given)
        except (Exception, SystemExit) as error:  # the code of others raises anything; it has seen no record
            raise RequestError(
                f"The generator {self._name!r} fails ({type(error).__name__}: {' '.join(str(error).split())})."
            ) from error
        wanted = [len(given[0]), *self._shape]
        if not isinstance(pictures, Tensor) or pictures.dtype != torch.uint8 or list(pictures.shape) != wanted:
            gives = (
                f"{pictures.dtype} {list(pictures.shape)}" if isinstance(pictures, Tensor) else type(pictures).__name__
            )
            raise RequestError(f"The generator {self._name!r} gives {gives}. Return pictures torch.uint8 {wanted}.")
        return pictures.cpu().clone()  # the generator may fill its own tensor again


def _seeds(noise: Tensor) -> Tensor:
    """int64 [n], 0 or more, from the bits of standard normals [n, 2]."""
    bits = noise.float().contiguous().view(torch.int32).long() & _SEED
    return (bits[:, 0] << 31) | bits[:, 1]
