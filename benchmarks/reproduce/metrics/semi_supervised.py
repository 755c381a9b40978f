"""Semi-supervised classification with synthetic pictures (Zhang, Ji, Wang 2018, dp-GAN, section 5, Algorithm 4).

An analyst holds a few labelled public records and a generator. Classifier C1 reads pictures; C2 reads a picture and the
code that the generator made it from. C1 labels synthetic pictures for C2, and C2, which may find that nearby codes
mean one class, labels synthetic pictures for C1. The question is whether C1 ends better than on the labelled records
alone. Labelled records have no code, so C2 learns from synthetic pictures only.

The paper prints no sizes or numbers of steps. The defaults are of the authors' code, which also does two things that
the paper does not say; `SemiSupervised` has both as options, off, and `AS_CODED` has them on. Where we are on our own:
C1 labels without dropout and with its running batch statistics.

The test records are read only to count. The figures are internal, and no guarantee covers them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.reproduce.metrics.nets import CodeAndImageMLP
from gossamer.errors import DataError
from gossamer.intervals import Estimate, proportion
from gossamer.metrics.arrays import Images, Labels, check_pair, own_randomness, pictures
from gossamer.metrics.classify import predict
from gossamer.nets.features import FeatureCNN

Draw: TypeAlias = Callable[[int, np.random.Generator], tuple[NDArray[np.floating[Any]], Images]]
"""n and a random generator to n codes, float [n, z], and the n pictures that they make, uint8 [n, C, H, W]."""
Progress: TypeAlias = Callable[[int, int], None]
"""Called after every 50 steps with the steps done and all steps, of both trainings together."""

_REPORT_EVERY = 50


@dataclass(frozen=True, kw_only=True)
class SemiSupervised:
    """How C1 and C2 are trained.

    Args:
        steps: updates of C1, and of C2. 9 times 390 in the authors' code; "until converged" in the paper.
        batch_size: pictures per update, m in Algorithm 4; at least 2, for the batch normalisation.
        ramp_start: steps before any synthetic picture reaches C1. The paper says "one third point of the regular
            model"; the code tries 1,600 and 2,400.
        ramp_length: steps in which the synthetic share rises linearly from 0; the code tries 400 and 800.
        final_share: synthetic share of a batch of C1 after the ramp, p_s in Algorithm 4.
        learning_rate: of Adam, for both.
        entropy_weight: w; synthetic pictures for C1 are then picked out of a batch with probability proportional to
            exp(-w * entropy of C2's prediction), without replacement. 0, as in the paper: all alike. 4 in the code.
        soft_labels: C2 learns C1's probabilities, as in the code, not C1's most likely class, as in the paper.

    Raises:
        ValueError: if a setting is outside its range.
    """

    steps: int = 3_510
    batch_size: int = 128
    ramp_start: int = 1_600
    ramp_length: int = 400
    final_share: float = 0.1
    learning_rate: float = 1e-3
    entropy_weight: float = 0.0
    soft_labels: bool = False

    def __post_init__(self) -> None:
        if self.steps < 1 or self.batch_size < 2 or self.ramp_start < 0 or self.ramp_length < 0:
            raise ValueError("a SemiSupervised needs steps >= 1, batch_size >= 2, ramp_start >= 0 and ramp_length >= 0")
        if not 0 <= self.final_share <= 1 or self.learning_rate <= 0 or self.entropy_weight < 0:
            raise ValueError(
                "a SemiSupervised needs final_share from 0 to 1, learning_rate above 0 and entropy_weight of 0 or more"
            )

    def share(self, step: int) -> float:
        """The synthetic share of C1's batch at a step, counted from 0."""
        if step < self.ramp_start:
            return 0.0
        risen = (step - self.ramp_start) / self.ramp_length if self.ramp_length else 1.0
        return self.final_share * min(1.0, risen)


AS_CODED = SemiSupervised(entropy_weight=4.0, soft_labels=True)
"""As the authors' code has it."""


@dataclass(frozen=True)
class Outcome:
    """What synthetic pictures are worth.

    Args:
        with_synthetic: accuracy of C1 after Algorithm 4.
        baseline: accuracy of C1 after as many steps on the labelled records alone.
    """

    with_synthetic: Estimate
    baseline: Estimate


def compare(
    train_images: Images,
    train_labels: Labels,
    test_images: Images,
    test_labels: Labels,
    draw: Draw,
    *,
    classes: int,
    settings: SemiSupervised | None = None,
    seed: int,
    progress: Progress | None = None,
) -> Outcome:
    """Accuracy of C1 on real test records with and without synthetic pictures.

    Both trainings start from the same weights and read the same labelled records until the ramp starts. The Wilson
    95 % intervals are over the test records, for one training each. How much the trainings and the choice of labelled
    records vary is not in them: with 100 labelled records that is more, so repeat over seeds and choices.

    Args:
        train_images: uint8 [N, C, H, W], the few labelled records.
        train_labels: integers [N], from 0 to classes - 1.
        test_images: uint8 [M, C, H, W], real records that trained nothing.
        test_labels: integers [M].
        draw: makes codes and the pictures of those codes.
        classes: number of classes.
        settings: how to train; None: the defaults.
        seed: fixes initial weights, dropout, and the draws of records and codes.
        progress: called every 50 steps.

    Raises:
        DataError: if the arrays, or what `draw` returns, do not fit together; names the argument and the index.
    """
    settings = settings or SemiSupervised()
    check_pair(train_images, train_labels, test_images, test_labels, classes, smallest=1)

    def judged(using: Draw | None, done: int, data_used: str) -> Estimate:
        def report(step: int) -> None:
            if progress is not None:
                progress(done + step, 2 * settings.steps)

        C1 = train(
            train_images,
            train_labels,
            using,
            classes=classes,
            settings=settings,
            seed=seed,
            report=report,
        )
        right = int((predict(C1, test_images) == test_labels).sum())
        return proportion(
            right,
            len(test_labels),
            f"{len(test_labels):,} real test records; image classifier of Zhang et al. after {settings.steps:,} steps on "
            f"{len(train_images):,} labelled records {data_used}",
        )

    return Outcome(
        with_synthetic=judged(draw, 0, f"and up to {settings.final_share:.0%} synthetic pictures per batch"),
        baseline=judged(None, settings.steps, "alone"),
    )


def train(
    images: Images,
    labels: Labels,
    draw: Draw | None,
    *,
    classes: int,
    settings: SemiSupervised,
    seed: int,
    report: Callable[[int], None],
) -> nn.Module:
    """Algorithm 4. Arguments as `compare`, checked there; without `draw`, C1 on the labelled records alone. Returns C1."""
    of_labelled, of_synthetic = np.random.default_rng(seed).spawn(2)
    shape, m = images.shape[1:], settings.batch_size
    truth = torch.from_numpy(labels.astype(np.int64))
    with own_randomness(seed):
        C1 = FeatureCNN(shape, classes)
        adam1 = torch.optim.Adam(C1.parameters(), settings.learning_rate, fused=True)
        if draw is not None:
            z, x = _sample(draw, m, of_synthetic, shape)
            C2 = CodeAndImageMLP(z.shape[1], shape, classes)
            adam2 = torch.optim.Adam(C2.parameters(), settings.learning_rate, fused=True)

        for step in range(settings.steps):  # Alg. 4, l. 1
            batch = of_labelled.integers(len(images), size=m)
            fakes, fake_labels = torch.empty(0, *shape), truth[:0]
            if draw is not None:
                z, x = _sample(draw, m, of_synthetic, shape)  # l. 2, 3
                guess = _probabilities(C1, x)  # l. 4
                _update(C2, adam2, (z, x), guess if settings.soft_labels else guess.argmax(1))  # l. 5
                n = int(m * settings.share(step))
                if n:
                    pool = m if settings.entropy_weight else n
                    z, x = _sample(draw, pool, of_synthetic, shape)  # l. 6, 7
                    guess = _probabilities(C2, z, x)  # l. 8
                    picked = _clearest(guess, n, settings.entropy_weight, of_synthetic)
                    fakes, fake_labels = x[picked], guess[picked].argmax(1)
            batch = batch[: m - len(fakes)]  # l. 9
            records = pictures(images, batch)
            answers = torch.cat([fake_labels, truth[torch.from_numpy(batch)]])
            _update(C1, adam1, (torch.cat([fakes, records]),), answers)  # l. 10
            if (step + 1) % _REPORT_EVERY == 0 or step + 1 == settings.steps:
                report(step + 1)
    return C1


def _sample(draw: Draw, n: int, rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """n codes, float32 [n, z], and their pictures as a net reads them, float32 [n, C, H, W]."""
    codes, synthetic = draw(n, rng)
    _check_drawn(codes, synthetic, n, shape)
    return torch.from_numpy(codes.astype(np.float32)), pictures(synthetic, slice(None))


def _probabilities(net: nn.Module, *inputs: Tensor) -> Tensor:
    """What a classifier says of its inputs, without dropout. [n, classes]"""
    net.eval()
    with torch.no_grad():
        return torch.softmax(net(*inputs), dim=1)


def _update(net: nn.Module, optimizer: torch.optim.Optimizer, inputs: tuple[Tensor, ...], targets: Tensor) -> None:
    """One step on the mean cross-entropy. targets: classes, int64 [n], or probabilities, [n, classes]."""
    net.train()
    loss = F.cross_entropy(net(*inputs), targets)
    optimizer.zero_grad()
    torch.autograd.backward(loss)
    optimizer.step()


def _clearest(probabilities: Tensor, n: int, weight: float, rng: np.random.Generator) -> Tensor:
    """Indices of n rows, drawn without replacement with probability proportional to exp(-weight * entropy).

    The n largest of log weight + Gumbel noise are such a draw, and no weight is too small for it.
    """
    entropies = torch.special.entr(probabilities).sum(dim=1).double().numpy()
    keys = rng.gumbel(size=len(entropies)) - weight * entropies
    return torch.from_numpy(np.argsort(-keys)[:n].copy())


def _check_drawn(codes: Any, synthetic: Any, n: int, shape: tuple[int, ...]) -> None:
    if synthetic.dtype != np.uint8 or synthetic.shape != (n, *shape):
        raise DataError(
            f"draw: asked for {n}, it gave pictures of {synthetic.dtype} with shape {synthetic.shape}; they must be uint8 "
            f"with shape {(n, *shape)}, like the labelled records."
        )
    if not np.issubdtype(codes.dtype, np.floating) or codes.ndim != 2 or len(codes) != n or not codes.shape[1]:
        raise DataError(
            f"draw: asked for {n}, it gave codes of {codes.dtype} with shape {codes.shape}; they must be floats [n, z]."
        )
    if not np.isfinite(codes).all():
        wrong = np.flatnonzero(~np.isfinite(codes).all(axis=1))
        raise DataError(f"draw: the code at index {wrong[0]} is not finite ({len(wrong)} such codes).")
