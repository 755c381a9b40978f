"""How the constants of `data/synthetic/glyphs.py` were chosen: which lookalikes stay, and how far a glyph is bent.

    python tools/choose_glyphs.py

Beside scikit-learn's 1,797 digits of 8x8 pixels alone. Every other digit serves for choosing; what the rest says is printed at
the end, and chose nothing. What is chosen gives the digits their classes with the smallest log-loss, in a density of drawn
glyphs: a Gaussian kernel on each, equal priors. Nothing learns, and all draws have fixed seeds: the same choice every time.

These digits went through NIST's preprocessing: stretched to a box of 20x32, slant taken out, strokes made equally wide. So
they can choose neither slant nor stretch nor pen: glyphs are drawn almost upright here, with one pen, and framed in the same
way. What glyphs have instead is what paper and pens give: any slant up to some 30 degrees, either way; strokes of 0.07 to 0.2
of the height (pens of 0.3 to 0.7 mm, digits of 3 to 5 mm); edges as soft as a bilevel scan becomes when pixels are averaged.
"""

import torch
from sklearn.datasets import load_digits
from torch import Tensor
from torch.nn.functional import avg_pool2d, grid_sample

import strokes
from gossamer.data.synthetic import glyphs
from gossamer.data.synthetic.drawing import Range

PER_SHAPE = 80
WIDTHS = (0.5, 0.7, 0.9, 1.2)
"""Kernel widths, of which each reading takes the best."""
WIDE, INK = 20 / 32, 0.305
"""The width of a digit that is no single stroke, and the mean ink, of scikit-learn's digits."""
FREE = ("angle", "bends", "waves", "pen waves")
FACTORS = (0.5, 0.7, 1.4, 2.0)
MARGIN = 0.005
"""By how much of the log-loss something must harm to be left out."""


class Tried(glyphs.Glyphs):
    """Glyphs of given shapes, with given ranges and without slant."""

    def __init__(self, shapes: list[list[tuple[str, str]]], ranges: dict[str, Range]) -> None:
        self._fields = torch.stack(
            [glyphs._field(torch.from_numpy(strokes.path(*shape))) for group in shapes for shape in group]
        )
        self._first = torch.tensor([0] + [len(group) for group in shapes]).cumsum(0)
        self.ranges = tuple(({**ranges, **FIXED}).values())


def framed(images: Tensor) -> Tensor:
    """Glyphs uint8 [n, 1, 28, 28] as scikit-learn's digits are: float32 [n, 64]."""
    ink = (images > 64).squeeze(1)
    ends = []
    for axis in (1, 2):
        there = ink.any(axis).int()  # columns, then rows
        ends.append((there.argmax(1), 28 - there.flip(1).argmax(1)))
    (left, right), (top, bottom) = ends
    width = ((right - left) / (bottom - top) / 0.5).clamp(max=1) * WIDE
    axis = ((torch.arange(32) + 0.5) / 32)[None]
    x = (left[:, None] + (right - left)[:, None] * ((axis - 0.5) / width[:, None] + 0.5)) / 14 - 1
    y = (top[:, None] + (bottom - top)[:, None] * axis) / 14 - 1
    where = torch.stack([x[:, None, :].expand(-1, 32, -1), y[:, :, None].expand(-1, -1, 32)], dim=3)
    bitmap = (grid_sample(images.float() / 255, where, align_corners=False) > 0.5).float()
    small = avg_pool2d(bitmap, 4).flatten(1)
    return (small * (INK / small.mean(1, keepdim=True))).clamp(max=1)


def likelihoods(shapes: list[list[tuple[str, str]]], ranges: dict[str, Range], digits: Tensor) -> Tensor:
    """Kernel densities of digits [n, 64] under each shape. [widths, n, shapes]"""
    program, rng = Tried(shapes, ranges), torch.Generator().manual_seed(1)
    count = sum(map(len, shapes))
    labels = torch.repeat_interleave(torch.arange(10), torch.tensor([len(group) * PER_SHAPE for group in shapes]))
    parameters = program.random(torch.randn(PER_SHAPE, program.size, generator=rng)).repeat(
        count, 1
    )  # of each shape the same
    chosen = [(torch.arange(len(group)) + 0.5) / len(group) for group in shapes]
    parameters[:, 0] = torch.cat(chosen).repeat_interleave(PER_SHAPE)
    drawn = framed(program.draw(parameters, labels, 28))
    squares = torch.cdist(digits, drawn).square().view(len(digits), count, PER_SHAPE)
    return torch.stack([(-squares / (2 * width**2)).exp().mean(2) for width in WIDTHS])


