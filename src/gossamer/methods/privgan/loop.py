"""privGAN's training: Algorithm 1 of Mukherjee et al. (2021), its lines counted from "N <-". Records are read as they are."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gossamer.data.card import DataCard, draw_labels
from gossamer.errors import DataError
from gossamer.methods import contract
from gossamer.methods.common import adversarial
from gossamer.methods.common.learners import drawn_from
from gossamer.methods.contract import Logs, Records, Run, StatefulDataclass
from gossamer.methods.privgan import REASON, Config, groups, length, nets
from gossamer.nets.initialised import initialised_by
from gossamer.privacy import Confined

Batch: TypeAlias = tuple[Tensor, Tensor]
"""Images, or latents, and their labels int64."""


def train(run: Run[Config], state: "State", private: Confined[Records]) -> Iterator[Logs]:
    """Lines 7 to 20, one batch per yield."""
    config = run.config
    parts = parts_of(run, state, private)  # l. 1-3
    _, steps = length(config, run.card)
    for step in range(state.step, steps):  # l. 7
        epoch = step * config.epochs // steps
        logs = []
        for model, own_parts in zip(state.models, parts, strict=True):
            fakes = [(G(z, y), y) for G, (z, y) in zip(model.generators, draw_latents(run), strict=True)]  # l. 9
            loss = discriminator_loss(run, model, own_parts, fakes)  # l. 8, 11-13
            adversarial.descend(model.opt_D, loss, model.discriminators)  # l. 14
            if model.adversary is not None and epoch >= config.adversary_delay_epochs:  # l. 17
                model.adversary.learn(fakes)  # l. 18
            loss, figures = generator_loss(run, model, fakes)  # l. 10, 15-16
            adversarial.descend(model.opt_G, loss, model.generators)  # l. 20
            logs.append(figures)
        yield {name: sum(figures[name] for figures in logs) / len(logs) for name in logs[0]}


def warm_up(run: Run[Config], state: "State", private: Confined[Records]) -> Iterator[Logs]:
    """Lines 4 to 6: train the privacy discriminator to find a record's part, one batch per yield. Shows nothing."""
    parts = parts_of(run, state, private)  # l. 1-3
    steps, _ = length(run.config, run.card)
    for _ in range(state.step, steps):
        for model, own_parts in zip(state.models, parts, strict=True):
            assert model.adversary is not None, "a single pair has no warm-up"
            share = -(-run.config.batch_size // len(own_parts))
            model.adversary.learn([_batch(run, part, share) for part in own_parts])  # l. 5
        yield {}


def parts_of(run: Run[Config], state: "State", private: Confined[Records]) -> list[list[Records]]:
    """The parts of a run, the same in both of its phases. From `declassify` on, epsilon is infinity."""
    records = private.declassify(reason=REASON)
    return partition(records, run.config, run.card, state.split_seed)


def partition(records: Records, config: Config, card: DataCard, seed: int) -> list[list[Records]]:
    """Lines 1 to 3: N random parts of equal size (but for one unit), for each model: one, or one per class.

    Whole units go to one part. The order comes from a seed that the checkpoint keeps, so a resume finds the same parts.

    Raises:
        DataError: if a part would be empty.
    """
    order = np.random.default_rng(seed).permutation(records.population)
    parts = [records.take(np.sort(units)) for units in np.array_split(order, config.pairs)]
    if config.labels != "per-class":
        splits = [parts]
    else:
        splits = [[part[np.flatnonzero(part.labels == label)] for part in parts] for label in range(card.classes)]
    for number, own_parts in enumerate(splits):
        if min(map(len, own_parts)) == 0:
            called = card.class_names[number] if card.class_names else number
            which = f"records of class {called}" if config.labels == "per-class" else "records"
            raise DataError(f"too few {which} for {config.pairs} parts: one part holds none. Lower `pairs`.")
    return splits


def draw_latents(run: Run[Config]) -> list[Batch]:
    """For each generator latents [B, latent_size - 1] and labels [B]: the same for all, or each its own."""
    config, B = run.config, run.config.batch_size

    def draw() -> Batch:
        z = torch.randn(B, config.latent_size - 1, generator=run.rng.public("latents"))
        y = torch.zeros(B, dtype=torch.int64)
        if config.labels == "conditional":
            y = draw_labels(B, run.card, run.rng.public("labels"))
        return z.to(run.device), y.to(run.device)

    return [draw()] * config.pairs if config.shared_latents else [draw() for _ in range(config.pairs)]


def discriminator_loss(run: Run[Config], model: "Model", parts: list[Records], fakes: list[Batch]) -> Tensor:
    """Lines 11 to 13: discriminate a batch of each part from the fakes of its generator. Summed over the pairs."""
    total = torch.zeros((), device=run.device)
    for D, part, (fake, label) in zip(model.discriminators, parts, fakes, strict=True):
        real = D(*_batch(run, part, run.config.batch_size))
        on_records = F.binary_cross_entropy_with_logits(real, torch.full_like(real, run.config.real_target))
        total = total + (on_records + F.softplus(D(fake.detach(), label)).mean()) / 2
    return total


def generator_loss(run: Run[Config], model: "Model", fakes: list[Batch]) -> tuple[Tensor, dict[str, float]]:
    """Lines 10, 15 and 16: deceive the own discriminator and mislead the adversary. The loss, and figures on fakes to show."""
    logits = [D(*fake) for D, fake in zip(model.discriminators, fakes, strict=True)]
    deceive = torch.stack([adversarial.non_saturating_losses(logit).mean() for logit in logits]).sum()
    figures = {"generator_loss": float(deceive.detach()) / len(fakes)}
    figures["accuracy_on_fakes"] = float((torch.cat(logits).detach() < 0).float().mean())
    if model.adversary is None:
        return deceive, figures
    (images, labels), own = _joined(fakes), _numbers(fakes)
    answers = model.adversary.net(images, labels)
    mislead = misleading(run, answers, own) * len(fakes)
    figures["adversary_accuracy"] = float((answers.detach().argmax(1) == own).float().mean())
    return deceive + run.config.privacy_weight * mislead, figures


def misleading(run: Run[Config], answers: Tensor, own: Tensor) -> Tensor:
    """What the generators lose to the adversary, averaged over samples. answers: logits [n, N]; own: int64 [n]."""
    N = run.config.pairs
    if run.config.objective == "equation-5":
        return -F.cross_entropy(answers, own)
    offset = torch.randint(1, N, own.shape, generator=run.rng.public("wrong classes")).to(own.device)
    return F.cross_entropy(answers, (own + offset) % N)  # l. 10, 16: another generator, uniformly


@dataclass
class Adversary(StatefulDataclass):
    """The privacy discriminator, D_p. It has seen records with the number of their part: it never leaves the checkpoint."""

    net: nn.Module
    optimiser: torch.optim.Adam

    def learn(self, batches: list[Batch]) -> None:
        """Lines 5 and 18: one step on -log of the probability of the right part, or generator, averaged over all images."""
        images, labels = _joined(batches)
        loss = F.cross_entropy(self.net(images.detach(), labels), _numbers(batches))
        adversarial.descend(self.optimiser, loss, self.net)


@dataclass
class Model(StatefulDataclass):
    """N pairs and their privacy discriminator: all of a run, or what one class has."""

    generators: nn.ModuleList
    discriminators: nn.ModuleList
    opt_G: torch.optim.Adam
    opt_D: torch.optim.Adam
    adversary: Adversary | None

    @classmethod
    def fresh(cls, run: Run[Config]) -> "Model":
        """Untrained."""
        config, card, N = run.config, run.card, run.config.pairs
        G = nn.ModuleList(nets.generator(config, card) for _ in range(N)).to(run.device)
        D = nn.ModuleList(nets.discriminator(config, card, outputs=1) for _ in range(N)).to(run.device)
        adversary = None
        if N > 1:
            P = nets.discriminator(config, card, outputs=N).to(run.device)
            adversary = Adversary(P, _adam(P, config))
        return cls(G, D, _adam(G, config), _adam(D, config), adversary)


@dataclass
class State(contract.State):
    """Private: all of it has seen the records. Only `released` is handed out."""

    models: list[Model]
    """One, or one per class."""
    split_seed: int
    """Fixes the parts, so that a resume finds them again."""
    count: int
    """How many generators of each model are released."""

    @property
    def released(self) -> nets.Mixture:
        """The generators that the run hands out."""
        generators = [G for model in self.models for G in list(model.generators)[: self.count]]
        return nets.Mixture(generators, groups=len(self.models))

    @torch.no_grad()
    def scores(self, records: Records) -> Tensor:
        """How real each discriminator finds each record: probabilities, of the model of its class. [N, n]"""
        images, labels = records.tensors(next(self.models[0].generators.parameters()).device)
        rows = images.new_zeros(len(self.models[0].discriminators), len(images))
        for number, model in enumerate(self.models):
            of_class = labels == number if len(self.models) > 1 else torch.ones_like(labels, dtype=torch.bool)
            for row, D in zip(rows, model.discriminators, strict=True):
                row[of_class] = torch.sigmoid(D(images[of_class], labels[of_class]))[:, 0]
        return rows


def start(run: Run[Config]) -> State:
    """Networks and optimisers at the start of a run, and the seed of the partition."""
    config = run.config
    with initialised_by(run.rng.public("initialisation")):
        models = [Model.fresh(run) for _ in range(groups(config, run.card))]
    split_seed = int(torch.randint(2**62, (1,), generator=run.rng.public("partition")))
    return State(models, split_seed, config.release or config.pairs)


def generator(config: Config, card: DataCard) -> nets.Mixture:
    """The network that a run releases, with fresh weights."""
    models = groups(config, card)
    count = models * (config.release or config.pairs)
    return nets.Mixture([nets.generator(config, card) for _ in range(count)], groups=models)


def _adam(module: nn.Module, config: Config) -> torch.optim.Adam:
    return torch.optim.Adam(module.parameters(), lr=config.learning_rate, betas=(config.beta1, 0.999), fused=True)


def _batch(run: Run[Config], records: Records, size: int) -> Batch:
    """Images and labels of records drawn with replacement."""
    return drawn_from(records, size, run.rng.public("records")).tensors(run.device)


def _joined(batches: list[Batch]) -> Batch:
    images, labels = zip(*batches, strict=True)
    return torch.cat(images), torch.cat(labels)


def _numbers(batches: list[Batch]) -> Tensor:
    """The number of its part or generator for each image: int64 [n]."""
    return torch.cat([torch.full_like(labels, number) for number, (_, labels) in enumerate(batches)])
