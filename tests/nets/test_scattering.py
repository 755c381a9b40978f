"""Wavelet scattering against plain loops over pixels, and the facts that its formulas promise."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from gossamer.errors import RequestError
from gossamer.nets.scattering import Scattering, averages, wavelets

Filter = dict[tuple[int, int], complex]


def picture(*shape: int, seed: int = 0) -> Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed))


def wave(height: int, width: int, j: int, angle: int) -> np.ndarray:
    """The Morlet wavelet of scale j, offset by offset, on a torus: complex [height, width]."""
    theta, deviation = math.pi * angle / 8, 0.8 * 2**j
    total = np.zeros((height, width), complex)
    bump = np.zeros((height, width))
    for y in range(-3 * height, 3 * height):
        for x in range(-3 * width, 3 * width):
            along = x * math.cos(theta) + y * math.sin(theta)
            across = y * math.cos(theta) - x * math.sin(theta)
            envelope = math.exp(-(along**2 + across**2 / 4) / (2 * deviation**2))
            total[y % height, x % width] += envelope * np.exp(1j * 3 * math.pi / 4 / 2**j * along)
            bump[y % height, x % width] += envelope
    return (total - bump * total.sum() / bump.sum()) / bump.sum()


def low_pass(height: int, width: int, scales: int) -> np.ndarray:
    """The Gaussian of the averages, on a torus, with sum 1: [height, width]."""
    total = np.zeros((height, width))
    for y in range(-3 * height, 3 * height):
        for x in range(-3 * width, 3 * width):
            total[y % height, x % width] += math.exp(-(x**2 + y**2) / (2 * (0.8 * 2 ** (scales - 1)) ** 2))
    return total / total.sum()


def convolved(image: np.ndarray, kernel: np.ndarray) -> np.ndarray:
    """Circular convolution, pixel by pixel."""
    result = np.zeros(image.shape, complex)
    for y in range(image.shape[0]):
        for x in range(image.shape[1]):
            result += image[y, x] * np.roll(kernel, (y, x), (0, 1))
    return result


def test_coefficients_are_those_of_plain_convolutions() -> None:
    """All 81 maps of an 8x12 picture: order 0, then 1 by scale and angle, then 2 by first and second angle. To 1e-6."""
    image = picture(2, 8, 12)
    found = Scattering((2, 8, 12)).coefficients(image)
    assert found.shape == (2, 81, 2, 3)
    x, phi = image[1].double().numpy(), low_pass(8, 12, 2)
    expected = [convolved(x, phi)]
    moduli = {(j, angle): abs(convolved(x, wave(8, 12, j, angle))) for j in range(2) for angle in range(8)}
    expected += [convolved(moduli[j, angle], phi) for j in range(2) for angle in range(8)]
    for first in range(8):
        for second in range(8):
            again = abs(convolved(moduli[0, first], wave(8, 12, 1, second)))
            expected.append(convolved(again, phi))
    for number, values in enumerate(expected):
        np.testing.assert_allclose(found[1, number].double(), values[2::4, 2::4].real, rtol=0, atol=1e-6)


def test_a_large_picture_has_three_scales_and_every_later_pair_of_them() -> None:
    """64x64: 1 + 24 + 3 x 64 maps of 8x8. Two of the last kind by Fourier transforms in double precision, to 1e-6."""
    image = picture(1, 64, 64)
    found = Scattering((1, 64, 64)).coefficients(image)[0]
    assert found.shape == (217, 8, 8)
    psi, x = wavelets(64, 64, 3).double().numpy(), image[0].double().numpy()
    row = averages(64, 3).double().numpy()

    def modulus(of: np.ndarray, j: int, angle: int) -> np.ndarray:
        return abs(np.fft.ifft2(np.fft.fft2(of) * psi[j, angle]))

    # After order 0 and 24 of order 1: each angle of scale 0 with scales 1 and 2; then each of scale 1 with scale 2.
    for number, path in ((25 + 3 * 16 + 8 + 5, ((0, 3), (2, 5))), (25 + 128 + 2 * 8 + 7, ((1, 2), (2, 7)))):
        expected = row @ modulus(modulus(x, *path[0]), *path[1]) @ row.T
        np.testing.assert_allclose(found[number].double(), expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("side", [8, 28, 33])
def test_wavelets_have_no_mean_and_look_where_they_should(side: int) -> None:
    """Their sums are zero; each is largest at frequency (3 pi / 4) / 2^j along its angle, to one step of the grid."""
    psi = wavelets(side, side, 2)
    assert psi[:, :, 0, 0].abs().max() < 1e-7
    for j in range(2):
        for angle in range(8):
            y, x = divmod(int(psi[j, angle].argmax()), side)
            wanted = 3 / 8 / 2**j * side * np.array([math.sin(math.pi * angle / 8), math.cos(math.pi * angle / 8)])
            off = (np.array([y, x]) - wanted + side / 2) % side - side / 2
            assert abs(off).max() <= 1


def test_averages_keep_the_mean() -> None:
    for side, scales in ((28, 2), (32, 2), (64, 3), (30, 2)):
        rows = averages(side, scales)
        assert len(rows) == len(range(2 ** (scales - 1), side, 2**scales))
        torch.testing.assert_close(rows.sum(1), torch.ones(len(rows)))
        assert rows.argmax(1).tolist() == list(range(2 ** (scales - 1), side, 2**scales))


def test_a_picture_of_one_grey_has_nothing_but_its_grey() -> None:
    found = Scattering((1, 28, 28)).coefficients(torch.full((1, 28, 28), 0.7))[0]
    torch.testing.assert_close(found[0], torch.full((7, 7), 0.7))
    assert found[1:].abs().max() < 1e-6


def test_a_shift_by_four_pixels_shifts_the_maps_by_one() -> None:
    scattering, image = Scattering((1, 28, 28)), picture(1, 28, 28)
    moved = scattering.coefficients(image.roll((4, -8), (1, 2)))
    torch.testing.assert_close(moved, scattering.coefficients(image).roll((1, -2), (2, 3)), rtol=0, atol=1e-6)


@pytest.mark.parametrize(("shape", "group"), [((1, 28, 28), 3), ((3, 32, 32), 3), ((1, 64, 64), 7)])
def test_features_are_normalised_within_groups_of_maps_of_one_picture(shape: tuple[int, int, int], group: int) -> None:
    scattering, images = Scattering(shape), picture(3, *shape)
    features = scattering(images)
    maps = shape[0] * (217 if shape[1] == 64 else 81)
    side = shape[1] // (8 if shape[1] == 64 else 4)
    assert features.shape == (3, maps * side**2 + 1) == (3, scattering.size)
    assert (features[:, -1] == 1).all()
    coefficients = scattering.coefficients(images[2]).double().reshape(-1, group * side**2)
    mean, spread = coefficients.mean(1, keepdim=True), coefficients.std(1, correction=0, keepdim=True)
    expected = ((coefficients - mean) / (spread + 1e-4)).flatten()
    torch.testing.assert_close(features[2, :-1].double(), expected, rtol=1e-3, atol=1e-3)


def test_a_picture_has_the_same_features_to_the_bit_whatever_stands_beside_it() -> None:
    """No statistic over records, and no order of summation that depends on how many there are."""
    scattering, images = Scattering((1, 28, 28)), picture(5, 1, 28, 28)
    together = scattering(images)
    for i in range(5):
        assert torch.equal(scattering(images[i : i + 1])[0], together[i])
    assert torch.equal(scattering(torch.cat([torch.ones(2, 1, 28, 28), images[3:]]))[2:], together[3:])
    assert scattering(images[:0]).shape == (0, scattering.size)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_threads_share_the_pictures_and_leave_their_number_as_it_was(threads: int) -> None:
    scattering, images = Scattering((1, 28, 28)), picture(5, 1, 28, 28)
    expected, before = scattering(images), torch.get_num_threads()
    try:
        torch.set_num_threads(threads)
        torch.testing.assert_close(scattering(images), expected)
        assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)


def test_no_weights_file_holds_a_filter() -> None:
    scattering = Scattering((1, 16, 16))
    assert scattering.state_dict() == {}
    assert list(scattering.parameters()) == []


def test_pictures_that_are_too_small_are_refused() -> None:
    with pytest.raises(RequestError, match="at least 8x8, not 7x28"):
        Scattering((1, 7, 28))
