"""Encoders that a plug-in adds: pictures to features. They are tested on public pictures before they see a record.

An encoder is a function or a module, uint8 [n, C, H, W] to floats [n, width]. It may state `side` (height and width that it
takes, or the least and the most of them), `channels`, `unit_length` (True unless it says otherwise) and `batch`. Nothing that
it does may depend on other pictures. PyTorch may round a row otherwise at another place, or in a batch of another size. So an
encoder gets one picture in a call. Where it states a larger `batch`, each batch has that size and the last is filled up; then
the test compares bits.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gossamer import plugins
from gossamer.errors import ConfinedError, PrivacyError, RequestError, withheld

Result = TypeVar("Result")

FEWEST = 8
"""Public pictures in the test of an encoder, at least."""


def _side_of(encoder: Any, shape: tuple[int, ...]) -> Any:
    """The side that an encoder takes; of a pair, the longer side of the pictures, but within the pair."""
    side = getattr(encoder, "side", 0)
    if isinstance(side, tuple) and len(side) == 2 and all(type(end) is int for end in side):
        least, most = side
        return min(max(*shape[1:], least), most)
    return side


class PluginEncoder:
    """Float32 images [n, C, H, W] in [0, 1] to features float32 [n, size], each of length 1 unless the encoder says otherwise.

    Pictures are resized once, by bilinear interpolation with antialiasing. One channel is repeated where more are wanted. A row
    that is not finite becomes zero. Copies share the encoder; its weights are no part of a release.

    Args:
        name: of the plug-in.
        shape: of the pictures, (C, H, W).

    Raises:
        RequestError: if there is no such plug-in, or it does not fit the pictures.
    """

    kind: ClassVar[plugins.PluginKind] = "encoder"

    def __init__(self, name: str, shape: tuple[int, ...]) -> None:
        encoder, self.what = plugins.load(self.kind, name), f"The {self.kind} {name!r}"
        self._check_form(encoder)
        self.name, self.shape, self._encoder = name, tuple(shape), encoder
        parts = [encoder, *getattr(encoder, "__dict__", {}).values()]
        self._modules = [part for part in parts if isinstance(part, nn.Module)]
        self._batch, self._side = getattr(encoder, "batch", 1), _side_of(encoder, shape)
        self._channels = getattr(encoder, "channels", shape[0])
        self._unit_length = bool(getattr(encoder, "unit_length", True))
        self._reference: Tensor | None = None
        for fact, value, least in (("batch", self._batch, 1), ("side", self._side, 0)):
            if type(value) is not int or value < least:
                raise RequestError(f"{self.what} states {fact} = {value!r}. State a whole number.")
        if self._channels != shape[0] and shape[0] != 1:
            raise RequestError(
                f"{self.what} takes {self._channels} channels, and the card declares {shape[0]}. Take another {self.kind}."
            )
        self.size = 0
        self.size = self._tried(torch.zeros(1, *shape)).shape[1]
        """Number of features."""

    def _check_form(self, encoder: Any) -> None:
        """Refuse what cannot be asked, with a RequestError."""
        if isinstance(encoder, type) or not callable(encoder):
            raise RequestError(
                f"{self.what} cannot be called with pictures. Name a function or a torch.nn.Module, not a class."
            )

    def _rows(self, pictures: Tensor) -> Any:
        """Its answer for one batch, as it comes."""
        return self._encoder(pictures)

    def __call__(self, images: Tensor) -> Tensor:
        """Features of pictures that may be private.

        Raises:
            ConfinedError: if the encoder fails. Its message is withheld, because it could hold a record.
            PrivacyError: if its features of public pictures are not those of `check` any more.
        """
        features, changed = self._unseen(lambda: (self._features(images), self._changed(images.device)))
        if changed:
            raise PrivacyError(
                f"{self.what} changed while it saw the records, so that features depend on other records. Keep "
                "nothing from one call to the next, and start a new run."
            )
        return features

    def check(self, device: str) -> None:
        """Refuse an encoder whose features of a picture depend on anything else. Reads public random pictures alone.

        Raises:
            RequestError: naming what to do.
        """
        first, other = (self._public(seed, device) for seed in (0, 1))
        expected = self._tried(first, instead=math.nan)
        if expected.isnan().any():
            raise self._refusal("gives features of random pictures that are not finite", "Mend it")
        again = "Switch off dropout, and keep nothing from one call to the next"
        alone = "Normalise each picture by itself, or state batch = 1: then each has a call of its own"
        even = (torch.arange(len(first), device=device) % 2 == 0)[:, None, None, None]
        for found, problem, remedy in (
            (self._tried(first), "gives other features when the same pictures come again", again),
            *(
                (self._beside(first, chosen, others, expected), "looks at the other pictures of a batch", alone)
                for others in (other, torch.zeros_like(first))
                for chosen in (even, ~even)
            ),
            *(
                (self._tried(first.roll(by, 0)).roll(-by, 0), "looks at a picture's place in the batch", alone)
                for by in (1, 3)
            ),
            (self._tried(first), "remembers pictures", again),
        ):
            if not torch.equal(found, expected):
                raise self._refusal(problem, remedy)
        self._reference = expected

    def state_dict(self) -> dict[str, Any]:
        """Nothing: a checkpoint holds no weights of an encoder."""
        return {}

    def load_state_dict(self, saved: dict[str, Any], /) -> None:
        """Do nothing."""

    def __deepcopy__(self, memo: object) -> "PluginEncoder":
        return self

    def _beside(self, first: Tensor, chosen: Tensor, others: Tensor, expected: Tensor) -> Tensor:
        """The features that chosen pictures have beside others; for all other pictures, those expected."""
        found = self._tried(torch.where(chosen, first, others))
        return torch.where(chosen.flatten(1), found, expected)

    def _changed(self, device: torch.device) -> bool:
        """Whether the features of public pictures are others than when they were checked on this device."""
        if self._reference is None or self._reference.device != device:
            return False
        return not torch.equal(self._features(self._public(0, device)), self._reference)

    def _public(self, seed: int, device: str | torch.device) -> Tensor:
        """Random pictures [n, C, H, W] in [0, 1], at least two batches: half of them of coarse blocks, half of pixels."""
        n, stream = self._batch * max(2, -(-FEWEST // self._batch)), torch.Generator().manual_seed(seed)
        fine = torch.randint(256, (n, *self.shape), generator=stream)
        coarse = torch.randint(256, (n, self.shape[0], 4, 4), generator=stream).float()
        coarse = F.interpolate(coarse, self.shape[1:], mode="nearest").long()
        return (torch.where((torch.arange(n) % 2 == 0)[:, None, None, None], fine, coarse) / 255).to(device)

    def _refusal(self, problem: str, remedy: str) -> RequestError:
        return RequestError(f"{self.what} {problem}. A record's features must depend on that record alone. {remedy}.")

    def _unseen(self, compute: Callable[[], Result]) -> Result:
        """Run its code on what may be private. Raises ConfinedError: it fails. Its message is withheld."""
        try:
            return compute()
        except (Exception, SystemExit) as error:  # whatever it is, its message could hold a record
            failure = withheld(error)
        raise ConfinedError(f"{self.what} failed: {failure}")  # raised here, so that nothing leads to the error

    def _seen(self, compute: Callable[[], Result], what: str) -> Result:
        """Run its code on public random numbers: an error is shown. Raises RequestError: it fails to do `what`."""
        try:
            return compute()
        except RequestError:
            raise
        except (Exception, SystemExit) as error:  # the code of others raises anything
            raise RequestError(f"{self.what} fails {what} ({plugins.described(error)}).") from error

    def _tried(self, images: Tensor, instead: float = 0.0) -> Tensor:
        """Features of public pictures. Raises RequestError."""
        return self._seen(lambda: self._features(images, instead), "on a batch of public pictures")

    @torch.no_grad()
    def _features(self, images: Tensor, instead: float = 0.0) -> Tensor:
        """Features of pictures [n, size]. All that happens to a picture happens in batches of one size.

        instead: what replaces each number of a row that is not finite.
        """
        batches = map(self._prepared, self._batches(images))
        rows = torch.cat([self._finished(self._asked(batch), instead) for batch in batches])
        return rows[: len(images)].to(images.device)

    def _batches(self, rows: Tensor) -> Sequence[Tensor]:
        """Rows in batches of one size, the last filled up. The networks are where the rows are, in evaluation mode."""
        for module in self._modules:
            module.to(rows.device).eval()
        missing = max(1, -(-len(rows) // self._batch)) * self._batch - len(rows)
        batches: Sequence[Tensor] = F.pad(rows, (0, 0) * (rows.dim() - 1) + (0, missing)).split(self._batch)
        return batches

    def _prepared(self, images: Tensor) -> Tensor:
        """A copy of a batch, as the encoder takes it: uint8 of its side and its channels."""
        pictures = images * 255
        if self._side and images.shape[2:] != (self._side, self._side):
            pictures = F.interpolate(pictures, (self._side, self._side), mode="bilinear", antialias=True)
        return pictures.round().clamp(0, 255).byte().expand(-1, self._channels, -1, -1).contiguous()

    def _asked(self, pictures: Tensor) -> Tensor:
        """Its answer for one batch. Raises RequestError: it has another form."""
        rows = self._rows(pictures)
        if not isinstance(rows, Tensor) or not rows.is_floating_point() or rows.ndim != 2 or not rows.shape[1]:
            given = f"{rows.dtype} {list(rows.shape)}" if isinstance(rows, Tensor) else type(rows).__name__
            raise RequestError(f"{self.what} gives {given}. Return floating-point features [pictures, width].")
        if len(rows) != len(pictures) or self.size not in (0, rows.shape[1]):
            raise RequestError(
                f"{self.what} gives {list(rows.shape)} for {len(pictures)} pictures, and not always as many "
                "features. Return one row of the same width for each picture."
            )
        return rows

    def _finished(self, rows: Tensor, instead: float) -> Tensor:
        """Rows in single precision, of length 1."""
        rows = rows.float()
        if self._unit_length:
            rows = (rows / rows.double().norm(dim=1, keepdim=True).clamp(min=1e-30)).float()
        return torch.where(rows.isfinite().all(1, keepdim=True), rows, instead)
