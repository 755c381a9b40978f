"""The pairs of privGAN: shapes, sizes of the paper, ranges, labels, what is refused."""

import math
from itertools import pairwise

import pytest
import torch

from gossamer.errors import RequestError
from gossamer.methods.privgan import conv, dense

NETS = [(dense, (1, 12, 10)), (dense, (3, 8, 8)), (conv, (3, 32, 32)), (conv, (1, 32, 32))]


def size(module):
    return sum(parameter.numel() for parameter in module.parameters())


def in_dense(*sizes):
    """Parameters of a chain of dense layers, with biases."""
    return sum((inside + 1) * out for inside, out in pairwise(sizes))


@pytest.mark.parametrize("pixels", [(1, 28, 28), (1, 62, 47)])
def test_the_dense_pair_has_the_sizes_of_appendix_1(pixels):
    n = math.prod(pixels)
    assert size(dense.Generator(pixels, 1)) == in_dense(100, 512, 512, 1024, n)
    assert size(dense.Discriminator(pixels, 1)) == in_dense(n, 2048, 512, 256, 1)
    assert size(dense.Discriminator(pixels, 1, outputs=4)) == in_dense(n, 2048, 512, 256, 4)


def test_the_convolutional_pair_has_the_sizes_of_appendix_1():
    def in_conv(*channels):
        return sum(25 * inside * out + out for inside, out in pairwise(channels))

    assert size(conv.Generator((3, 32, 32), 1)) == in_dense(100, 2048) + in_conv(512, 256, 128, 64, 3)
    assert size(conv.Discriminator((3, 32, 32), 1)) == in_conv(3, 64, 128, 128, 256) + in_dense(2 * 2 * 256, 1)


@pytest.mark.parametrize(("nets", "shape"), NETS)
@pytest.mark.parametrize("classes", [1, 5])
def test_images_lie_in_the_unit_interval_and_logits_are_one_per_output(nets, shape, classes):
    torch.manual_seed(0)
    G = nets.Generator(shape, classes, width=16, latent_size=7)
    labels = torch.arange(9) % classes
    with torch.no_grad():
        for parameter in G.parameters():
            parameter.mul_(30)  # far from the start, where everything is 1/2
        images = G(torch.randn(9, 7), labels)
    assert images.shape == (9, *shape)
    assert 0 <= images.min() < 0.01
    assert 0.99 < images.max() <= 1
    for outputs in (1, 3):
        assert nets.Discriminator(shape, classes, width=16, outputs=outputs)(images, labels).shape == (9, outputs)


@pytest.mark.parametrize(("nets", "shape"), NETS)
def test_labels_matter_where_there_are_several_and_only_there(nets, shape):
    torch.manual_seed(0)
    z, x = torch.randn(1, 7), torch.rand(1, *shape)
    zero, one = torch.tensor([0]), torch.tensor([1])
    for classes in (1, 2):
        G, D = nets.Generator(shape, classes, width=16, latent_size=7), nets.Discriminator(shape, classes, width=16)
        assert torch.equal(G(z, zero), G(z, one)) == (classes == 1)
        assert torch.equal(D(x, zero), D(x, one)) == (classes == 1)


@pytest.mark.parametrize(("nets", "shape"), NETS)
def test_a_record_does_not_see_its_batch(nets, shape):
    """No normalisation over the batch: alone or among others, an image has the same logit (to rounding)."""
    torch.manual_seed(0)
    D = nets.Discriminator(shape, 1, width=16)
    x, y = torch.rand(5, *shape), torch.zeros(5, dtype=torch.int64)
    torch.testing.assert_close(D(x, y)[:1], D(x[:1], y[:1]), rtol=1e-4, atol=1e-6)


def test_initialisation_is_that_of_the_published_code():
    """The first layer has standard deviation 0.02 (of 51,200 weights: to 2 %, 6 standard errors); Glorot's bound after it."""
    torch.manual_seed(0)
    first, second, *_ = dense.Generator((1, 28, 28), 1).layers
    assert float(first.weight.detach().std()) == pytest.approx(0.02, rel=0.02)
    bound = math.sqrt(6 / (512 + 512))
    assert float(second.weight.detach().abs().max()) == pytest.approx(bound, rel=1e-3)
    assert not first.bias.any()


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: dense.Discriminator((1, 4, 4), 1, width=7), "even"),
        (lambda: conv.Generator((3, 32, 32), 1, width=12), "multiple of 8"),
        (lambda: conv.Discriminator((1, 28, 28), 1), "unlike those of dense"),
    ],
)
def test_what_is_refused(make, says):
    with pytest.raises(RequestError, match=says):
        make()
