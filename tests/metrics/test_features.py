"""Features: the paper's classifier, what it learns from real records, and Inception behind a checksum."""

import hashlib
import stat
import sys
import types
from pathlib import Path

import numpy as np
import pytest
import torch
from shared_data import SHARED, needs
from sklearn.datasets import load_digits
from torch import nn

from gossamer.data.records import Records
from gossamer.data.synthetic.glyphs import draw
from gossamer.errors import DataError, RequestError
from gossamer.metrics.features import ClassifierFeatures, InceptionFeatures
from gossamer.nets.features import FeatureCNN

WEIGHTS = b"not the weights, but bytes with a checksum"


def digits():
    """scikit-learn's digits at 8x8: 1,400 to train on, 397 to test on."""
    bunch = load_digits()
    images = (bunch.images * 15.9).astype(np.uint8)[:, None]
    labels = bunch.target.astype(np.int64)
    return Records(images[:1400], labels[:1400]), Records(images[1400:], labels[1400:])


@pytest.fixture(scope="module")
def trained():
    """Narrow features of digits, and the digits to test on."""
    train, tests = digits()
    return ClassifierFeatures.train(train.images, train.labels, classes=10, epochs=5, width=128, seed=0), tests


@pytest.mark.parametrize(
    "shape, flat", [((1, 28, 28), 7 * 7), ((3, 28, 28), 7 * 7), ((1, 32, 32), 8 * 8), ((3, 50, 64), 13 * 16)]
)
def test_network_is_the_papers(shape, flat):
    """Counted by hand: 25 weights a kernel, two numbers a channel in batch normalisation; sides halve, rounding up."""
    net = FeatureCNN(shape, 10)
    expected = (
        32 * (25 * shape[0] + 1) + 2 * 32 + 64 * (25 * 32 + 1) + 2 * 64
        + 1024 * (64 * flat + 1) + 2 * 1024 + 10 * (1024 + 1)
    )  # fmt: skip
    assert sum(p.numel() for p in net.parameters()) == expected
    if shape == (1, 28, 28):
        assert expected == 3_276_874
    images = torch.rand(3, *shape, generator=torch.Generator().manual_seed(0))
    assert net(images).shape == (3, 10)
    assert net.features(images).shape == (3, 1024)


def test_network_computes_the_plain_layers():
    """ReLU, batch normalisation, ReLU after each convolution; dropout on the way to the classes only."""
    net = FeatureCNN((1, 28, 28), 10, width=16).eval()
    with torch.no_grad():
        for norm in (net.norm1, net.norm2, net.norm3):
            norm.running_mean.uniform_(-0.1, 0.1, generator=torch.Generator().manual_seed(1))
    relu = nn.ReLU()
    plain = nn.Sequential(
        net.conv1, relu, net.norm1, relu, net.conv2, relu, net.norm2, relu, nn.Flatten(), net.hidden, net.norm3, relu
    )
    images = torch.rand(5, 1, 28, 28, generator=torch.Generator().manual_seed(2))
    torch.testing.assert_close(net.features(images), plain(images))
    torch.testing.assert_close(net(images), net.out(plain(images)))
    features = torch.ones(1000, 16)
    seen = []
    net.out.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        net.train().logits(features)
    # 16,000 fair coins: 4.9 standard deviations, error rate 1e-6 (two-sided normal).
    assert abs(int((seen[0] == 0).sum()) - 8000) < 4.9 * np.sqrt(4000)


@pytest.mark.parametrize("shape, classes, width", [((1, 7, 28), 10, 8), ((0, 28, 28), 10, 8), ((1, 28, 28), 0, 8)])
def test_impossible_networks(shape, classes, width):
    with pytest.raises(RequestError, match="FeatureCNN needs"):
        FeatureCNN(shape, classes, width)


def test_learns_digits_and_says_what_it_is(trained):
    features, tests = trained
    right = (features.probabilities(tests.images).argmax(1) == tests.labels).mean()
    assert right > 0.9
    assert (features.distance_name, features.width) == ("classifier-FID", 128)
    assert features.name == "128 features of the classifier of Zhang et al. trained on 1,400 real records"


