"""Autoencoders of plug-ins: how pictures reach the two functions, what is refused before a record is read, what is withheld."""

import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gossamer import plugins
from gossamer.errors import ConfinedError, PrivacyError, RequestError
from gossamer.nets.autoencoders import PluginAutoencoder

SHAPE = (1, 8, 8)
GREY = 201


class Halved:
    """Means of 2x2 pixels, and back. All sums are exact."""

    def encode(self, pictures: Tensor) -> Any:
        return F.avg_pool2d(pictures.float(), 2) / 64

    def decode(self, latents: Tensor) -> Any:
        return (F.interpolate(latents, scale_factor=2.0) * 64).round().clamp(0, 255).byte()


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    yield
    plugins._added.pop(("autoencoder", "toy"), None)


def made(autoencoder: object, shape: tuple[int, ...] = SHAPE) -> PluginAutoencoder:
    plugins.add("autoencoder", "toy", autoencoder)
    return PluginAutoencoder("toy", shape)


def pictures(n: int, shape: tuple[int, ...] = SHAPE) -> Tensor:
    return torch.randint(256, (n, *shape), generator=torch.Generator().manual_seed(0)) / 255


def test_latents_keep_their_length_and_come_back_as_pictures() -> None:
    net = made(Halved())
    net.check("cpu")
    latents = net(pictures(5))
    assert net.size == 16
    torch.testing.assert_close(latents, F.avg_pool2d(pictures(5) * 255, 2).flatten(1) / 64)
    back = net.decode(latents)
    assert back.shape == (5, *SHAPE)
    torch.testing.assert_close(
        back, F.interpolate(F.avg_pool2d(pictures(5), 2), scale_factor=2), atol=0.6 / 255, rtol=0
    )


def test_a_side_and_channels_that_are_stated_are_made_and_undone() -> None:
    """Grey pictures of 8x12 reach a network of three channels and 16x16, and come back grey and 8x12."""

    class Colour(Halved):
        side, channels = 16, 3
        seen: list[tuple[int, ...]] = []  # noqa: RUF012 (a record of the calls)

        def encode(self, pictures: Tensor) -> Tensor:
            self.seen.append(tuple(pictures.shape))
            assert torch.equal(pictures[:, :1].expand(-1, 3, -1, -1), pictures)
            return Halved.encode(self, pictures)

    net = made(Colour(), (1, 8, 12))
    net.check("cpu")
    even = torch.full((3, 1, 8, 12), 0.4)
    torch.testing.assert_close(net.decode(net(even)), even, atol=1e-6, rtol=0)
    assert set(Colour.seen) == {(1, 3, 16, 16)}
    assert net.size == 3 * 8 * 8


def test_decoding_has_batches_of_the_stated_size_too() -> None:
    class InFours(Halved):
        batch = 4
        seen: list[int] = []  # noqa: RUF012 (a record of the calls)

        def decode(self, latents: Tensor) -> Tensor:
            self.seen.append(len(latents))
            return Halved.decode(self, latents)

    net = made(InFours())
    latents = net(pictures(6))
    assert torch.equal(net.decode(latents), torch.cat([net.decode(latents[:1]), net.decode(latents[1:])]))
    assert set(InFours.seen) == {4}


class WithDropout(Halved, nn.Module):
    def encode(self, pictures: Tensor) -> Tensor:
        return F.dropout(Halved.encode(self, pictures))  # whatever the mode is


class DecodesWithDropout(Halved):
    def decode(self, latents: Tensor) -> Tensor:
        return Halved.decode(self, F.dropout(latents))


class InTrainingMode(Halved, nn.Module):
    batch = 8

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(1)

    def encode(self, pictures: Tensor) -> Tensor:
        self.norm.train()
        found: Tensor = self.norm(Halved.encode(self, pictures))
        return found


class Sampled(Halved):
    def encode(self, pictures: Tensor) -> Tensor:
        mean: Tensor = Halved.encode(self, pictures)
        return mean + 0.01 * torch.randn_like(mean)


class Half:
    def encode(self, pictures: Tensor) -> Tensor:
        return pictures.float()


def encoding(change: Callable[[Tensor], Any]) -> Halved:
    class Other(Halved):
        def encode(self, pictures: Tensor) -> Any:
            return change(super().encode(pictures))

    return Other()


def decoding(change: Callable[[Tensor], Any]) -> Halved:
    class Other(Halved):
        def decode(self, latents: Tensor) -> Any:
            return change(super().decode(latents))

    return Other()


