"""What adversarial methods share: losses on logits, batches of fakes, latents and labels, weight averages. Mathematics only."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gossamer.data.records import Records
from gossamer.privacy.distributed import ALONE, Ranks
from gossamer.privacy.per_sample_gradients.gradients import assign


@dataclass(frozen=True)
class Fakes:
    """Generated images [B, C, H, W] in [0, 1] and labels [B]. They hold no record: they may be clipped outside `Confined`."""

    images: Tensor
    labels: Tensor
    units: None = None

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, which: slice | np.ndarray) -> "Fakes":
        return Fakes(self.images[which], self.labels[which])


def loss_on_records(discriminator: nn.Module, records: Records) -> Tensor:
    """-log D(x, y), one per record. [n]. Bie et al. 2023, Algorithm 1, line 6, first sum."""
    images, labels = records.tensors(next(discriminator.parameters()).device)
    return F.softplus(-discriminator(images, labels))


def loss_on_fakes(discriminator: nn.Module, fakes: Fakes) -> Tensor:
    """-log(1 - D(x, y)), one per fake. [n]. Bie et al. 2023, Algorithm 1, line 6, second sum."""
    return F.softplus(discriminator(fakes.images, fakes.labels))


def non_saturating_losses(logits: Tensor) -> Tensor:
    """-log D(G(z)), one per fake. [n]. Bie et al. 2023, Algorithm 1, line 12."""
    return F.softplus(-logits)


def descend(optimiser: torch.optim.Optimizer, loss: Tensor, module: nn.Module, ranks: Ranks = ALONE) -> None:
    """One step of the optimiser on the parameters of `module` alone. Other networks in the graph keep no gradient.

    The losses of all ranks are added up.
    """
    parameters = list(module.parameters())
    gradients = ranks.totals(torch.autograd.grad(loss, parameters))
    assign(parameters, gradients)
    optimiser.step()
