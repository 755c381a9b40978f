"""privGAN (Mukherjee, Xu, Trivedi, Patowary, Lavista Ferres; "privGAN: Protecting GANs from membership inference attacks").

Guarantee: none. Epsilon is infinity, and every run says so first: the networks learn from the records without clipping and
without noise, so `train` goes through `declassify` before it reads one. What the method does is make attacks harder. The
records are cut into N random parts, each with a generator and a discriminator of its own; a privacy discriminator guesses
which generator made a sample, and the generators are also trained to mislead it. How much that helps is measured by attacks
(`gossamer attack`), never proved. The privacy discriminator has seen the records with their part: it is never released.

Departures from the paper:
    - The steps of Algorithm 1 follow each other per batch, not per epoch, as in the published code; a batch is drawn from its
      part with replacement. The number of batches in an epoch comes from the declared size.
    - The generators descend on -log D(G(z)), the usual form, not on the log(1 - D(G(z))) of equations 1 and 5.
    - Records are taught as `real_target` in place of 1. The paper does not mention it; the published code has 0.95, and 0.9 for
      the plain GAN with which it compares. Here both have the same.
    - Labels, as inputs of all networks; the paper trains one model per class (`--labels per-class`), or none has labels.
    - Appendix 1, CIFAR-10: see `nets/privgan_cifar.py`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from dp_accounting import NonPrivateDpEvent
from torch import Tensor, nn
from torch.nn import functional as F

from gossamer.data.card import DataCard
from gossamer.data.records import Records
from gossamer.errors import DataError, RequestError
from gossamer.events import Event, Sink
from gossamer.methods import adversarial
from gossamer.methods.facts import Facts
from gossamer.nets import mlp, privgan_cifar
from gossamer.privacy.confined import Confined
from gossamer.privacy.guarantee import Plan
from gossamer.privacy.noise import Rng

REASON = (
    "privGAN (Mukherjee et al. 2021) trains on the records without clipping and without noise; what it protects is measured by "
    "attacks, not proved"
)


@dataclass(frozen=True, kw_only=True)
class Config:
    """Settings of one run.

    Args:
        pairs: generators, each with a discriminator and a part of the records of its own (N). 1: the plain GAN.
        privacy_weight: weight of misleading the privacy discriminator (lambda).
        objective: wrong-class: call each sample the work of a random other generator (Algorithm 1); equation-5: log of the
            probability of the right one, to be made small, without a lower bound.
        adversary_warm_epochs: epochs of the privacy discriminator alone, on records and the number of their part (n_i).
        adversary_delay_epochs: epochs of the pairs in which the privacy discriminator rests as it is (n_d).
        epochs: passes over a part of the records (n).
        batch_size: records, and samples of each generator, in a batch.
        labels: conditional: the label is an input of all networks; per-class: a model for each class, as in the paper's
            section 6.2; none: without labels, as where the paper attacks.
        release: how many of the generators are released, the first ones of the random order; 0: all.
        shared_latents: all generators get the same latents in a batch, as in the published code; off: each its own.
        network: dense: fully connected, any size; conv: convolutional, 32x32.
        width: size of all hidden layers; the paper's networks have 512, counted as in `nets`.
        latent_size: numbers in a latent vector; the last one picks the generator, the others (the paper's 100) are its input.
        learning_rate: Adam's step size for all networks.
        beta1: Adam's decay of the first moment.
        real_target: what discriminators are taught to answer on records; 1 is the paper's formula, 0.95 its code.
    """

    pairs: int = 2
    privacy_weight: float = 1.0
    objective: Literal["wrong-class", "equation-5"] = "wrong-class"
    adversary_warm_epochs: int = 50
    adversary_delay_epochs: int = 100
    epochs: int = 200
    batch_size: int = 256
    labels: Literal["conditional", "per-class", "none"] = "conditional"
    release: int = 0
    shared_latents: bool = True
    network: Literal["dense", "conv"] = "dense"
    width: int = 512
    latent_size: int = 101
    learning_rate: float = 2e-4
    beta1: float = 0.5
    real_target: float = 0.95


def plan(config: Config, card: DataCard) -> Plan:
    """One event without privacy: the records are handed to the training as they are. Pure: reads no record.

    Raises:
        RequestError: if the settings contradict each other, or the declared size is too small for them.
    """
    _check(config, card)
    return [(NonPrivateDpEvent(), 1)]


def length(config: Config, card: DataCard, _public: bool = False) -> tuple[int, int]:
    """Batches of the privacy discriminator's warm-up, and of the training."""
    warm = config.adversary_warm_epochs * _batches(config, card, parts=1) if config.pairs > 1 else 0
    return warm, config.epochs * _batches(config, card, parts=config.pairs)


FACTS = Facts(
    title="privGAN (Mukherjee et al. 2021): no formal guarantee",
    takes_public=False,
    without_guarantee=REASON,
    length=length,
)


def generator(config: Config, card: DataCard) -> "Mixture":
    """The network that a run releases, with fresh weights."""
    groups = _groups(config, card)
    released = config.release or config.pairs
    nets: list[nn.Module] = [_generator(config, card) for _ in range(groups * released)]
    return Mixture(nets, card.shape, classes=_released_classes(config, card), groups=groups)


class Mixture(nn.Module):
    """The released generators as one: each sample comes from a random one of them.

    Args:
        generators: [groups x released], those of one group side by side; a group knows one class, or there is one for all.
        shape: channels, height and width of an image.
        classes: number of labels that a sample can be asked for.
        groups: 1, or one group per class.
    """

    def __init__(self, generators: list[nn.Module], shape: tuple[int, ...], *, classes: int, groups: int) -> None:
        super().__init__()
        self.generators = nn.ModuleList(generators)
        self.shape, self.classes, self.groups = shape, classes, groups

    def forward(self, latents: Tensor, labels: Tensor) -> Tensor:
        """latents: float [n, latent_size], standard normal; labels: int64 [n]. Returns [n, C, H, W] in [0, 1].

        The normal distribution function turns the last latent into a uniform number, and that into a generator.
        """
        released = len(self.generators) // self.groups
        chosen = (torch.special.ndtr(latents[:, -1]) * released).long().clamp_(max=released - 1)
        if self.groups > 1:
            chosen = chosen + released * labels
        images = latents.new_zeros(len(latents), *self.shape)
        for number in chosen.unique().tolist():
            mine = chosen == number
            images[mine] = self.generators[number](latents[mine, :-1], labels[mine])
        return images


def train(
    private: Confined[Records],
    config: Config,
    card: DataCard,
    *,
    public: Records | None = None,  # noqa: ARG001 (what every method is offered; run/fit refuses it for this one)
    resume: "State | None" = None,
    emit: Sink,
    rng: Rng,
    device: str = "cpu",
) -> Iterator["State"]:
    """Algorithm 1, one batch per yield; its lines counted from "N <-". From `declassify` on, epsilon is infinity."""
    state = resume or State.fresh(config, card, rng, device)
    records = private.declassify(reason=REASON)
    parts = partition(records, config, card, state.split_seed)  # l. 1-3
    yield from warm_up(state, parts, config, card, emit=emit, rng=rng)  # l. 4-6
    _, steps = length(config, card)
    every = max(1, steps // 400)

    while state.step < steps:  # l. 7
        epoch = state.step * config.epochs // steps
        shown = []
        for model, mine in zip(state.models, parts, strict=True):
            latents, labels = draw_latents(config, card, rng, model.device)
            fakes = [G(z, y) for G, z, y in zip(model.generators, latents, labels, strict=True)]  # l. 9
            adversarial.descend(
                model.opt_D, discriminator_loss(model, mine, fakes, labels, config, rng), model.discriminators
            )  # l. 8, 11-14
            if model.adversary is not None and epoch >= config.adversary_delay_epochs:  # l. 17
                model.adversary.learn(fakes, labels)  # l. 18
            loss, figures = generator_loss(model, fakes, labels, config, rng)  # l. 10, 15-16
            adversarial.descend(model.opt_G, loss, model.generators)  # l. 20
            shown.append(figures)
        state.step += 1
        if state.step % every == 0 or state.step == 1:
            means = {name: sum(each[name] for each in shown) / len(shown) for name in shown[0]}
            emit(Event("step", state.step, means))
        yield state


def partition(records: Records, config: Config, card: DataCard, seed: int) -> list[list[Records]]:
    """Lines 1 to 3: N random parts of equal size (but for one unit), for each model: one, or one per class.

    Whole units go to one part. The order comes from a seed that the checkpoint keeps, so a resume finds the same parts.

    Raises:
        DataError: if a part would be empty.
    """
    order = np.random.default_rng(seed).permutation(records.population)
    parts = [records.take(np.sort(some)) for some in np.array_split(order, config.pairs)]
    if config.labels != "per-class":
        found = [parts]
    else:
        found = [[part[np.flatnonzero(part.labels == label)] for part in parts] for label in range(card.classes)]
    for number, mine in enumerate(found):
        if min(map(len, mine)) == 0:
            which = f"records of class {number}" if config.labels == "per-class" else "records"
            raise DataError(f"too few {which} for {config.pairs} parts: one part holds none. Lower --pairs.")
    return found


def warm_up(
    state: "State", parts: list[list[Records]], config: Config, card: DataCard, *, emit: Sink, rng: Rng
) -> Iterator["State"]:
    """Lines 4 to 6: teach the privacy discriminator which part a record lies in, one batch per yield."""
    total, _ = length(config, card)
    every = max(1, total // 40)
    while state.warm < total:
        for model, mine in zip(state.models, parts, strict=True):
            assert model.adversary is not None, "a single pair has no warm-up"
            share = -(-config.batch_size // len(mine))
            batches = [_batch(part, share, rng, model.device) for part in mine]
            model.adversary.learn([images for images, _ in batches], [labels for _, labels in batches])  # l. 5
        state.warm += 1
        if state.warm % every == 0:
            emit(Event("warm", state.warm, {}))
        yield state


def draw_latents(config: Config, card: DataCard, rng: Rng, device: torch.device) -> tuple[list[Tensor], list[Tensor]]:
    """For each generator latents [B, latent_size - 1] and labels [B]: the same for all, or each its own."""

    def draw() -> tuple[Tensor, Tensor]:
        z = torch.randn(config.batch_size, config.latent_size - 1, generator=rng.public("latents"))
        y = torch.zeros(config.batch_size, dtype=torch.int64)
        if config.labels == "conditional":
            y = adversarial.draw_labels(config.batch_size, card, rng.public("labels"))
        return z.to(device), y.to(device)

    drawn = [draw()] * config.pairs if config.shared_latents else [draw() for _ in range(config.pairs)]
    return [z for z, _ in drawn], [y for _, y in drawn]


def discriminator_loss(
    model: "Model", parts: list[Records], fakes: list[Tensor], labels: list[Tensor], config: Config, rng: Rng
) -> Tensor:
    """Lines 11 to 13: tell a batch of each part from the fakes of its generator. Summed over the pairs."""
    total = torch.zeros((), device=model.device)
    for D, part, fake, label in zip(model.discriminators, parts, fakes, labels, strict=True):
        images, real_labels = _batch(part, config.batch_size, rng, model.device)
        real = D(images, real_labels)
        on_records = F.binary_cross_entropy_with_logits(real, torch.full_like(real, config.real_target))
        total = total + (on_records + F.softplus(D(fake.detach(), label)).mean()) / 2
    return total


def generator_loss(
    model: "Model", fakes: list[Tensor], labels: list[Tensor], config: Config, rng: Rng
) -> tuple[Tensor, dict[str, float]]:
    """Lines 10, 15 and 16: deceive the own discriminator and mislead the adversary. Summed over the pairs.

    Returns:
        The loss, and figures to show; they are computed on fakes.
    """
    logits = [D(fake, label) for D, fake, label in zip(model.discriminators, fakes, labels, strict=True)]
    deceive = torch.stack([adversarial.non_saturating_loss(logit) for logit in logits]).sum()
    shown = {"generator_loss": float(deceive.detach()) / len(fakes)}
    shown["accuracy_on_fakes"] = float((torch.cat(logits).detach() < 0).float().mean())
    if model.adversary is None:
        return deceive, shown
    answers = model.adversary.net(torch.cat(fakes), torch.cat(labels))
    own = _numbers(fakes)
    mislead = misleading(answers, own, config, rng) * len(fakes)
    shown["adversary_accuracy"] = float((answers.detach().argmax(1) == own).float().mean())
    return deceive + config.privacy_weight * mislead, shown


def misleading(answers: Tensor, own: Tensor, config: Config, rng: Rng) -> Tensor:
    """What the generators lose to the adversary, averaged over samples. answers: logits [n, N]; own: int64 [n]."""
    if config.objective == "equation-5":
        return -F.cross_entropy(answers, own)
    offset = torch.randint(1, config.pairs, own.shape, generator=rng.public("wrong classes")).to(own.device)
    return F.cross_entropy(answers, (own + offset) % config.pairs)  # l. 10, 16: another generator, uniformly


@dataclass
class Adversary:
    """The privacy discriminator, D_p. It has seen records with the number of their part: it never leaves the checkpoint."""

    net: nn.Module
    optimiser: torch.optim.Adam

    def learn(self, images: list[Tensor], labels: list[Tensor]) -> None:
        """Lines 5 and 18: one step on -log of the probability of the right part, or generator, averaged over all images."""
        logits = self.net(torch.cat(images).detach(), torch.cat(labels))
        adversarial.descend(self.optimiser, F.cross_entropy(logits, _numbers(images)), self.net)


@dataclass
class Model:
    """N pairs and their privacy discriminator: all of a run, or what one class has."""

    generators: nn.ModuleList
    discriminators: nn.ModuleList
    opt_G: torch.optim.Adam
    opt_D: torch.optim.Adam
    adversary: Adversary | None

    @classmethod
    def fresh(cls, config: Config, card: DataCard, device: str) -> "Model":
        """Untrained."""
        G = nn.ModuleList(_generator(config, card) for _ in range(config.pairs)).to(device)
        D = nn.ModuleList(_discriminator(config, card, 1) for _ in range(config.pairs)).to(device)
        adversary = None
        if config.pairs > 1:
            P = _discriminator(config, card, config.pairs).to(device)
            adversary = Adversary(P, _adam(P, config))
        return cls(G, D, _adam(G, config), _adam(D, config), adversary)

    @property
    def device(self) -> torch.device:
        """Where the networks are."""
        return next(self.generators.parameters()).device

    def kept(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        found = {"G": self.generators, "D": self.discriminators, "opt_G": self.opt_G, "opt_D": self.opt_D}
        if self.adversary is None:
            return found
        return {**found, "P": self.adversary.net, "opt_P": self.adversary.optimiser}


@dataclass
class State:
    """Everything a run goes on from. Private: all of it has seen records. Only `released` is handed out."""

    config: Config
    card: DataCard
    models: list[Model]
    split_seed: int
    step: int = 0
    warm: int = 0

    @classmethod
    def fresh(cls, config: Config, card: DataCard, rng: Rng, device: str = "cpu") -> "State":
        """Networks and optimisers at the start of a run, and the seed of the partition."""
        with adversarial.initialised_by(rng.public("initialisation")):
            models = [Model.fresh(config, card, device) for _ in range(_groups(config, card))]
        return cls(config, card, models, int(torch.randint(2**62, (1,), generator=rng.public("partition"))))

    @property
    def left(self) -> int:
        """Batches that the run still has before it."""
        return length(self.config, self.card)[1] - self.step

    @property
    def released(self) -> Mixture:
        """The generators that the run hands out."""
        count = self.config.release or self.config.pairs
        nets = [G for model in self.models for G in list(model.generators)[:count]]
        classes = _released_classes(self.config, self.card)
        return Mixture(nets, self.card.shape, classes=classes, groups=len(self.models))

    @torch.no_grad()
    def scores(self, images: Tensor, labels: Tensor) -> Tensor:
        """How real each discriminator finds each image: [N, n] in [0, 1]. For attacks. images: [n, C, H, W] in [0, 1]."""
        found = images.new_zeros(self.config.pairs, len(images))
        for number, model in enumerate(self.models):
            mine = labels == number if len(self.models) > 1 else torch.ones_like(labels, dtype=torch.bool)
            for row, D in zip(found, model.discriminators, strict=True):
                row[mine] = torch.sigmoid(D(images[mine], labels[mine]))[:, 0]
        return found

    def state_dict(self) -> dict[str, Any]:
        """Tensors and plain numbers: what a checkpoint holds."""
        models = [{name: part.state_dict() for name, part in model.kept().items()} for model in self.models]
        return {"models": models, **{name: getattr(self, name) for name in _COUNTERS}}

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """The inverse of `state_dict`, in place."""
        for model, parts in zip(self.models, saved["models"], strict=True):
            for name, part in model.kept().items():
                part.load_state_dict(parts[name])
        for name in _COUNTERS:
            setattr(self, name, saved[name])


_COUNTERS = ("split_seed", "step", "warm")


def _generator(config: Config, card: DataCard) -> mlp.Generator | privgan_cifar.Generator:
    nets = privgan_cifar.Generator if config.network == "conv" else mlp.Generator
    return nets(card.shape, _input_classes(config, card), width=config.width, latent_size=config.latent_size - 1)


def _discriminator(config: Config, card: DataCard, outputs: int) -> mlp.Discriminator | privgan_cifar.Discriminator:
    nets = privgan_cifar.Discriminator if config.network == "conv" else mlp.Discriminator
    return nets(card.shape, _input_classes(config, card), width=config.width, outputs=outputs)


def _adam(module: nn.Module, config: Config) -> torch.optim.Adam:
    return torch.optim.Adam(module.parameters(), lr=config.learning_rate, betas=(config.beta1, 0.999), fused=True)


def _batch(records: Records, size: int, rng: Rng, device: torch.device) -> tuple[Tensor, Tensor]:
    """Images and labels of records drawn with replacement."""
    positions = torch.randint(len(records), (size,), generator=rng.public("records")).numpy()
    return records[positions].tensors(device)


def _numbers(images: list[Tensor]) -> Tensor:
    """The number of its part or generator for each image: int64 [n]."""
    return torch.cat([torch.full((len(each),), number, device=each.device) for number, each in enumerate(images)])


def _batches(config: Config, card: DataCard, *, parts: int) -> int:
    """Batches in an epoch of a model whose share of the declared size is cut into so many parts."""
    return max(1, card.declared_size // (_groups(config, card) * parts * config.batch_size))


def _groups(config: Config, card: DataCard) -> int:
    return card.classes if config.labels == "per-class" else 1


def _input_classes(config: Config, card: DataCard) -> int:
    return card.classes if config.labels == "conditional" else 1


def _released_classes(config: Config, card: DataCard) -> int:
    return 1 if config.labels == "none" else card.classes


def _check(config: Config, card: DataCard) -> None:
    """Refuse settings that contradict each other."""
    if config.release > config.pairs:
        raise RequestError(f"--release {config.release} is more than the {config.pairs} generators that --pairs makes.")
    if config.latent_size < 2:
        raise RequestError("--latent-size must be at least 2: the last number picks the generator.")
    if not 0.5 < config.real_target <= 1:
        raise RequestError(f"--real-target must be above 0.5 and at most 1, not {config.real_target:g}.")
    if config.beta1 >= 1:
        raise RequestError(f"--beta1 must be below 1, not {config.beta1:g}.")
    part = card.declared_size // (_groups(config, card) * config.pairs)
    if part < config.batch_size:
        raise RequestError(
            f"--batch-size {config.batch_size} is more than the {part} records of a part ({card.declared_size:,} declared, "
            f"{_groups(config, card)} x {config.pairs} parts). Lower it, or --pairs."
        )