def raises(_: Tensor) -> Tensor:
    raise OSError("no weights\nhere")


REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    "dropout": (WithDropout, "other features when the same pictures come again"),
    "a sample of the posterior": (Sampled, "other features when the same pictures come again"),
    "batch norm in training mode": (InTrainingMode, "looks at the other pictures of a batch"),
    "latents that are not finite": (lambda: encoding(lambda z: z / 0 * 0), "that are not finite"),
    "whole numbers": (lambda: encoding(Tensor.long), r"gives torch.int64 \[1, 16\]"),
    "no tensor": (lambda: encoding(Tensor.tolist), "gives list. Return floating-point"),
    "fails to encode": (lambda: encoding(raises), r"fails on a batch of public pictures \(OSError: no weights here\)"),
    "ends the process": (lambda: encoding(sys.exit), r"fails on a batch of public pictures \(SystemExit"),
    "dropout in the decoder": (DecodesWithDropout, "other pictures when the same latents are decoded again"),
    "another size": (lambda: decoding(lambda p: p[:, :, 1:]), r"decodes torch.uint8 \[1, 1, 7, 8\], and encoded"),
    "pixels from 0 to 1": (lambda: decoding(lambda p: p / 255), r"decodes torch.float32 \[1, 1, 8, 8\]"),
    "no picture": (lambda: decoding(lambda p: p.tolist()), "decodes list"),
    "fails to decode": (lambda: decoding(raises), r"fails to decode public latents \(OSError: no weights here\)"),
    "ends the process in the decoder": (lambda: decoding(sys.exit), r"fails to decode public latents \(SystemExit"),
    "no decoder": (Half, "lacks the function encode or decode"),
    "a class": (lambda: Halved, "Name an object that has both, not a class"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_an_autoencoder_is_refused_before_a_record_is_read(case: str) -> None:
    make, says = REFUSED[case]
    with pytest.raises(RequestError, match=says) as caught:
        made(make()).check("cpu")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("how", [raises, sys.exit])
def test_what_it_says_when_it_fails_on_a_record_is_withheld(how: Callable[[Any], Any]) -> None:
    """In the decoder too: it may have kept a record."""

    class Failing(Halved):
        armed = False

        def encode(self, pictures: Tensor) -> Any:
            return how(pictures) if bool((pictures == GREY).all()) else super().encode(pictures)

        def decode(self, latents: Tensor) -> Any:
            return how(latents) if self.armed else super().decode(latents)

    failing = Failing()
    net = made(failing)
    net.check("cpu")
    with pytest.raises(ConfinedError, match="message is withheld") as caught:
        net(torch.full((1, *SHAPE), GREY / 255))
    assert caught.value.__cause__ is caught.value.__context__ is None
    failing.armed = True
    with pytest.raises(ConfinedError, match="message is withheld") as caught:
        net.decode(torch.zeros(1, 16))
    assert "weights" not in str(caught.value)
    assert caught.value.__cause__ is caught.value.__context__ is None


def test_one_that_changes_while_it_sees_records_is_noticed() -> None:
    class Drifting(Halved):
        shift = 0.0

        def encode(self, pictures: Tensor) -> Tensor:
            self.shift += float((pictures == GREY).all())
            return Halved.encode(self, pictures) + self.shift

    net = made(Drifting())
    net.check("cpu")
    with pytest.raises(PrivacyError, match="The autoencoder 'toy' changed while it saw the records"):
        net(torch.full((1, *SHAPE), GREY / 255))


def test_latents_of_a_record_that_are_not_finite_are_zero_and_what_is_written_over_is_a_copy() -> None:
    class Rare(Halved):
        def encode(self, pictures: Tensor) -> Tensor:
            found: Tensor = Halved.encode(self, pictures) / (pictures != GREY).any()
            pictures.zero_()
            return found

        def decode(self, latents: Tensor) -> Tensor:
            found: Tensor = Halved.decode(self, latents)
            latents.zero_()
            return found

    net, images = made(Rare()), torch.cat([torch.full((1, *SHAPE), GREY / 255), pictures(1)])
    net.check("cpu")
    kept = images.clone()
    latents = net(images)
    assert torch.equal(images, kept)
    assert latents[0].tolist() == [0.0] * 16
    assert (latents[1] > 0).all()
    before = latents.clone()
    net.decode(latents)
    assert torch.equal(latents, before)
