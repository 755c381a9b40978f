"""The networks of GS-WGAN: sizes as published, the fused layers against their plain form, spectral norms."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gossamer.errors import RequestError
from gossamer.methods.gs_wgan.nets import DcganGenerator, ProjectionCritic, ResNetGenerator, Spectral, doubled_conv


def parameters(net: nn.Module) -> int:
    return sum(p.numel() for p in net.parameters())


def test_sizes_of_the_paper() -> None:
    """Counted from the authors' code: 3,826,177 and 1,071,105 trainable numbers."""
    assert parameters(ResNetGenerator((1, 28, 28), 10)) == 3_826_177
    assert parameters(ProjectionCritic((1, 28, 28), 10)) == 1_071_105


@pytest.mark.parametrize("bernoulli", [True, False])
@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 32, 32)])
@pytest.mark.parametrize("kind", [ResNetGenerator, DcganGenerator])
def test_generators_give_images_that_depend_on_label_and_latents(
    kind: type, shape: tuple[int, int, int], bernoulli: bool
) -> None:
    torch.manual_seed(0)
    net = kind(shape, 3, width=2, latent_size=6, bernoulli=bernoulli).eval()
    latents = torch.randn(4, 6)
    labels = torch.tensor([0, 1, 2, 0])
    with torch.no_grad():
        images = net(latents, labels)
        assert images.shape == (4, *shape)
        assert 0 <= float(images.min()) <= float(images.max()) <= 1
        assert not torch.equal(net(latents, (labels + 1) % 3), images)
        assert not torch.equal(net(-latents, labels), images)
        assert torch.equal(net(2 * latents, labels), images) == bernoulli


def test_doubling_and_convolving_at_once_is_doubling_then_convolving() -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 3, 5, 5, dtype=torch.float64)
    weight, bias = torch.randn(4, 3, 3, 3, dtype=torch.float64), torch.randn(4, dtype=torch.float64)
    plain = F.conv2d(F.interpolate(x, scale_factor=2, mode="nearest"), weight, bias, padding=1)
    torch.testing.assert_close(doubled_conv(x, weight, bias), plain, rtol=1e-12, atol=1e-12)


def test_the_generator_is_the_one_described_layer_by_layer() -> None:
    """Against the plain form: double the pixels, convolve 32x32, cut to 28x28. float64."""
    torch.manual_seed(0)
    net = ResNetGenerator((1, 28, 28), 3, width=2, latent_size=6).double().eval()
    latents, labels = torch.randn(4, 6, dtype=torch.float64), torch.tensor([0, 1, 2, 0])

    def norm(x: Tensor) -> Tensor:
        return x / (x.square().mean(1, keepdim=True) + 1e-10).sqrt()

    codes = torch.cat([(latents > 0).double(), F.one_hot(labels, 3).double()], 1)
    x = norm(F.relu((codes @ net.code_in.divided().T + net.code_in.bias).view(4, 8, 4, 4)))
    for block in net.blocks:
        y = F.interpolate(norm(x), scale_factor=2)
        y = F.relu(norm(F.conv2d(y, block.first.divided(), block.first.bias, padding=1)))
        y = F.conv2d(y, block.second.divided(), block.second.bias, padding=1)
        x = y + F.conv2d(F.interpolate(x, scale_factor=2), block.shortcut.divided(), block.shortcut.bias)
    plain = torch.sigmoid(F.conv2d(x, net.out.divided(), net.out.bias))[:, :, :28, :28]
    torch.testing.assert_close(net(latents, labels), plain, rtol=1e-10, atol=1e-12)


def test_the_weight_is_divided_by_its_largest_singular_value() -> None:
    torch.manual_seed(0)
    layer = Spectral(nn.Conv2d(3, 8, 5))
    for _ in range(200):
        layer.divided()
    assert float(torch.linalg.matrix_norm(layer.divided().detach().flatten(1), 2)) == pytest.approx(1, rel=1e-4)


def test_the_gradient_goes_through_the_division() -> None:
    """Against the derivative of |u W v|, with directions held fixed, by autograd's own finite differences."""
    torch.manual_seed(0)
    layer = Spectral(nn.Linear(4, 3)).double().eval()
    across = F.normalize(layer.direction @ layer.weight.detach(), dim=0)
    given = torch.randn(3, 4, dtype=torch.float64)
    (found,) = torch.autograd.grad((layer.divided() * given).sum(), layer.weight)
    weight = layer.weight.detach().requires_grad_()
    (plain,) = torch.autograd.grad((weight / (layer.direction @ weight @ across) * given).sum(), weight)
    torch.testing.assert_close(found, plain)


@pytest.mark.parametrize("kind", [ResNetGenerator, ProjectionCritic])
def test_asking_changes_nothing(kind: type) -> None:
    torch.manual_seed(0)
    net = kind((1, 28, 28), 2, width=2).eval()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    inputs = torch.rand(3, 1, 28, 28).requires_grad_() if kind is ProjectionCritic else torch.randn(3, 10)
    net(inputs, torch.tensor([0, 1, 1])).sum().backward()
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())


@pytest.mark.parametrize("shape", [(1, 64, 64), (1, 28, 32), (28, 28)])
def test_other_sizes_are_refused(shape: tuple[int, ...]) -> None:
    for kind in (ResNetGenerator, DcganGenerator, ProjectionCritic):
        with pytest.raises(RequestError, match="28x28 or 32x32"):
            kind(shape, 10)
