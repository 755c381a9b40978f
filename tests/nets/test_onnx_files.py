"""Encoders from ONNX files: how pictures reach the network, which output is read, and what is refused."""

import struct
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from gossamer import plugins
from gossamer.errors import RequestError
from gossamer.nets import onnx_files
from gossamer.nets.encoders import PluginEncoder

SIDE, WIDTH = 4, 5
PLANE = torch.randn(3 * SIDE * SIDE, WIDTH, generator=torch.Generator().manual_seed(0))
ABOUT = "side = 4\nchannels = 3\nmean = [0.5, 0.25, 0.0]\nstd = [0.5, 1, 2.0]\n"


# ------------------------------------------------------------------ a small writer of the format (protocol buffers)


def field(number: int, content: bytes | str | int) -> bytes:
    """One field of a message: bytes, text or a whole number."""
    if isinstance(content, int):
        return varint(number << 3) + varint(content)
    content = content.encode() if isinstance(content, str) else content
    return varint(number << 3 | 2) + varint(len(content)) + content


def varint(value: int) -> bytes:
    out = b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def tensor_type(name: str, sizes: list[int | str]) -> bytes:
    dims = b"".join(field(1, field(1, size) if isinstance(size, int) else field(2, size)) for size in sizes)
    return field(1, name) + field(2, field(1, field(1, 1) + field(2, dims)))


def node(operator: str, inputs: list[str], output: str) -> bytes:
    return field(1, b"".join(field(1, name) for name in inputs) + field(2, output) + field(4, operator))


def network(outputs: tuple[str, ...] = ("features",), batch: int | str = "n") -> bytes:
    """Flatten and multiply by PLANE: `features`. Twice that: `doubled`. `flat` is no declared output unless it is named."""
    sizes = {"features": WIDTH, "doubled": WIDTH, "flat": 3 * SIDE * SIDE}
    raw = struct.pack(f"<{PLANE.numel()}f", *PLANE.flatten().tolist())
    weight = field(1, len(PLANE)) + field(1, WIDTH) + field(2, 1) + field(8, "W") + field(9, raw)
    graph = b"".join(
        [
            node("Flatten", ["x"], "flat"),
            node("MatMul", ["flat", "W"], "features"),
            node("Add", ["features", "features"], "doubled"),
            field(2, "net"),
            field(5, weight),
            field(11, tensor_type("x", [batch, 3, SIDE, SIDE])),
            *(field(12, tensor_type(name, [batch, sizes[name]])) for name in outputs),
        ]
    )
    return field(1, 8) + field(7, graph) + field(8, field(1, "") + field(2, 13))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    pytest.importorskip("onnxruntime")
    monkeypatch.chdir(tmp_path)
    before = dict(plugins._added)
    (tmp_path / "net.onnx").write_bytes(network())
    (tmp_path / "net.toml").write_text(ABOUT)
    yield tmp_path
    plugins._added.clear()
    plugins._added.update(before)


def expected(images: Tensor) -> Tensor:
    scaled = ((images * 255).round() / 255 - torch.tensor([0.5, 0.25, 0.0])[:, None, None]) / torch.tensor(
        [0.5, 1.0, 2.0]
    )[:, None, None]
    return scaled.flatten(1) @ PLANE


def pictures(n: int) -> Tensor:
    return torch.randint(256, (n, 3, SIDE, SIDE), generator=torch.Generator().manual_seed(1)) / 255


def test_features_are_the_declared_output_of_scaled_pictures() -> None:
    plugins.allow("onnx:net.onnx")
    encoder = PluginEncoder("onnx:net.onnx", (3, SIDE, SIDE))
    encoder.check("cpu")
    assert encoder.size == WIDTH
    assert torch.allclose(encoder(pictures(9)), F.normalize(expected(pictures(9))), atol=1e-5)


@pytest.mark.parametrize("batch", ["n", 1, 4])
def test_without_one_record_all_others_have_the_same_features(batch: int | str, folder: Path) -> None:
    (folder / "net.onnx").write_bytes(network(batch=batch))
    plugins.allow("onnx:net.onnx")
    encoder, images = PluginEncoder("onnx:net.onnx", (3, SIDE, SIDE)), pictures(9)
    encoder.check("cpu")
    whole = encoder(images)
    for gone in range(9):
        others = [i for i in range(9) if i != gone]
        assert torch.equal(encoder(images[others]), whole[others])


def test_one_of_several_outputs_is_named(folder: Path) -> None:
    (folder / "net.onnx").write_bytes(network(("features", "doubled")))
    (folder / "net.toml").write_text(ABOUT + "unit_length = false\n")
    with pytest.raises(
        RequestError, match=r"has several outputs.* Name one of features, doubled as onnx:net.onnx#OUTPUT"
    ):
        plugins.allow("onnx:net.onnx")
    plugins.allow("onnx:net.onnx#doubled")
    rows = PluginEncoder("onnx:net.onnx#doubled", (3, SIDE, SIDE))(pictures(3))
    assert torch.allclose(rows, 2 * expected(pictures(3)), rtol=1e-4)
    with pytest.raises(RequestError, match=r"has no output 'flat'"):
        plugins.allow("onnx:net.onnx#flat")


def test_a_certificate_says_what_the_toml_states_and_the_digest_of_both_files(folder: Path) -> None:
    plugins.allow("onnx:net.onnx")
    first = plugins.origin("encoder", "onnx:net.onnx")
    assert (first.package, first.licence, first.trained_on) == ("onnxruntime", "not known", "not known")
    (folder / "net.toml").write_text(ABOUT + 'licence = "MIT"\ntrained_on = "satellite pictures"\n')
    plugins.allow("onnx:net.onnx")
    second = plugins.origin("encoder", "onnx:net.onnx")
    assert (second.licence, second.trained_on) == ("MIT", "satellite pictures")
    assert len({first.weights, second.weights}) == 2


@pytest.mark.parametrize(
    ("about", "says"),
    [
        ("side = 4\nchannels = 3\nmean = [0, 0, 0]\n", "lacks std"),
        (ABOUT + "width = 3\n", "unknown key 'width'"),
        (ABOUT.replace("[0.5, 0.25, 0.0]", "[0.5]"), r"mean = \[0.5\]. Give one number for each of 3 channels"),
        (ABOUT.replace("2.0]", "0]"), r"std = \[0.5, 1, 0\]"),
        ("side = [", "cannot be read"),
    ],
)
def test_a_toml_of_another_form_is_refused(about: str, says: str, folder: Path) -> None:
    (folder / "net.toml").write_text(about)
    with pytest.raises(RequestError, match=says):
        plugins.allow("onnx:net.onnx")


def test_files_that_are_no_networks_or_not_there_are_refused(folder: Path) -> None:
    with pytest.raises(RequestError, match="absolute path, and the certificate would show it"):
        plugins.allow(f"onnx:{folder / 'net.onnx'}")
    (folder / "net.onnx").write_bytes(b"no network")
    with pytest.raises(RequestError, match="cannot be read as an ONNX network"):
        plugins.allow("onnx:net.onnx")
    (folder / "net.toml").unlink()
    with pytest.raises(RequestError, match=r"needs the file net.toml, which is not there"):
        plugins.allow("onnx:net.onnx")
    with pytest.raises(RequestError, match=r"code is not imported because a file names it"):
        plugins.load("encoder", "onnx:other.onnx")


def test_without_onnxruntime_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(RequestError, match=r"pip install 'gossamer\[onnx\]'"):
        onnx_files.load("net.onnx")
