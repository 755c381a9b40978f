"""The DCGAN pair against the paper's parameter counts, and the flat vector against the module it stands for."""

import copy

import pytest
import torch
from torch import nn

from gossamer.errors import RequestError
from gossamer.nets.dcgan import Discriminator, Generator, Spread
from gossamer.nets.flat import flatten, gradient

GREY28 = (1, 28, 28)


def size(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def test_sizes_are_the_papers():
    assert size(Generator(GREY28, 10)) == 2_272_129
    assert size(Discriminator(GREY28, 10)) == 1_724_289
    assert [size(Discriminator(GREY28, 10, width)) for width in (16, 32, 64)] == [29_169, 111_585, 436_161]


def test_celeba_variant():
    """By hand: 4x4 kernels throughout, 3 channels, 2 labels; the paper rounds to 3.16M and 2.64M."""
    assert size(Generator((3, 32, 32), 2)) == 3_160_963
    assert size(Discriminator((3, 32, 32), 2)) == 2_635_649


@pytest.mark.parametrize("shape", [GREY28, (3, 28, 28), (1, 32, 32), (3, 32, 32)])
def test_forward(shape):
    torch.manual_seed(0)
    G, D = Generator(shape, 4, width=4, latent_size=6), Discriminator(shape, 4, width=4)
    latents, labels = torch.randn(5, 6), torch.tensor([0, 1, 2, 3, 0])
    other = (labels + 1) % 4
    images = G(latents, labels)
    assert images.shape == (5, *shape)
    assert 0 <= images.min() < images.max() <= 1
    logits = D(images, labels)
    assert logits.shape == (5,)
    assert not torch.equal(images[0], G(latents, other)[0]), "the generator must see the labels"
    assert not torch.equal(logits, D(images, other)), "the discriminator must see the labels"
    one_by_one = torch.cat([D(images[i : i + 1], labels[i : i + 1]) for i in range(5)])
    torch.testing.assert_close(logits, one_by_one, msg="a record's logit must not depend on the batch")


def test_empty_batch_and_double():
    G, D = Generator(GREY28, 3, width=2, latent_size=2).double(), Discriminator(GREY28, 3, width=2).double()
    none = torch.zeros(0, dtype=torch.int64)
    images = G(torch.zeros(0, 2, dtype=torch.float64), none)
    assert images.shape == (0, 1, 28, 28)
    assert D(images, none).shape == (0,)
    assert D(torch.rand(2, *GREY28, dtype=torch.float64), torch.tensor([0, 2])).dtype == torch.float64


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_a_matrix_product_is_the_transposed_convolution_of_one_pixel(bias, layout):
    """Output and gradients, in double precision."""
    layer = Spread(6, 5, 4, bias=bias).double().to(memory_format=layout)
    codes = torch.randn(3, 6, 1, 1, dtype=torch.float64, requires_grad=True)
    as_product, as_convolution = layer(codes), nn.ConvTranspose2d.forward(layer, codes)
    weights = torch.randn_like(as_product)
    inputs = [codes, *layer.parameters()]
    for got, want in zip(
        torch.autograd.grad((weights * as_product).sum(), inputs),
        torch.autograd.grad((weights * as_convolution).sum(), inputs),
        strict=True,
    ):
        torch.testing.assert_close(got, want)


def test_larger_pictures_are_spread_as_by_pytorch():
    layer, pictures = Spread(6, 5, 4), torch.randn(3, 6, 2, 3)
    assert torch.equal(layer(pictures), nn.ConvTranspose2d.forward(layer, pictures))


def test_label_planes_are_not_stored():
    D = Discriminator(GREY28, 3, width=2)
    planes = D._planes(torch.zeros(2, *GREY28), torch.tensor([2, 0]))
    assert planes.stride()[2:] == (0, 0)
    assert planes[:, :, 5, 7].tolist() == [[0, 0, 1], [1, 0, 0]]


def test_activation_is_leaky_and_not_in_place():
    """Slope 0.2, from the images that a negative and a positive first layer give."""
    D = Discriminator(GREY28, 1, width=2)
    kept = []
    D.down1.register_forward_hook(lambda module, inputs, output: kept.append(inputs[0]))
    D.image_in.register_forward_hook(lambda module, inputs, output: kept.append(output))
    D(torch.rand(1, *GREY28), torch.zeros(1, dtype=torch.int64))
    before, after = kept[0], kept[1][:, :1]
    torch.testing.assert_close(after, torch.where(before > 0, before, 0.2 * before))


@pytest.mark.parametrize("shape", [(1, 64, 64), (28, 28), (1, 28, 32), (0, 28, 28)])
def test_other_sizes_are_refused_with_the_remedy(shape):
    for net in (Generator, Discriminator):
        with pytest.raises(RequestError, match=r"28x28 or 32x32.*card"):
            net(shape, 10)


def test_an_odd_width_is_refused():
    with pytest.raises(RequestError, match="even"):
        Discriminator(GREY28, 2, width=3)


def net() -> nn.Module:
    torch.manual_seed(1)
    return Generator(GREY28, 3, width=2, latent_size=4)


def test_flat_vector_is_the_module():
    module, other = net(), net()
    flat = flatten(module)
    assert flat.is_leaf
    assert flat.requires_grad
    assert torch.equal(flat, torch.cat([parameter.flatten() for parameter in other.parameters()]))
    with torch.no_grad():
        flat.mul_(2)
    for ours, theirs in zip(module.parameters(), other.parameters(), strict=True):
        assert torch.equal(ours, 2 * theirs)
        assert ours.requires_grad
        assert ours.untyped_storage().data_ptr() == flat.untyped_storage().data_ptr()


def test_adam_on_the_vector_is_adam_on_the_module():
    module, other = net(), net()
    flat = flatten(module)
    ours = torch.optim.Adam([flat], lr=0.01, fused=True)
    theirs = torch.optim.Adam(other.parameters(), lr=0.01)
    latents, labels = torch.randn(3, 4), torch.tensor([0, 1, 2])
    for _ in range(3):
        flat.grad = gradient(module(latents, labels).square().sum(), module)
        ours.step()
        theirs.zero_grad()
        other(latents, labels).square().sum().backward()
        theirs.step()
    assert all(parameter.grad is None for parameter in module.parameters())
    torch.testing.assert_close(flat.detach(), torch.cat([p.detach().flatten() for p in other.parameters()]))


def test_state_dict_and_copies_keep_the_views():
    module = net()
    flat = flatten(module)
    saved = {name: value.clone() for name, value in module.state_dict().items()}
    before = flat.detach().clone()
    other = copy.deepcopy(module)
    with torch.no_grad():
        flat.zero_()
    assert all((value == 0).all() for value in module.state_dict().values())
    assert torch.equal(torch.cat([p.flatten() for p in other.parameters()]), before), "a deep copy stands alone"
    module.load_state_dict(saved)
    assert torch.equal(flat, before), "loading reaches the vector"
    with torch.no_grad():
        flatten(other).add_(1)
    assert torch.equal(flat, before)
    assert torch.equal(torch.cat([p.flatten() for p in other.parameters()]), before + 1)


def test_flatten_refuses_mixtures():
    with pytest.raises(RequestError, match="none or a mixture"):
        flatten(nn.Sequential(nn.Linear(1, 1), nn.Linear(1, 1).double()))
    with pytest.raises(RequestError, match="none or a mixture"):
        flatten(nn.ReLU())
