"""Many critics at once, each with its shard of the records: what GS-WGAN keeps inside `Confined`.

They are stored as rows of one matrix and computed together (`stacked_critics.py`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.nn.grad import conv2d_input

from gossamer.data.records import Records, sent
from gossamer.methods.gs_wgan import Config
from gossamer.methods.gs_wgan.nets import ProjectionCritic
from gossamer.methods.gs_wgan.stacked_critics import (
    BETAS,
    PADDING,
    STRIDE,
    Batch,
    Layout,
    adam,
    backward,
    forward,
    penalised,
    rounded,
)
from gossamer.privacy.per_sample_gradients.gradients import assign

PENALTY = 10.0
"""Weight of the gradient penalty (lambda of equation 12)."""
DRIFT = 0.001
"""Weight of D(real)^2, which keeps a critic's level near zero. The authors' code has it, the paper does not."""


class Critics:
    """K critics and their shards. Nothing here may leave `Confined` but through `SanitizedRows`.

    Args:
        records: all private records.
        shards: int64 [units], the critic of each unit: drawn once, in secret.
        template: its weights are what every critic begins with.
        throwaway: the generator that each critic is warmed up with begins with its weights.
        config: how many they are, and how they train. Weights and Adam's moments are kept between visits as its `storage` says;
            bfloat16 takes half the memory.
        part: (r, R): of R ranks this is rank r, and has critics r, r + R, r + 2R ... and their records.
    """

    def __init__(
        self,
        records: Records,
        shards: np.ndarray,
        template: ProjectionCritic,
        throwaway: nn.Module,
        config: Config,
        part: tuple[int, int] = (0, 1),
    ) -> None:
        self.config, self.layout, self.part = config, Layout.of(template), part
        count = len(range(part[0], config.critics, part[1]))
        start = self.layout.flat(template)
        self.device = start.device
        self.weights = start.to(getattr(torch, config.storage)).expand(count, -1).clone()
        self.mean = torch.zeros_like(self.weights)
        self.square = torch.zeros_like(self.weights)
        self.visits = torch.zeros(count, dtype=torch.int64)
        self.directions = self.layout.flat_directions(template).expand(count, -1).clone()
        self.throwaway: WarmupGenerator | None = None
        self._records, self._net = records, throwaway
        self._deal(shards)

    def _deal(self, shards: np.ndarray) -> None:
        """Lay the records out shard by shard, and a blank image at the end. A unit's records stay together."""
        self.shards = shards
        records = self._records
        of_record = shards if records.units is None else shards[records.units]
        here = np.flatnonzero(of_record % self.part[1] == self.part[0])
        rows = of_record[here] // self.part[1]
        order = here[np.argsort(rows, kind="stable")]
        blank = np.zeros((1, *records.images.shape[1:]), records.images.dtype)
        self.images = torch.from_numpy(np.concatenate([records.images[order], blank])).to(self.device)
        self.labels = torch.from_numpy(np.append(records.labels[order], 0)).to(self.device)
        self.sizes = np.bincount(rows, minlength=len(self.weights))
        self.starts = np.where(self.sizes, np.cumsum(self.sizes) - self.sizes, len(order))

    @torch.no_grad()
    def learn(self, critics: Sequence[int], fakes: Tensor, labels: Tensor, streams: Sequence[torch.Generator]) -> None:
        """One visit to each chosen critic: `critic_steps` steps on its shard.

        A critic with an empty shard takes its steps with a blank image and stays as it is. To leave it out would change the
        shape of the stack, and with it the last digits of the others.

        Args:
            critics: critics that are here, each once.
            fakes: generated images, [n, C, H, W] for all, or [critics, n, C, H, W].
            labels: int64 [n], of the fakes.
            streams: a random generator per chosen critic, so that no shard can shift the random choices of another.
        """
        fakes = fakes.expand(len(critics), *fakes.shape) if fakes.dim() == 4 else fakes
        which = self._rows(critics)
        holds = torch.as_tensor(self.sizes)[which] > 0
        flat = self.weights[which].float()
        mean, square = self.mean[which].float(), self.square[which].float()
        directions = self.directions[which]
        for turn, batch in enumerate(self._batches(critics, fakes, labels, streams), start=1):
            directions = self.layout.iterate(flat, directions)
            net = self.layout.network(flat, directions)
            g = self.layout.gradient(flat, net, penalised(net, batch, PENALTY, DRIFT))
            steps = (self.visits[which] * self.config.critic_steps + turn).to(flat)
            adam(flat, g, mean, square, steps, self.config.critic_learning_rate)
        trained = which[holds]
        self.weights[trained] = rounded(flat, self.weights.dtype, streams)[holds]
        self.mean[trained] = mean[holds].to(self.mean.dtype)
        self.square[trained] = square[holds].to(self.square.dtype)
        self.directions[trained] = directions[holds]
        self.visits[trained] += 1

    @torch.no_grad()
    def gradients(self, critics: Sequence[int], images: Tensor, labels: Tensor) -> Tensor:
        """Gradient of -D(x, y) by x, per image and critic: equation 13 without its mean. Changes nothing.

        That of a critic on another rank is zero here. images: [critics, n, C, H, W], as the result; labels: [critics, n].
        """
        image_gradients = torch.zeros_like(images)
        if here := [i for i, critic in enumerate(critics) if critic % self.part[1] == self.part[0]]:
            which = self._rows([critics[i] for i in here])
            image_gradients[here] = self._gradients(which, images[here], labels[here])
        return image_gradients

    def _gradients(self, which: Tensor, images: Tensor, labels: Tensor) -> Tensor:
        """The same for rows of the matrices."""
        net = self.layout.network(self.weights[which].to(images.dtype), self.directions[which].to(images.dtype))
        grouped = images.transpose(0, 1).flatten(1, 2)
        uses = forward(net, grouped, labels.T)
        slopes = backward(net, uses, -torch.ones(uses.rows.shape[:2], dtype=images.dtype, device=images.device))
        whole: Tensor = conv2d_input(grouped.shape, net.kernels[0], slopes[0], STRIDE, PADDING, 1, len(which))
        return whole.reshape(*labels.T.shape, *images.shape[2:]).transpose(0, 1)

    def _batches(
        self, critics: Sequence[int], fakes: Tensor, labels: Tensor, streams: Sequence[torch.Generator]
    ) -> "list[Batch]":
        """The batches of one visit, for all chosen critics. A fake has the label of its record, where one of them has it."""
        count, M, turns = len(critics), self.config.critic_batch_size, self.config.critic_steps
        drawn = torch.stack([torch.rand(turns, 3, M, generator=stream, dtype=torch.float64) for stream in streams], 1)
        u = sent(drawn, self.device)  # [turns, critics, 3, M]
        rows = self._rows(critics).numpy()
        sizes = torch.as_tensor(self.sizes[rows].clip(min=1), device=self.device)[:, None]
        starts = torch.as_tensor(self.starts[rows], device=self.device)[:, None]
        records = starts + (u[:, :, 0] * sizes).long()
        order = torch.argsort(labels, stable=True)
        alike = torch.bincount(labels, minlength=self.layout.classes)
        first = (alike.cumsum(0) - alike)[self.labels[records]]
        many = alike[self.labels[records]]
        position = torch.where(many > 0, first + (u[:, :, 1] * many).long(), (u[:, :, 1] * len(labels)).long())
        partners = order[position]
        critic = torch.arange(count, device=self.device)[:, None]
        batches = []
        for turn in range(turns):
            real = self.images[records[turn]].to(fakes.dtype).div_(255)
            fake = fakes[critic, partners[turn]]
            weight = u[turn, :, 2].to(fakes.dtype)[:, :, None, None, None]
            images = torch.cat([fake, real, fake.lerp(real, weight)], 1)  # [critics, 3 M, C, H, W]
            batches.append(Batch(images.transpose(0, 1).flatten(1, 2), self.labels[records[turn]].T.repeat(3, 1)))
        return batches

    def _rows(self, critics: Sequence[int]) -> Tensor:
        """Rows of the matrices that hold critics of this rank. int64"""
        return torch.as_tensor(list(critics)) // self.part[1]

    def begin_warm(self, count: int) -> None:
        """A fresh throw-away generator for each of `count` critics."""
        self.throwaway = WarmupGenerator(self._net, count, self.config.critic_learning_rate)

    def warm_round(
        self, critics: Sequence[int], latents: Tensor, labels: Tensor, streams: Sequence[torch.Generator]
    ) -> None:
        """One visit to each chosen critic and one step of its own throw-away generator. latents: [M, z]; labels: [M]."""
        if self.throwaway is None:  # the checkpoint was of another number of ranks, which kept other stacks
            self.begin_warm(len(critics))
        assert self.throwaway is not None
        images = self.throwaway.images(latents, labels)
        self.learn(critics, images.detach(), labels, streams)
        g = self.gradients(critics, images.detach(), labels.expand(len(critics), -1))
        self.throwaway.step(images, g / len(labels))

    def end_warm(self) -> None:
        """Throw the generators away, and Adam's moments with them: they belong to other fakes."""
        self.throwaway = None
        for moments in (self.mean, self.square, self.visits):
            moments.zero_()

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint seals; no copy of the large matrices is made."""
        whole = {name: getattr(self, name) for name in _MATRICES}
        warm = None if self.throwaway is None else self.throwaway.state_dict()
        return {**whole, "shards": torch.from_numpy(self.shards), "throwaway": warm, "part": list(self.part)}

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """The inverse, in place, for critics of the file that are here. The shards are those of the file, never drawn again."""
        first, step = part = tuple(saved.get("part", (0, 1)))
        of_file = first + step * np.arange(len(saved["weights"]))
        there = np.flatnonzero(of_file % self.part[1] == self.part[0])
        here = of_file[there] // self.part[1]
        for name in _MATRICES:
            getattr(self, name)[here] = saved[name][there]
        self._deal(saved["shards"].numpy().copy())
        if part == self.part and (warm := saved["throwaway"]) is not None:
            self.begin_warm(len(next(iter(warm["parameters"].values()))))
            assert self.throwaway is not None
            self.throwaway.load_state_dict(warm)


@dataclass(frozen=True)
class Answers:
    """The query: gradients of critics at these images. images: [answers, B, C, H, W]; labels: int64 [answers, B]."""

    images: Tensor
    labels: Tensor

    def rows(self, value: Critics, critics: Sequence[int]) -> Tensor:
        """The gradient of -D(x, y) at each image. [answers, B, C, H, W]"""
        return value.gradients(critics, self.images, self.labels)


_MATRICES = ("weights", "mean", "square", "visits", "directions")


class WarmupGenerator:
    """A generator for each critic of the present stack, trained beside it in the warm start: they see records through it alone.

    All copies begin with the weights of `net`, which must not mix samples.
    """

    def __init__(self, net: nn.Module, count: int, rate: float) -> None:
        self.net = net
        self.parameters = {
            name: value.detach().expand(count, *value.shape).clone().requires_grad_()
            for name, value in net.named_parameters()
        }
        self.adam = torch.optim.Adam(list(self.parameters.values()), lr=rate, betas=BETAS, fused=True)

    def images(self, latents: Tensor, labels: Tensor) -> Tensor:
        """What each copy makes of the same latents and labels. [copies, n, C, H, W], with its graph."""
        with torch.enable_grad():
            made: Tensor = vmap(lambda values: functional_call(self.net, values, (latents, labels)))(self.parameters)
        return made

    def step(self, images: Tensor, rows: Tensor) -> None:
        """One step of Adam down the gradient whose part at the images is `rows`. Same shape as the images."""
        parameters = list(self.parameters.values())
        assign(parameters, torch.autograd.grad(images, parameters, rows))
        self.adam.step()

    def state_dict(self) -> dict[str, Any]:
        """Tensors and plain numbers."""
        return {"parameters": self.parameters, "adam": self.adam.state_dict()}

    @torch.no_grad()
    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """The inverse, in place."""
        for name, value in self.parameters.items():
            value.copy_(saved["parameters"][name])
        self.adam.load_state_dict(saved["adam"])
