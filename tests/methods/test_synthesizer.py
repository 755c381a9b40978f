"""What is left when the records are gone: samples carry the labels that they were made for, and a seed decides what it says."""

import errno
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from gossamer.data.card import DataCard
from gossamer.data.samples.samples import CHUNK, Samples
from gossamer.errors import RequestError
from gossamer.methods.contract import BaseConfig, Draw, Method, State
from gossamer.methods.job import Job
from gossamer.methods.synthesizer import Synthesizer, model_bytes, save_model

CARD = DataCard(shape=(1, 2, 2), classes=4, declared_size=10, label_prior=(0.1, 0.2, 0.3, 0.4))
Z = 4.892


class Telltale(nn.Module):
    """A generator whose images say for which label they were made (first pixel) and show their latent (the others)."""

    latent_size = 3

    def __init__(self, classes: int = 4) -> None:
        super().__init__()
        self.classes = classes

    def forward(self, latents: Tensor, labels: Tensor) -> Tensor:
        pixels = torch.special.ndtr(latents[:, :3])
        return torch.cat([labels[:, None] * 20 / 255, pixels], 1).view(-1, 1, 2, 2)


@dataclass(frozen=True, kw_only=True)
class Config(BaseConfig):
    """Nothing to set."""


class Bare(Method[Config, State]):
    """A method that samples as most do, and is never trained."""

    name = "bare"
    title = "Bare"
    config_type = Config

    def queries(self, config: Config, card: DataCard) -> Sequence[Any]:
        return []


def synthesizer(classes: int = 4) -> Synthesizer:
    certificate: Any = None
    return Synthesizer(Telltale(classes), Job.of(Bare(), {}, CARD), certificate, Path("RUN"))


def test_samples_carry_the_labels_that_they_were_made_for_in_every_chunk() -> None:
    n = 2 * CHUNK + 300
    drawn = synthesizer().sample(n, seed=1)
    assert isinstance(drawn, Samples)
    assert (len(drawn), drawn.shape, drawn.images.dtype, drawn.labels.dtype) == (n, (1, 2, 2), np.uint8, np.int64)
    assert (drawn.images[:, 0, 0, 0] == 20 * drawn.labels).all()
    asked = np.random.default_rng(0).integers(4, size=n)
    given = synthesizer().sample(n, labels=asked, seed=1)
    assert (given.labels == asked).all()
    assert (given.images[:, 0, 0, 0] == 20 * asked).all()
    listed = synthesizer().sample(3, labels=[3, 3, 1])
    assert listed.labels.tolist() == [3, 3, 1]
    assert listed.images[:, 0, 0, 0].tolist() == [60, 60, 20]


def test_labels_follow_the_declared_prior() -> None:
    """20,000 samples; error rate 4e-6."""
    labels = synthesizer().sample(20_000, seed=2).labels
    for label, share in enumerate((0.1, 0.2, 0.3, 0.4)):
        assert abs((labels == label).mean() - share) < Z * (share * (1 - share) / 20_000) ** 0.5


def test_no_two_chunks_are_alike() -> None:
    drawn = synthesizer().sample(3 * CHUNK, seed=3).images
    assert len(np.unique(drawn.reshape(3, -1), axis=0)) == 3


def test_a_seed_fixes_the_samples_and_without_one_they_are_fresh() -> None:
    one, same, other = (synthesizer().sample(500, seed=seed).images for seed in (0, 0, 1))
    assert (one == same).all()
    assert (one != other).any()
    fresh = [synthesizer().sample(500).images for _ in range(3)]
    assert all((one != each).any() for each in fresh)
    assert (fresh[0] != fresh[1]).any()
    assert (fresh[1] != fresh[2]).any()


def test_the_seed_leaves_the_global_generator_alone() -> None:
    before = torch.random.get_rng_state()
    synthesizer().sample(10, seed=4)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_a_generator_without_labels_calls_everything_0() -> None:
    drawn = synthesizer(classes=1).sample(50, seed=0)
    assert not drawn.labels.any()
    assert not drawn.images[:, 0, 0, 0].any()


def test_a_method_that_samples_in_its_own_way_is_asked() -> None:
    """Chunk by chunk, with the labels that were asked for, on the stream that the seed fixes."""

    class Halving(Bare):
        def sample(self, net: nn.Module, draw: Draw[Any]) -> Any:
            images, chosen = super().sample(net, draw)
            return images / 2, chosen

    certificate: Any = None
    halved = Synthesizer(Telltale(), Job.of(Halving(), {}, CARD), certificate, Path("RUN")).sample(CHUNK + 1, seed=0)
    plain = synthesizer().sample(CHUNK + 1, seed=0)
    assert (halved.labels == plain.labels).all()
    assert abs(halved.images - plain.images / 2).max() <= 0.5
    assert plain.images.max() == 255


def test_a_device_that_cannot_serve_is_refused() -> None:
    drawn = synthesizer()
    assert drawn.on("cpu") is drawn
    with pytest.raises(RequestError, match="cannot be used on this machine"):
        drawn.on("xpu:9")
    with pytest.raises(RequestError, match="made on the processor"):
        drawn.on("meta")


@pytest.mark.parametrize(
    ("n", "labels"),
    [
        (-1, None), (3, np.array([0, 1])), (2, np.array([0, 4])), (2, np.array([-1, 0])), (2, [0, 4]), (2, [0.5, 1.0]),
        (2, ["0", "1"]), (2, [[0, 1]]),
    ],
)  # fmt: skip
def test_what_cannot_be_drawn_is_refused(n: int, labels: Any) -> None:
    with pytest.raises(RequestError, match="must be"):
        synthesizer().sample(n, labels=labels)
    assert synthesizer().sample(0).images.shape == (0, 1, 2, 2)


def test_the_pieces_of_a_stream_tell_how_many_samples_are_made() -> None:
    told: list[int] = []
    sizes = [len(piece) for piece in synthesizer().stream(2 * CHUNK + 3, seed=0, made=told.append)]
    assert (sizes, told) == ([CHUNK, CHUNK, 3], [CHUNK, 2 * CHUNK, 2 * CHUNK + 3])


@pytest.mark.parametrize("n", [-1, 1.5, True, "3", None])
def test_a_number_of_samples_is_a_number(n: Any) -> None:
    for draw in (synthesizer().sample, lambda n: next(synthesizer().stream(n))):
        with pytest.raises(RequestError, match=r"n must be a whole number of zero or more"):
            draw(n)


def test_more_samples_than_the_memory_holds_are_refused_before_one_is_drawn() -> None:
    with pytest.raises(
        RequestError, match=r"1,000,000,000,000 samples take 12,000 GB, .* of memory are free\. .*`stream`"
    ):
        synthesizer().sample(10**12)
    assert len(synthesizer().sample(np.int64(0))) == 0


def test_a_model_is_written_whole_or_the_old_one_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file has the bytes of `model_bytes`. After a full disk, its error is the system's and nothing is left over."""
    path, net = tmp_path / "model.safetensors", nn.Linear(3, 2)
    save_model(path, net)
    assert path.read_bytes() == model_bytes(net)
    assert path.stat().st_mode & 0o777 == 0o644

    def full(*_: object) -> None:
        raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    monkeypatch.setattr("gossamer.methods.synthesizer.save_file", full)
    with pytest.raises(OSError, match="No space left") as caught:
        save_model(path, nn.Linear(3, 2))
    assert caught.value.errno == errno.ENOSPC
    assert path.read_bytes() == model_bytes(net)
    assert [each.name for each in tmp_path.iterdir()] == ["model.safetensors"]
