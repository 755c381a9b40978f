"""DP diffusion: what a run promises and costs. `loop.py` trains, `nets.py` has the denoisers, `sampler.py` draws."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from gossamer.errors import RequestError
from gossamer.lazy import Lazy
from gossamer.methods import contract
from gossamer.methods.common.declared import ballot, gradients
from gossamer.methods.common.method_start import StartConfig
from gossamer.methods.contract import FROM_EPSILON, DataCard, Loop, MaybeZero, Phases, Query, TrialConfig, batch_of

if TYPE_CHECKING:
    from gossamer.methods.dp_diffusion import sampler
else:
    sampler = Lazy("gossamer.methods.dp_diffusion.sampler")


@dataclass(frozen=True, kw_only=True)
class Config(StartConfig):
    """Settings of one run.

    Args:
        noise_multiplier: standard deviation of the noise / `max_norm` in a training step. 0: no noise, no clipping.
        steps: number of training steps (T). Each step is one noisy query.
        expected_batch_size: expected number of records in a step (B). 0: 4,096, or all records where there are fewer.
        max_norm: clipping bound: the largest L2 norm of the gradient of one record, over all its noise levels (C).
        multiplicity: noise levels per record in a step (K). Their losses are averaged, then the gradient is clipped once.
        network: network: perceptron on codes, or unet on pixels (convolutional, for a GPU).
        axes: length of a code for the perceptron (d).
        width: hidden units of the perceptron, or channels of the unet.
        depth: hidden layers of the perceptron, or blocks at each size of the unet.
        learning_rate: Adam's learning rate. In the last third of the steps it falls to zero.
        average_decay: decay of the running average of the weights, which is released. 0 releases the last weights.
        votes_noise: noise multiplier of a vote, divided by `noise_multiplier`. Each record votes for a public picture, and only
            pictures with votes are used. 0: no vote, all are used.
        warm_steps: steps on public pictures, or on samples of `start`, before the first private step.
        warm_batch_size: pictures in each of the `warm_steps`.
        warm_learning_rate: Adam's learning rate in the `warm_steps`.
        label_dropout: share of training examples without their label, from 0 to 1; `guidance` needs some.
        sampler_steps: steps of the sampler. Each calls the network twice.
        guidance: strength of classifier-free guidance towards the label. 0: none.
        refine: noise level, from 0.02 to 20, that is added to samples of `start` and removed again. They keep their shape, and
            get detail. 0: sampling begins with noise alone.
        churn: new noise in each sampler step, from 0 (none) to 1.
        threshold: brightness, from 0 to 1, below which pixels of samples become black. It removes specks.
        physical_batch_size: records computed at once: limits the memory, not the result. 0: 512, or what a GPU's memory holds.
        precision: number format of forward and backward passes: fp32, or on a GPU tf32 or bf16. Norms and sums are fp32.
        bands: steps over which noise is correlated (b), so that sums over steps have less of it. 1: independent noise.
    """

    noise_multiplier: float = FROM_EPSILON
    steps: int = 600
    expected_batch_size: MaybeZero = 0
    max_norm: float = 1.0
    multiplicity: int = 8
    network: Literal["perceptron", "unet"] = "perceptron"
    axes: int = 64
    width: int = 384
    depth: int = 3
    learning_rate: float = 2e-3
    average_decay: float = 0.98
    votes_noise: float = 0.0
    warm_steps: MaybeZero = 3_000
    warm_batch_size: int = 512
    warm_learning_rate: float = 1e-3
    label_dropout: contract.Share = 0.0
    sampler_steps: int = 24
    guidance: float = 0.0
    refine: float = 0.0
    churn: contract.Share = 0.0
    threshold: contract.Share = 0.08
    physical_batch_size: MaybeZero = 0
    precision: Literal["fp32", "tf32", "bf16"] = "fp32"
    bands: int = 1


class DpDiffusion(contract.Method[Config, Any]):
    """Diffusion in a public latent, trained by DP-SGD (after Karras et al. 2022, EDM; Dockhorn et al. 2023, DPDM).

    Guarantee: (epsilon, delta)-DP for one unit, add-or-remove-one. Each training step is one Poisson-sampled Gaussian. The
    losses of a record at all its noise levels are averaged, and the gradient of that average is clipped once to `max_norm`.
    With `bands`, so many steps together are one such Gaussian (`privacy/mechanisms/banded.py`).
    With `votes_noise`, one Gaussian of sensitivity 1 comes before: all records vote on public pictures. With `start`, the
    releases of that method come first. Axes, mean and scale of the latent come from public pictures, from those of the start
    or from formulas, never from records.

    Departures from DPDM:
        - The net is a perceptron on codes of a linear latent, small enough for two cores; pixels and a U-Net are a setting.
        - It starts on pictures: public ones, or those that another method makes of a private release (`start`).
        - The sampling rate is expected batch / *declared* size, and sums are divided by the expected batch.
        - With `refine`, samples of the start get noise and are denoised (Meng et al. 2022, SDEdit). Its generator is released.
        - Optional: correlated noise, with groups of records in turn (`bands`; Choquette-Choo et al. 2023).
    """

    name = "dp-diffusion"
    title = "DP diffusion in a public latent (after Karras et al. 2022; Dockhorn et al. 2023)"
    ranks_take = "units by place"
    config_type = Config
    loop = Loop("gossamer.methods.dp_diffusion.loop")
    trial = TrialConfig(
        canary="gradients",
        shape=(1, 8, 8),
        settings={"steps": 10, "axes": 4, "width": 4, "depth": 1, "multiplicity": 2},
    )

    def queries(self, config: Config, card: DataCard) -> list[Query]:
        """One Poisson-sampled Gaussian per step."""
        return [gradients(config, card, batch_of(config.expected_batch_size, card))]

    def phases(self, config: Config, card: DataCard) -> Phases[Config, Any]:
        """Votes, a start on pictures, then the training."""
        voting = ballot(noise_multiplier=config.votes_noise * config.noise_multiplier, rounds=1)
        phases: Phases[Config, Any] = [
            contract.OnPrivate(name="votes", steps=1, queries=[voting], body=self.loop.votes_on_public),
            contract.OnPublic(name="warm start", steps=config.warm_steps, body=self.loop.warm_start),
            self.training(config, card),
        ]
        return phases if config.votes_noise > 0 else phases[1:]

    def use_of_public(self, config: Config) -> Literal["optional", "required"]:
        """A warm start, and votes."""
        return "required" if config.votes_noise > 0 else "optional"

    def explain(self, config: Config) -> str:
        """Advise a start to a net without pre-training."""
        if config.start or config.network == "unet":
            return ""
        return "No public records, no pre-training: `start=moments` or `start=evolve` cost little and help much."

    def check(self, config: Config, card: DataCard) -> None:
        """Refuse settings that contradict each other."""
        if config.guidance > 0 and config.label_dropout == 0:
            raise RequestError(
                f"`guidance={config.guidance:g}` needs a net that has also learnt without labels: give `label_dropout=0.1`."
            )
        if config.refine > 0 and not config.start:
            raise RequestError(
                f"`refine={config.refine:g}` gives detail to samples of a start, and there is none: give `start=moments`."
            )
        if config.refine > 0 and not sampler.SIGMA_MIN <= config.refine <= sampler.SIGMA_MAX:
            raise RequestError(
                f"`refine` is a noise level from {sampler.SIGMA_MIN:g} to {sampler.SIGMA_MAX:g}, not {config.refine:g}."
            )
        first = sampler.refined_start(config, card) if config.refine > 0 else None
        if first is not None and (first.pretrained or (first.releases_public and first.takes_public)):
            raise RequestError(
                "`refine` puts the generator of the start into the release. Take a start that holds no public pictures and "
                "needs no other network: leave drawing=pictures, public_detail, encoder, autoencoder and generator out."
            )

    def sample(self, net: Any, draw: contract.Draw[Config]) -> Any:
        """The sampler iterates: see `sampler.draw`."""
        return sampler.draw(net, draw)
