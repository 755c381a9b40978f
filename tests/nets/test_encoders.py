"""Encoders that a plug-in adds: what is refused, what is harmless, and that a record's features are its own."""

import copy
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gossamer import plugins
from gossamer.errors import ConfinedError, PrivacyError, RequestError
from gossamer.nets.encoders import PluginEncoder

SHAPE = (1, 12, 12)
WIDTH = 5
PLANE = torch.randint(-9, 9, (144, WIDTH), generator=torch.Generator().manual_seed(0)).float()
Function = Callable[[Tensor], Any]


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    yield
    if "toy" in plugins.names("encoder"):
        plugins.remove("encoder", "toy")


def named(encoder: object, shape: tuple[int, ...] = SHAPE) -> PluginEncoder:
    plugins.add("encoder", "toy", encoder)
    return PluginEncoder("toy", shape)


def linear(pictures: Tensor) -> Tensor:
    """Sums of whole numbers below 2^24: exact, so that a row has the same bits at each place of a batch."""
    return pictures.float().flatten(1) @ PLANE


def in_batches(function: Function, batch: int = 8, **facts: Any) -> Function:
    """The same function, with this `batch` and other facts."""

    def encoder(pictures: Tensor) -> Any:
        return function(pictures)

    vars(encoder).update(facts, batch=batch)
    return encoder


def pictures(n: int, shape: tuple[int, ...] = SHAPE, seed: int = 9) -> Tensor:
    return torch.randint(256, (n, *shape), generator=torch.Generator().manual_seed(seed)) / 255


class Net(nn.Module):
    """A convolution and, in its middle, what a case is about."""

    def __init__(self, middle: nn.Module) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(1)
            self.conv, self.middle, self.last = nn.Conv2d(1, 4, 3), middle, nn.Linear(400, WIDTH)

    def forward(self, pictures: Tensor) -> Tensor:
        rows: Tensor = self.last(self.middle(self.conv(pictures.float() / 255)).flatten(1))
        return rows


# ------------------------------------------------------------------ misbehaving encoders: refused on public pictures


def nan_rows(pictures: Tensor) -> Tensor:
    return linear(pictures).log()


class OtherWidth:
    """Another width in each call."""

    def __init__(self) -> None:
        self.width = 2

    def __call__(self, pictures: Tensor) -> Tensor:
        self.width += 1
        return pictures.float().flatten(1)[:, : self.width]


class Remembering:
    """The mean of all pictures so far is subtracted."""

    def __init__(self) -> None:
        self.total, self.count = torch.zeros(144), 0

    def __call__(self, pictures: Tensor) -> Tensor:
        rows = pictures.float().flatten(1)
        self.total, self.count = self.total + rows.sum(0), self.count + len(rows)
        return (rows - self.total / self.count) @ PLANE


class LearnsWhileItRuns(nn.Module):
    """Its weights are changed by what it sees."""

    def __init__(self) -> None:
        super().__init__()
        self.plane = nn.Parameter(PLANE.clone())

    def forward(self, pictures: Tensor) -> Tensor:
        self.plane.data += pictures.float().flatten(1).mean(0)[:, None] / 100
        return pictures.float().flatten(1) @ self.plane


def live_batch_norm(pictures: Tensor) -> Tensor:
    return F.batch_norm(linear(pictures), None, None, training=True)


def ranked(pictures: Tensor) -> Tensor:
    """A rare dependence: the brightest picture of a batch is marked."""
    rows = linear(pictures).clone()
    rows[pictures.flatten(1).float().mean(1).argmax(), 0] += 1
    return rows


def numbered(pictures: Tensor) -> Tensor:
    return linear(pictures) + torch.arange(len(pictures))[:, None]


def raises(pictures: Tensor) -> Tensor:
    raise ValueError(f"cannot\nread {pictures.shape}")


def last_bit(pictures: Tensor) -> Tensor:
    """A sum that is rounded by what else is in the batch."""
    rows = linear(pictures) / 7
    return torch.nextafter(rows, rows + 1) if pictures.sum() % 2 else rows