def reading(
    found: Tensor, truth: Tensor, shapes: list[list[tuple[str, str]]], left_out: set[tuple[int, str]]
) -> tuple[float, float]:
    """Log-loss and accuracy where a lookalike is drawn as often as a digit of two fonts. found: see `likelihoods`."""
    densities = []
    for digit, group in enumerate(shapes):
        first = sum(map(len, shapes[:digit]))
        weight = [1 if character == str(digit) else 2 * ((digit, character) not in left_out) for _, character in group]
        densities.append(found[:, :, first : first + len(group)] @ torch.tensor(weight).float() / sum(weight))
    posterior = torch.stack(densities, dim=2) + 1e-12
    posterior /= posterior.sum(2, keepdim=True)
    losses = -posterior[:, torch.arange(len(truth)), truth].log().mean(1)
    best = int(losses.argmin())
    return float(losses[best]), float((posterior[best].argmax(1) == truth).float().mean())


def main() -> None:
    """Choose, and print what was chosen."""
    torch.set_num_threads(1)
    source = load_digits()
    digits = torch.from_numpy(source.images / 16).float().flatten(1)
    truth = torch.from_numpy(source.target)
    choosing = torch.arange(len(truth)) % 2 == 0
    seen, seen_truth = digits[choosing], truth[choosing]
    shapes = [
        [(font, str(digit)) for font in strokes.DIGIT_FONTS]
        + [(strokes.DIGIT_FONTS[0], character) for character in CANDIDATES[str(digit)]]
        for digit in range(10)
    ]
    ranges = {**glyphs._RANGES, **START}
    left_out: set[tuple[int, str]] = set()
    for turn in (1, 2):
        found = likelihoods(shapes, ranges, seen)
        left_out = set()
        best, accuracy = reading(found, seen_truth, shapes, left_out)
        print(f"turn {turn}: all lookalikes: log-loss {best:.4f}, accuracy {accuracy:.4f}", flush=True)
        while True:  # leave out the one that harms most
            rest = [(d, c) for d in range(10) for c in CANDIDATES[str(d)] if (d, c) not in left_out]
            losses = {each: reading(found, seen_truth, shapes, left_out | {each})[0] for each in rest}
            worst = min(losses, key=lambda each: losses[each])
            if losses[worst] > best - MARGIN:
                break
            best = losses[worst]
            left_out.add(worst)
            print(f"  without {worst[1]} for {worst[0]}: {best:.4f}", flush=True)
        for name in FREE:
            tried = {1.0: best}
            for factor in FACTORS:
                other = ranges[name]
                changed = Range(other.mean, other.spread * factor, other.low * factor, other.high * factor, other.count)
                tried[factor] = reading(
                    likelihoods(shapes, {**ranges, name: changed}, seen), seen_truth, shapes, left_out
                )[0]
            factor = min(tried, key=lambda each: tried[each])
            other, best = ranges[name], tried[factor]
            ranges[name] = Range(
                other.mean, other.spread * factor, other.low * factor, other.high * factor, other.count
            )
            print(
                f"  {name}: x {factor} = {ranges[name].spread:.3f} of { ({k: round(v, 4) for k, v in tried.items()}) }",
                flush=True,
            )
    unseen = reading(likelihoods(shapes, ranges, digits[~choosing]), truth[~choosing], shapes, left_out)
    print("the other half, once: log-loss {:.4f}, accuracy {:.4f}".format(*unseen))
    print({d: "".join(c for c in CANDIDATES[d] if (int(d), c) not in left_out) for d in CANDIDATES})


CANDIDATES = {
    "0": "OoØ", "1": "|/lI", "2": "zZՁƻƨ", "3": "ЗƷɜʒЭ", "4": "Чɥу", "5": "sSƼƽ", "6": "bбьϬ", "7": "⁊ך", "8": "ȣ&B",
    "9": "qgɋգ٩",
}  # fmt: skip
"""Characters of the first font that look like a handwritten digit, to the eye."""
START = {
    "angle": Range(0.0, 0.1, -0.3, 0.3),
    "bends": Range(0.0, 0.2, -0.5, 0.5, 4),
    "waves": Range(0.0, 1.0, -3.0, 3.0, 2 * 16),
    "pen waves": Range(0.0, 0.2, -0.6, 0.6, 16),
}
"""Where the search begins."""
FIXED = {"shear": Range(0.0, 0.05, -0.15, 0.15), "radius": Range(1.1, 0.1, 0.9, 1.3)}
"""What these digits cannot tell."""

if __name__ == "__main__":
    main()