def test_probabilities_and_features_are_of_one_network(trained):
    features, tests = trained
    found, probabilities = features(tests.images), features.probabilities(tests.images)
    assert (found.dtype, found.shape) == (np.float32, (397, 128))
    assert (probabilities.dtype, probabilities.shape) == (np.float64, (397, 10))
    assert probabilities.sum(1) == pytest.approx(np.ones(397), abs=1e-12)
    with torch.no_grad():
        expected = features.net.out(torch.from_numpy(found)).softmax(1).numpy()
    assert probabilities == pytest.approx(expected, abs=1e-5)
    twice = features(np.concatenate([tests.images, tests.images]))  # more than one batch of 500
    assert twice == pytest.approx(np.concatenate([found, found]), abs=1e-5)


def test_batch_statistics_are_those_of_the_finished_net():
    """Of one batch, they are its own mean and variance at the first convolution; running averages would lag."""
    train, _ = digits()
    net = ClassifierFeatures.train(train.images[:100], train.labels[:100], classes=10, epochs=2, width=8, seed=0).net
    with torch.no_grad():
        seen = net.conv1(torch.from_numpy(train.images[:100]).float() / 255).relu()
    torch.testing.assert_close(net.norm1.running_mean, seen.mean((0, 2, 3)))
    torch.testing.assert_close(net.norm1.running_var, seen.transpose(0, 1).flatten(1).var(1))


def test_flipped_labels_blur_the_classifier(trained):
    """Planted damage: with 60 % of the labels drawn anew it is less sure, and less often right."""
    features, tests = trained
    train, _ = digits()
    coins = np.random.default_rng(0)
    labels = np.where(coins.random(1400) < 0.6, coins.integers(10, size=1400), train.labels)
    flipped = ClassifierFeatures.train(train.images, labels, classes=10, epochs=5, width=128, seed=0)
    sure, unsure = (f.probabilities(tests.images) for f in (features, flipped))
    assert unsure.max(1).mean() < sure.max(1).mean() - 0.2
    assert (unsure.argmax(1) == tests.labels).mean() < (sure.argmax(1) == tests.labels).mean()


