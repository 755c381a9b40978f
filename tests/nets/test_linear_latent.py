"""Linear latents: axes from formulas, or from public pictures."""

import pytest
import torch

from gossamer.errors import RequestError
from gossamer.nets.latent import Latent, cosines


@pytest.mark.parametrize(("shape", "axes"), [((1, 28, 28), 64), ((3, 8, 6), 144), ((1, 5, 7), 35)])
def test_cosines_are_orthonormal(shape: tuple[int, ...], axes: int) -> None:
    basis = cosines(shape, axes)
    torch.testing.assert_close(basis.t() @ basis, torch.eye(axes), atol=1e-5, rtol=0)


def test_cosines_come_low_ones_first() -> None:
    """Flat first, then one half period; of colours, grey waves up to (2, 2) before the first difference of colours."""
    flat = cosines((1, 4, 6), 1)[:, 0]
    torch.testing.assert_close(flat, torch.full((24,), 24**-0.5))
    grey = cosines((3, 8, 8), 9).view(3, 64, 9)
    torch.testing.assert_close(grey[0], grey[1])
    red, green, blue = cosines((3, 8, 8), 12).view(3, 64, 12)[:, :, 11]
    torch.testing.assert_close(red, -blue)
    torch.testing.assert_close(green, torch.zeros(64))


def test_all_cosines_lose_nothing() -> None:
    images = torch.rand(5, 1, 6, 6, generator=torch.Generator().manual_seed(0))
    latent = Latent((1, 6, 6), 36)
    torch.testing.assert_close(latent.decode(latent.code(images)), images, atol=1e-5, rtol=0)


def test_fit_takes_principal_axes_of_public_pictures() -> None:
    """Against numpy's singular values; codes then have mean 0, and standard deviation 1 on average over the axes."""
    images = torch.rand(300, 1, 6, 6, generator=torch.Generator().manual_seed(1)) ** 3
    images[:, :, :3] += images[:, :, 3:]
    latent = Latent((1, 6, 6), 5)
    latent.fit(images)
    codes = latent.code(images)
    torch.testing.assert_close(codes.mean(0), torch.zeros(5), atol=1e-4, rtol=0)
    flat = images.flatten(1)
    values = torch.linalg.svdvals(flat - flat.mean(0))[:5] / 300**0.5
    expected = values / values.square().mean().sqrt()
    torch.testing.assert_close(codes.std(0, correction=0), expected, atol=1e-3, rtol=0)


def test_refusals() -> None:
    with pytest.raises(RequestError, match="fewer axes"):
        Latent((1, 4, 4), 17)
    with pytest.raises(RequestError, match="too few for 9 principal axes"):
        Latent((1, 4, 4), 9).fit(torch.rand(9, 1, 4, 4))


def test_axes_of_few_pictures_are_those_of_many() -> None:
    """Fewer pictures than numbers: the same mean, axes and scale as numpy's singular values give."""
    images = torch.rand(40, 3, 8, 8, generator=torch.Generator().manual_seed(2)) ** 3
    latent = Latent((3, 8, 8), 5)
    latent.fit(images)
    flat = images.flatten(1).double()
    _, values, axes = torch.linalg.svd(flat - flat.mean(0), full_matrices=False)
    torch.testing.assert_close((axes[:5] @ latent.basis.double()).abs(), torch.eye(5).double(), atol=1e-4, rtol=0)
    torch.testing.assert_close(latent.scale.double(), (values[:5].square().mean() / 40).sqrt(), atol=1e-5, rtol=0)


def test_codes_in_double_precision_are_the_codes_in_pieces_too(monkeypatch: pytest.MonkeyPatch) -> None:
    images = torch.rand(7, 1, 6, 6, generator=torch.Generator().manual_seed(0))
    latent = Latent((1, 6, 6), 9)
    whole = latent.wide_code(images)
    assert whole.dtype == torch.float64
    torch.testing.assert_close(whole.float(), latent.code(images), atol=1e-5, rtol=0)
    monkeypatch.setattr("gossamer.nets.latent._PIECE", 5)
    assert len(latent.pieces) == 8
    torch.testing.assert_close(latent.wide_code(images), whole, atol=1e-12, rtol=0)


def test_low_waves_of_a_large_picture() -> None:
    """Those of all waves, in their order."""
    every, low = cosines((1, 12, 9), 108), cosines((1, 12, 9), 6)
    assert torch.equal(every[:, :6], low)