REFUSED: dict[str, tuple[object, str]] = {
    "NaN rows": (nan_rows, "not finite"),
    "varying width": (OtherWidth(), "one row of the same width"),
    "fewer rows": (in_batches(lambda pictures: linear(pictures)[1:]), r"gives \[7, 5\] for 8 pictures"),
    "three dimensions": (lambda pictures: linear(pictures)[:, None], r"gives torch.float32 \[1, 1, 5\]"),
    "integers": (lambda pictures: linear(pictures).long(), r"gives torch.int64 \[1, 5\]. Return floating-point"),
    "no tensor": (lambda pictures: linear(pictures).numpy(), "gives ndarray"),
    "functional batch norm": (
        in_batches(live_batch_norm),
        "looks at the other pictures of a batch.*Normalise each picture by itself, or state batch = 1",
    ),
    "the brightest of the batch": (in_batches(ranked), "looks at the other pictures of a batch"),
    "one rounding": (in_batches(last_bit, unit_length=False), "looks at the other pictures of a batch"),
    "the place in the batch": (in_batches(numbered), "looks at a picture's place in the batch"),
    "live dropout": (lambda pictures: F.dropout(linear(pictures)), "other features when the same pictures come again"),
    "remembering": (Remembering(), "other features when the same pictures come again. .* keep nothing from one call"),
    "learning": (LearnsWhileItRuns(), "other features when the same pictures come again"),
    "failing": (
        raises,
        r"fails on a batch of public pictures \(ValueError: cannot read torch.Size\(\[1, 1, 12, 12\]\)\)",
    ),
    "a class": (Remembering, "Name a function or a torch.nn.Module, not a class"),
    "no function": (7, "cannot be called with pictures"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_an_encoder_that_is_not_a_function_of_each_picture_is_refused(case: str) -> None:
    encoder, says = REFUSED[case]
    with pytest.raises(RequestError, match=says) as caught:
        named(encoder).check("cpu")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("facts", "shape", "says"),
    [
        ({"side": 8.5}, SHAPE, "states side = 8.5"),
        ({"channels": 3}, (2, 12, 12), "takes 3 channels, and the card declares 2"),
    ],
)
def test_an_encoder_that_does_not_fit_is_refused(facts: dict[str, Any], shape: tuple[int, ...], says: str) -> None:
    with pytest.raises(RequestError, match=says):
        named(in_batches(linear, **facts), shape)


# ------------------------------------------------------------------ harmless ones


@pytest.mark.parametrize("middle", [nn.BatchNorm2d(4), nn.Dropout(0.5)])
def test_a_module_in_training_mode_is_put_in_evaluation_mode(middle: nn.Module) -> None:
    """Batch normalisation and dropout are then functions of each picture, and no statistic moves."""
    net = Net(copy.deepcopy(middle)).train()
    with torch.no_grad():
        still = copy.deepcopy(net).eval()
        rows = torch.cat([still(picture[None].mul(255).byte()) for picture in pictures(9)])
    encoder, before = named(net), copy.deepcopy(net.state_dict())
    encoder.check("cpu")
    assert torch.equal(encoder(pictures(9)), F.normalize(rows.double()).float())
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    assert not encoder(pictures(2)).requires_grad


def test_a_module_that_an_object_holds_is_put_in_evaluation_mode() -> None:
    class Holder:
        def __init__(self) -> None:
            self.net = Net(nn.Dropout(0.5)).train()

        def __call__(self, pictures: Tensor) -> Tensor:
            rows: Tensor = self.net(pictures)
            return rows

    named(Holder()).check("cpu")


def test_an_encoder_may_write_into_its_input() -> None:
    def overwriting(given: Tensor) -> Tensor:
        rows = linear(given)
        given.zero_()
        return rows

    images = pictures(7)
    kept = images.clone()
    encoder = named(overwriting)
    encoder.check("cpu")
    found = encoder(images)
    assert torch.equal(images, kept)
    assert torch.equal(found, named(linear)(images))


@pytest.mark.parametrize("worst", [float("nan"), float("inf"), 1e39])
@pytest.mark.parametrize("unit_length", [True, False])
def test_rows_that_are_not_finite_become_zero(worst: float, unit_length: bool) -> None:
    """On pictures that the check does not know: black ones. 1e39 is finite in double precision alone."""

    def at_black(given: Tensor) -> Tensor:
        return torch.where(given.flatten(1).bool().any(1, keepdim=True), linear(given).double(), worst)

    encoder = named(in_batches(at_black, unit_length=unit_length))
    images = pictures(5)
    expected = encoder(images)
    images[2] = 0
    found = encoder(images)
    assert found[2].tolist() == [0.0] * WIDTH
    assert torch.equal(found[[0, 1, 3, 4]], expected[[0, 1, 3, 4]])


def test_rows_have_length_one_unless_the_encoder_says_otherwise() -> None:
    images = pictures(40)
    found = named(linear)(images)
    assert found.dtype == torch.float32
    assert torch.allclose(found.norm(dim=1), torch.ones(40), atol=1e-6)
    plain = named(in_batches(linear, unit_length=False))(images)
    assert torch.allclose(plain, linear(images * 255), rtol=1e-4)
    assert named(lambda given: linear(given).half())(images).dtype == torch.float32


def test_pictures_are_resized_once_and_a_grey_one_gets_the_channels_that_are_wanted() -> None:
    seen: list[Tensor] = []

    def looking(given: Tensor) -> Tensor:
        seen.append(given)
        return given.float().flatten(1)

    encoder = named(in_batches(looking, side=24, channels=3))
    assert encoder.size == 3 * 24 * 24
    images = pictures(3)
    encoder(images)
    given = seen[-1]
    assert given.dtype == torch.uint8
    assert given.shape == (8, 3, 24, 24)
    wanted = F.interpolate(images * 255, (24, 24), mode="bilinear", antialias=True).round().byte()
    assert torch.equal(given[:3], wanted.expand(-1, 3, -1, -1))
    assert not given[3:].any()
    named(in_batches(looking))(images)
    assert torch.equal(seen[-1][:3], (images * 255).round().byte())


def test_normalisation_over_a_batch_of_one_picture_is_harmless() -> None:
    """Without a `batch`, an encoder gets one picture in a call: another cannot enter, and its place is always the first."""

    def encoder(given: Tensor) -> Tensor:
        maps = given.float().unfold(2, 4, 4).unfold(3, 4, 4).flatten(2, 3).flatten(3)[:, 0]
        return F.batch_norm(maps, None, None, training=True).flatten(1)

    images = pictures(5)
    wrapped = named(encoder)
    wrapped.check("cpu")
    found = wrapped(images)
    assert found.shape == (5, 9 * 16)
    assert all(torch.equal(wrapped(images[i : i + 1]), found[i : i + 1]) for i in range(5))


# ------------------------------------------------------------------ on records


def rounded(pictures: Tensor) -> Tensor:
    """A product of matrices, which libraries may round by the place of a row. So it is asked picture by picture."""
    return torch.cat([picture.flatten()[None] / 7 @ PLANE.sin() for picture in pictures])


@pytest.mark.parametrize("batch", [1, 8, 32])
@pytest.mark.parametrize("encoder", [linear, rounded])
def test_without_one_record_all_others_have_the_same_features(batch: int, encoder: Function) -> None:
    """Bit for bit, whichever record is gone, in whatever order the rest is, for one encoder in three batch sizes."""
    wrapped, images = named(in_batches(encoder, batch)), pictures(41)
    wrapped.check("cpu")
    whole = wrapped(images)
    assert len(whole) == 41
    for gone in (0, 7, 32, 40):
        others = [i for i in range(41) if i != gone]
        assert torch.equal(wrapped(images[others]), whole[others])
    order = torch.randperm(41, generator=torch.Generator().manual_seed(2))
    assert torch.equal(wrapped(images[order]), whole[order])
    assert wrapped(images[:0]).shape == (0, WIDTH)


@pytest.mark.parametrize("kind", [ValueError, RequestError])
def test_the_message_of_an_encoder_that_fails_on_records_is_withheld(kind: type[Exception]) -> None:
    """Even an error of Gossamer's own kinds: it would pass through `Confined`."""

    def dark(given: Tensor) -> Tensor:
        if (given == 201).all((1, 2, 3)).any():
            raise kind(f"a picture of grey level {int(given.max())}")
        return linear(given)

    encoder = named(dark)
    encoder.check("cpu")
    with pytest.raises(ConfinedError, match=r"The encoder 'toy' failed: .* message is withheld") as caught:
        encoder(torch.full((3, *SHAPE), 201 / 255))
    error = caught.value
    assert error.__cause__ is None
    assert error.__context__ is None
    text = "".join(traceback.format_exception(error))
    assert "grey level" not in text
    assert "dark" in str(error), "the function and its line say where"
    frames = [frame.f_code.co_name for frame, _ in traceback.walk_tb(error.__traceback__)]
    assert "dark" not in frames


def test_an_encoder_of_another_width_on_records_fails_without_saying_so() -> None:
    encoder = named(lambda given: linear(given)[:, : 5 - int((given == 201).all())])
    encoder.check("cpu")
    with pytest.raises(ConfinedError, match="message is withheld") as caught:
        encoder(torch.full((9, *SHAPE), 201 / 255))
    assert "4" not in str(caught.value).partition("line")[0]


def test_an_encoder_that_learns_from_records_ends_the_run() -> None:
    """It passes the check, because it changes only where it sees something unusual: one picture that is all white."""

    class Awakened(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.plane = nn.Parameter(PLANE.clone())

        def forward(self, given: Tensor) -> Tensor:
            if (given == 255).all((1, 2, 3)).any():
                self.plane.data += 1
            return given.float().flatten(1) @ self.plane

    encoder = named(Awakened())
    encoder.check("cpu")
    encoder(pictures(40))
    with pytest.raises(PrivacyError, match="changed while it saw the records"):
        encoder(torch.ones(3, *SHAPE))


def test_copies_share_the_encoder_and_a_checkpoint_holds_none_of_it() -> None:
    encoder = named(linear)
    assert copy.deepcopy(encoder) is encoder
    assert encoder.state_dict() == {}
    encoder.load_state_dict({})
