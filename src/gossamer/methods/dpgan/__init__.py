"""DPGAN: what a run promises and costs. `loop.py` trains, `gossamer.nets.dcgan` has the networks."""

from dataclasses import dataclass
from typing import Any, Literal

from gossamer.methods.common.declared import gradients
from gossamer.methods.common.method_start import StartConfig, WarmStarted
from gossamer.methods.contract import FROM_EPSILON, BelowOne, DataCard, Loop, MaybeZero, Query, Share, TrialConfig


@dataclass(frozen=True, kw_only=True)
class Config(StartConfig):
    """Settings of one run.

    Args:
        noise_multiplier: standard deviation of the noise / `max_norm` (sigma). 0: no noise, no clipping.
        steps: number of discriminator steps (T). Each step is one noisy query.
        expected_batch_size: expected number of records in a step (B). A step has as many fakes.
        max_norm: clipping bound: the largest L2 norm of the gradient of one record (C).
        discriminator_steps: discriminator steps per generator step (n_D). With `adaptive`, their number at the start.
        adaptive: raise n_D when the discriminator's accuracy on fakes falls to `accuracy_floor` (section 6.2 of the paper).
        accuracy_floor: accuracy on fakes at which `adaptive` raises n_D (d). Paper: 0.6 for epsilon 10, 0.7 for epsilon 1.
        accuracy_decay: decay of the running average of that accuracy (beta). Grace period: 2 / (1 - beta) generator steps.
        width: channels of the first layer after picture and label are joined. Paper: 128.
        latent_size: length of the generator's latent vector.
        discriminator_learning_rate: Adam's learning rate of the discriminator.
        generator_learning_rate: Adam's learning rate of the generator.
        clip_fakes: clip the gradients of fakes like those of records, as the paper does.
        average_decay: decay of the running average of the weights, which is released. 0 releases the last weights.
        warm_steps: non-private steps on public records before the first private step; only with public records.
        warm_batch_size: public records in each of the `warm_steps`.
        warm_learning_rate: Adam's learning rate of the generator in the `warm_steps`. The discriminator's is half of it.
        physical_batch_size: records computed at once: limits the memory, not the result. 0: 512, or what a GPU's memory holds.
        precision: number format of forward and backward passes: fp32, or on a GPU tf32 or bf16. Norms and sums are fp32.
        bands: steps over which noise is correlated (b), so that sums over steps have less of it. 1: independent noise.
    """

    noise_multiplier: float = FROM_EPSILON
    steps: int = 4_000
    expected_batch_size: int = 512
    max_norm: float = 1.0
    discriminator_steps: int = 10
    adaptive: bool = False
    accuracy_floor: Share = 0.6
    accuracy_decay: BelowOne = 0.99
    width: int = 32
    latent_size: int = 128
    discriminator_learning_rate: float = 2e-4
    generator_learning_rate: float = 2e-4
    clip_fakes: bool = True
    average_decay: float = 0.0
    warm_steps: MaybeZero = 4_000
    warm_batch_size: int = 64
    warm_learning_rate: float = 1e-3
    physical_batch_size: MaybeZero = 0
    precision: Literal["fp32", "tf32", "bf16"] = "fp32"
    bands: int = 1


class Dpgan(WarmStarted[Config, Any]):
    """DPGAN with frequent and adaptive discriminator steps (Bie, Kamath, Zhang; "Private GANs, Revisited", TMLR 2023).

    Guarantee: (epsilon, delta)-DP for one unit, add-or-remove-one. Each discriminator step is one Poisson-sampled Gaussian
    mechanism: every record's gradient is clipped to `max_norm`, and noise is added to the sum once. With `bands`, so many steps
    together are one such mechanism, and a record takes part in one of them (`privacy/mechanisms/banded.py`). The generator sees
    the records through the discriminator only, so it is post-processing. Fakes hold no record; whether they are clipped does
    not matter.

    Departures from the paper:
        - The sampling rate is expected batch / *declared* size and the sum is divided by twice the expected batch. The
          authors' code uses 1/ceil(N/B); the declared size keeps the divisor independent of the records.
        - The clipped sums of records and of fakes are computed apart and added: the same number, and the fakes stay outside.
        - The accuracy that drives the adaptive frequency is taken on the fakes of the generator step itself, which are fresh.
        - Optional: a warm start of both networks on public records (free), and a running average of the generator's weights.
        - Optional: correlated noise, with groups of records in turn (`bands`; Choquette-Choo et al. 2023).
    """

    name = "dpgan"
    title = "DPGAN (Bie, Kamath, Zhang 2023)"
    ranks_take = "units by place"
    config_type = Config
    loop = Loop("gossamer.methods.dpgan.loop")
    trial = TrialConfig(
        canary="gradients", settings={"steps": 10, "width": 2, "latent_size": 4, "discriminator_steps": 2}
    )

    def queries(self, config: Config, card: DataCard) -> list[Query]:
        """One Poisson-sampled Gaussian per discriminator step."""
        return [gradients(config, card, config.expected_batch_size)]
