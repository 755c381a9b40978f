"""privGAN: what a run promises (nothing) and takes. `loop.py` trains, `nets.py` has the networks."""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Literal

from gossamer.errors import RequestError
from gossamer.methods.common.declared import events
from gossamer.methods.contract import BaseConfig, BelowOne, DataCard, Loop, MaybeZero, Method, OnPrivate, Phases, Query

REASON = (
    "privGAN (Mukherjee et al. 2021) trains on the records without clipping and without noise; what it protects is measured by "
    "attacks, not proved"
)


@dataclass(frozen=True, kw_only=True)
class Config(BaseConfig):
    """Settings of one run.

    Args:
        pairs: number of generators (N). Each has its own discriminator and part of the records. 1: an ordinary GAN.
        privacy_weight: weight of the generators' loss against the privacy discriminator (lambda).
        objective: loss against the privacy discriminator. wrong-class: it shall name another generator (Algorithm 1);
            equation-5: minimise the log probability of the right one, without a lower bound.
        adversary_warm_epochs: epochs in which the privacy discriminator alone trains, on records and their parts (n_i).
        adversary_delay_epochs: epochs of the pairs in which the privacy discriminator does not train (n_d).
        epochs: passes over a part of the records (n).
        batch_size: records in a batch. It has as many samples of each generator.
        labels: conditional: all networks get the label; per-class: a model for each class (section 6.2); none: no labels.
        release: how many generators are released, the first in a random order. 0: all.
        shared_latents: all generators get the same latent vectors in a batch, as in the published code. Off: each its own.
        network: network: dense for any size, or conv for 32x32.
        width: size of all hidden layers, as `dense.py` and `conv.py` count it. Paper: 512.
        latent_size: length of the latent vector. Its last number picks the generator, which gets the others (paper: 100).
        learning_rate: Adam's learning rate of all networks.
        beta1: Adam's decay of the first moment.
        real_target: target of the discriminators for records. Paper: 1 in its formula, 0.95 in its code.
    """

    pairs: int = 2
    privacy_weight: float = 1.0
    objective: Literal["wrong-class", "equation-5"] = "wrong-class"
    adversary_warm_epochs: MaybeZero = 50
    adversary_delay_epochs: MaybeZero = 100
    epochs: int = 200
    batch_size: int = 256
    labels: Literal["conditional", "per-class", "none"] = "conditional"
    release: MaybeZero = 0
    shared_latents: bool = True
    network: Literal["dense", "conv"] = "dense"
    width: int = 512
    latent_size: int = 101
    learning_rate: float = 2e-4
    beta1: BelowOne = 0.5
    real_target: float = 0.95


class Privgan(Method[Config, Any]):
    """privGAN (Mukherjee, Xu, Trivedi, Patowary, Lavista Ferres; "privGAN: Protecting GANs from membership inference attacks").

    Guarantee: none. Epsilon is infinity, and every run says so first. The networks learn from the records without
    clipping and without noise, so `train` calls `declassify` before it reads a record. The method makes attacks harder.
    The records are cut into N random parts, each with a generator and a discriminator of its own. A privacy
    discriminator guesses which generator made a sample, and the generators are also trained to mislead it. Attacks
    (`gossamer attack`) measure how much that helps; nothing is proved. The privacy discriminator has seen the records
    and their parts: it is never released.

    Departures from the paper:
        - The steps of Algorithm 1 follow each other per batch, not per epoch, as in the published code. A batch is
          drawn from its part with replacement. The number of batches in an epoch comes from the declared size.
        - The generators descend on -log D(G(z)), the usual form, not on the log(1 - D(G(z))) of equations 1 and 5.
        - Records have the target `real_target` instead of 1. The paper does not mention it; the published code has
          0.95, and 0.9 for the plain GAN with which it compares. Here both have the same.
        - Labels, as inputs of all networks; the paper trains one model per class (`--labels per-class`), or none has labels.
        - Appendix 1, CIFAR-10: see `methods/privgan/conv.py`.
    """

    name = "privgan"
    title = "privGAN (Mukherjee et al. 2021): no formal guarantee"
    without_guarantee = REASON
    takes_public = False
    config_type = Config
    loop = Loop("gossamer.methods.privgan.loop")

    def queries(self, config: Config, card: DataCard) -> list[Query]:  # noqa: ARG002 (what every method is asked)
        """One event without privacy, which says infinity even where the reason gets lost."""
        return [Query("the records as they are", SimpleNamespace(event=events.without_privacy()), 1)]

    def phases(self, config: Config, card: DataCard) -> Phases[Config, Any]:
        """The privacy discriminator's warm-up, where there is one, and the training: both read the records as they are."""
        warm, steps = length(config, card)
        both: Phases[Config, Any] = [
            OnPrivate(name="warm start", steps=warm, body=self.loop.warm_up),
            self.training(config, card, steps=steps),
        ]
        return both if config.pairs > 1 else both[1:]

    def check_ranks(self, config: Config, count: int) -> None:  # noqa: ARG002 (what every method is asked)
        """Refuse ranks: the method needs all records in one process."""
        raise RequestError(f"privgan trains in one process, not on {count} ranks: start it without torchrun.")

    def check(self, config: Config, card: DataCard) -> None:
        """Refuse settings that contradict each other, and a declared size that is too small for them."""
        if config.release > config.pairs:
            raise RequestError(f"`release={config.release}` is more than the {config.pairs} generators of `pairs`.")
        if config.latent_size < 2:
            raise RequestError("`latent_size` must be at least 2: the last number picks the generator.")
        if not 0.5 < config.real_target <= 1:
            raise RequestError(f"`real_target` must be above 0.5 and at most 1, not {config.real_target:g}.")
        part = card.declared_size // (groups(config, card) * config.pairs)
        if part < config.batch_size:
            raise RequestError(
                f"`batch_size={config.batch_size}` is more than the {part} records of a part ({card.declared_size:,} declared, "
                f"{groups(config, card)} x {config.pairs} parts). Lower it, or `pairs`."
            )


def length(config: Config, card: DataCard) -> tuple[int, int]:
    """Batches of the privacy discriminator's warm-up, which takes from all parts at once, and of the training."""
    warm = config.adversary_warm_epochs * _batches(config, card, parts=1) if config.pairs > 1 else 0
    return warm, config.epochs * _batches(config, card, parts=config.pairs)


def groups(config: Config, card: DataCard) -> int:
    """How many models there are: one, or one per class."""
    return card.classes if config.labels == "per-class" else 1


def _batches(config: Config, card: DataCard, *, parts: int) -> int:
    """Batches in an epoch of a model whose share of the declared size is cut into so many parts."""
    return max(1, card.declared_size // (groups(config, card) * parts * config.batch_size))
