"""The judging net takes pictures of any shape. `tests/metrics/test_classify.py` holds it against the paper."""

import pytest
import torch

from gossamer.nets.classifiers import SmallCNN

SHAPES = [(1, 28, 28), (3, 28, 28), (1, 32, 32), (3, 32, 32), (1, 13, 15)]


@pytest.fixture(autouse=True)
def own_randomness():
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(3)
        yield


@pytest.mark.parametrize("shape", SHAPES)
def test_any_shape_gives_logits(shape):
    judge = SmallCNN(shape, 7).eval()
    images = torch.rand(5, *shape)
    logits = judge(images)
    assert logits.shape == (5, 7)
    one_by_one = torch.cat([judge(images[i : i + 1]) for i in range(5)])
    torch.testing.assert_close(logits, one_by_one, rtol=1e-4, atol=1e-5)


def test_smallest_is_the_smallest():
    small = SmallCNN.smallest
    assert SmallCNN((1, small, small), 2)(torch.rand(1, 1, small, small)).shape == (1, 2)
    with pytest.raises(ValueError, match=f"SmallCNN needs pictures of at least {small}x{small}, not {small - 1}x"):
        SmallCNN((1, small - 1, 28), 2)


@pytest.mark.parametrize(
    ("shape", "stride", "inputs"),
    [((1, 28, 28), 1, 9_216), ((3, 32, 32), 1, 12_544), ((1, 33, 33), 2, 3_136), ((1, 64, 64), 2, 12_544),
     ((1, 64, 20), 1, 15_360), ((3, 100, 65), 3, 8_640)],
)  # fmt: skip
def test_a_stride_keeps_the_hidden_layer_small(shape, stride, inputs):
    judge = SmallCNN(shape, 2)
    assert judge.conv1.stride == (stride, stride)
    assert judge.hidden.in_features == inputs
    assert judge(torch.rand(2, *shape)).shape == (2, 2)