def test_saved_and_loaded_is_the_same_and_private(trained, tmp_path):
    features, tests = trained
    path = tmp_path / "features.safetensors"
    features.save(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    again = ClassifierFeatures.load(path)
    assert (again(tests.images[:50]) == features(tests.images[:50])).all()
    assert again.name == features.name


def test_seed_fixes_everything_and_global_state_is_left():
    glyphs = draw(129, size=16, seed=1)  # one more than a batch: batch normalisation cannot train on one picture
    before = torch.get_rng_state(), np.random.get_state()[1].copy()
    seen = []
    one, same, other = (
        ClassifierFeatures.train(
            glyphs.images, glyphs.labels, classes=10, epochs=2, width=8, seed=seed,
            progress=lambda *what: seen.append(what),
        ).net.state_dict()
        for seed in (7, 7, 8)
    )  # fmt: skip
    assert all((one[name] == same[name]).all() for name in one)
    assert any((one[name] != other[name]).any() for name in one)
    assert torch.equal(before[0], torch.get_rng_state())
    assert (before[1] == np.random.get_state()[1]).all()
    assert [(epoch, epochs) for epoch, epochs, _ in seen[:2]] == [(1, 2), (2, 2)]
    assert all(0 <= share <= 1 for *_, share in seen)


def test_reads_a_memory_map(tmp_path, trained):
    features, tests = trained
    np.save(tmp_path / "images.npy", tests.images[:60])
    mapped = np.load(tmp_path / "images.npy", mmap_mode="r")
    assert (features(mapped) == features(tests.images[:60])).all()
    ClassifierFeatures.train(mapped, tests.labels[:60], classes=10, epochs=1, width=8, seed=0)


GOOD = np.zeros((24, 1, 8, 8), np.uint8), np.arange(24) % 3


@pytest.mark.parametrize(
    "change, message",
    [
        ({"images": GOOD[0].astype(np.float32)}, r"images: an array of float32 .* must be uint8"),
        ({"images": GOOD[0][:, 0]}, r"images: .* 3 axes"),
        ({"images": GOOD[0][:0], "labels": GOOD[1][:0]}, r"images: there are no pictures"),
        ({"labels": GOOD[1][:-1]}, r"labels: 23 labels for 24 pictures"),
        ({"labels": GOOD[1].astype(float)}, r"labels: .* must be integers"),
        ({"labels": np.r_[GOOD[1][:-1], 3]}, r"labels: the label at index 23 is outside 0 to 2 \(1 such"),
        ({"labels": np.ones(24, int)}, r"labels: all pictures have one class"),
    ],
)
def test_bad_input_is_named(change, message):
    arrays = {"images": GOOD[0], "labels": GOOD[1], **change}
    with pytest.raises(DataError, match=message):
        ClassifierFeatures.train(**arrays, classes=3, epochs=1, seed=0)


def test_other_sizes_are_refused(trained):
    features, _ = trained
    with pytest.raises(DataError, match="8x8 with 3 channels, but the classifier was trained on 8x8 with 1 channel"):
        features(np.zeros((2, 3, 8, 8), np.uint8))


@pytest.fixture
def weights(tmp_path):
    path = tmp_path / "inception.pth"
    path.write_bytes(WEIGHTS)
    return path, hashlib.sha256(WEIGHTS).hexdigest()


class FakeInception(nn.Module):
    """As torch-fidelity's, on the outside: uint8 RGB in, a tuple of the features asked for out."""

    def __init__(self, name, features_list, feature_extractor_weights_path=None, **kwargs):
        super().__init__()
        assert isinstance(name, str)
        assert features_list == ["2048"]
        assert Path(feature_extractor_weights_path).read_bytes() == WEIGHTS

    def forward(self, x):
        assert x.dtype == torch.uint8
        assert x.shape[1] == 3
        assert (x.shape[0] <= 50) and x.is_contiguous()
        return (x.float().mean((1, 2, 3))[:, None] * torch.ones(2048),)


def test_inception_features(weights, monkeypatch):
    """Against a stand-in for torch-fidelity, which the development environment does not hold."""
    monkeypatch.setitem(sys.modules, "torch_fidelity", types.SimpleNamespace(FeatureExtractorInceptionV3=FakeInception))
    features = InceptionFeatures(*weights)
    assert (features.distance_name, features.width) == ("FID", 2048)
    coins = np.random.default_rng(0)
    for channels in (1, 3):
        images = coins.integers(256, size=(120, channels, 6, 6), dtype=np.uint8)
        found = features(images)
        assert (found.dtype, found.shape) == (np.float32, (120, 2048))
        assert found[:, 7] == pytest.approx(images.mean((1, 2, 3)), rel=1e-6)
    with pytest.raises(DataError, match="2 channels"):
        features(np.zeros((5, 2, 6, 6), np.uint8))


def test_inception_needs_its_weights_and_its_library(weights, tmp_path, monkeypatch):
    path, checksum = weights
    monkeypatch.setitem(sys.modules, "torch_fidelity", None)  # as if it were not installed
    with pytest.raises(RequestError, match=r"gossamer\[fid\]"):
        InceptionFeatures(path, checksum)
    with pytest.raises(RequestError, match="SHA-256"):
        InceptionFeatures(path, "0" * 64)
    with pytest.raises(RequestError, match="no such file"):
        InceptionFeatures(tmp_path / "absent.pth", checksum)


@pytest.mark.slow
@needs("mnist", "fashion_mnist")
@pytest.mark.parametrize("name, lowest", [("mnist", 0.99), ("fashion_mnist", 0.905)])
def test_reaches_the_papers_accuracy(name, lowest):
    """Five epochs of 60,000 records, about two minutes on one core; the paper reports 99.06 % on MNIST."""
    from gossamer.data.sources.pictures.read import read

    train, test = (read(str(SHARED / name), split=split) for split in ("train", "test"))
    features = ClassifierFeatures.train(train.images, train.labels, classes=10, seed=0)
    assert (features.probabilities(test.images).argmax(1) == test.labels).mean() > lowest
