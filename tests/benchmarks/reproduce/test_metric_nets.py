"""The judging nets against their papers' sizes, and against the plain layers that they stand for."""

import numpy as np
import pytest
import torch
from torch import nn

from benchmarks.reproduce.metrics.nets import CodeAndImageMLP, LeNet5, PrivganCNN
from gossamer.nets.features import FeatureCNN

SHAPES = [(1, 28, 28), (3, 28, 28), (1, 32, 32), (3, 32, 32)]


def size(net: nn.Module) -> int:
    return sum(parameter.numel() for parameter in net.parameters())


@pytest.fixture(autouse=True)
def own_randomness():
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(3)
        yield


def test_sizes_by_hand():
    """Weights and biases, layer by layer, on 28x28 with one channel and ten classes."""
    assert size(LeNet5((1, 28, 28), 10)) == 156 + 2416 + 48_120 + 10_164 + 850 == 61_706
    assert size(PrivganCNN((1, 28, 28), 10)) == 320 + 9248 + 32 * 12 * 12 * 128 + 128 + 1290
    norms = 2 * (32 + 64 + 1024)
    assert size(FeatureCNN((1, 28, 28), 10)) == 832 + 51_264 + 3136 * 1024 + 1024 + 10_250 + norms
    joint = 1024 * 1024 + 1024 + 1024 * 512 + 512 + 5130
    assert size(CodeAndImageMLP(128, (1, 28, 28), 10)) == 129 * 512 + 785 * 512 + joint


@pytest.mark.parametrize("net", [LeNet5, PrivganCNN, FeatureCNN])
@pytest.mark.parametrize("shape", [*SHAPES, (1, 13, 15)])
def test_any_shape_gives_logits(net, shape):
    judge = net(shape, 7).eval()
    images = torch.rand(5, *shape)
    logits = judge(images)
    assert logits.shape == (5, 7)
    one_by_one = torch.cat([judge(images[i : i + 1]) for i in range(5)])
    torch.testing.assert_close(logits, one_by_one, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("net", [LeNet5, PrivganCNN])
def test_smallest_is_the_smallest(net):
    small = net.smallest
    assert net((1, small, small), 2)(torch.rand(1, 1, small, small)).shape == (1, 2)
    with pytest.raises(
        ValueError, match=f"{net.__name__} needs pictures of at least {small}x{small}, not {small - 1}x"
    ):
        net((1, small - 1, 28), 2)


@pytest.mark.parametrize("shape, border", [((1, 28, 28), 2), ((3, 32, 32), 0)])
def test_lenet_computes_the_plain_layers(shape, border):
    net = LeNet5(shape, 4)
    assert net.hidden1.in_features == 400
    plain = nn.Sequential(
        nn.ZeroPad2d(border), nn.Conv2d(shape[0], 6, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 4),
    )  # fmt: skip
    plain.load_state_dict(dict(zip(plain.state_dict(), net.state_dict().values(), strict=True)))
    images = torch.rand(6, *shape)
    torch.testing.assert_close(net(images), plain((images - 0.1307) / 0.3081), rtol=1e-5, atol=1e-6)


def test_privgan_computes_the_plain_layers_and_has_no_dropout():
    net = PrivganCNN((3, 11, 14), 4).train()
    plain = nn.Sequential(
        nn.Conv2d(3, 32, 3), nn.ReLU(), nn.Conv2d(32, 32, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(32 * 3 * 5, 128), nn.ReLU(), nn.Linear(128, 4),
    )  # fmt: skip
    plain.load_state_dict(dict(zip(plain.state_dict(), net.state_dict().values(), strict=True)))
    images = torch.rand(6, 3, 11, 14)
    torch.testing.assert_close(net(images), plain(images), rtol=1e-5, atol=1e-6)


def test_dp_wgan_pair_computes_the_plain_layers():
    C1 = FeatureCNN((1, 10, 8), 3).eval()
    C1.norm1.running_mean.uniform_(-1, 1)
    plain = nn.Sequential(
        C1.conv1, nn.ReLU(), C1.norm1, nn.ReLU(), C1.conv2, nn.ReLU(), C1.norm2, nn.ReLU(), nn.Flatten(), C1.hidden,
        C1.norm3, nn.ReLU(), C1.out,
    )  # fmt: skip
    images, codes = torch.rand(6, 1, 10, 8), torch.randn(6, 5)
    torch.testing.assert_close(C1(images), plain(images), rtol=1e-5, atol=1e-6)
    C2 = CodeAndImageMLP(5, (1, 10, 8), 3).eval()
    side_by_side = torch.cat([C2.code_in(codes).relu(), C2.image_in(images.flatten(1)).relu()], dim=1)
    expected = C2.out(C2.hidden(C2.joint(side_by_side).relu()).relu())
    torch.testing.assert_close(C2(codes, images), expected, rtol=1e-5, atol=1e-6)


def zeros_in(layers: list[nn.Module], run) -> list[tuple[int, int]]:
    """How many inputs of each layer are zero, and of how many."""
    seen: list[torch.Tensor] = []
    hooks = [layer.register_forward_pre_hook(lambda _, args: seen.append(args[0])) for layer in layers]
    with torch.no_grad():
        run()
    for hook in hooks:
        hook.remove()
    return [(int((values == 0).sum()), values.numel()) for values in seen]


def test_dropout_rates_of_the_dp_wgan_pair():
    """Bounds on the share of zeros at error rate 1e-6 each (two-sided normal, 4.9 standard deviations)."""
    C1, C2 = FeatureCNN((1, 8, 8), 3), CodeAndImageMLP(5, (1, 8, 8), 3)
    with torch.no_grad():
        C1.norm3.bias.fill_(100.0)  # every ReLU is open, so zeros come from dropout alone
        for layer in (C2.code_in, C2.image_in, C2.joint, C2.hidden):
            layer.weight.zero_()
            layer.bias.fill_(1.0)
    found = zeros_in([C1.out], lambda: C1(torch.rand(64, 1, 8, 8)))
    found += zeros_in([C2.joint, C2.hidden, C2.out], lambda: C2(torch.randn(64, 5), torch.rand(64, 1, 8, 8)))
    for (zeros, n), rate in zip(found, (0.5, 0.2, 0.5, 0.2), strict=True):
        assert abs(zeros - rate * n) < 4.9 * np.sqrt(n * rate * (1 - rate))
