"""Class moments: what a run promises and costs. `loop.py` releases them, `class_moments.py` has the mathematics."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from gossamer.errors import RequestError
from gossamer.lazy import Lazy
from gossamer.methods.common.declared import AsksMoments, once
from gossamer.methods.contract import (
    FROM_EPSILON,
    Autoencoder,
    BaseConfig,
    OnPrivate,
    OnPublic,
    OnReleased,
    Phases,
    TrialConfig,
)

if TYPE_CHECKING:
    from gossamer.data.card import DataCard
    from gossamer.methods.moments import loop
else:
    loop = Lazy("gossamer.methods.moments.loop")


CUT_BY = 2_000
"""Codes that a class is cut by, drawn from its released Gaussian."""
_MEAN = 8.0
"""Noise on the mean of the records, divided by that on the products that give their axes, unless a run says otherwise."""


@dataclass(frozen=True, kw_only=True)
class Config(BaseConfig):
    """Settings of one run.

    Args:
        noise_multiplier: standard deviation of the noise on the moments, whose sensitivity is 1. 0: no noise.
        axes: length of a code (d): principal axes of public pictures, or without them the lowest cosine waves.
        axes_noise: noise multiplier of a query that finds principal axes of the records themselves, divided by
            `noise_multiplier`. A query for their mean precedes it, with eight times the noise. 0: no such queries.
        mean_noise: noise multiplier of the query for the mean, divided by `noise_multiplier`. The mean becomes the centre of
            codes. 0: eight times `axes_noise`, and without axes no such query.
        radius: clipping bound: the largest length of a code, in units of sqrt(axes) standard deviations of public codes.
        cells: clusters per class (m). Each has its own Gaussian. 1: one Gaussian per class, from one noisy query.
        cells_radius: clipping bound of the distance from a cluster's centre, in the unit of `radius`. With `axes_noise`,
            also of the distance from the mean of the records.
        classes_noise: noise multiplier of the first query, which finds the clusters, divided by `noise_multiplier`.
        threshold: pixels of a sample below this share of its brightest pixel become black, from 0 to 1. It removes specks. With
            `align`, pixels that differ from the ground by less than this share of the largest difference become ground.
        align: move, size and slant each picture to one frame before it is coded. It sharpens single shapes on a plain ground,
            such as digits. The code has five numbers more for what was moved, and one for the ground of each channel.
        autoencoder: pre-trained network whose latents replace pixels: the name of a plug-in, or module:object.
            Axes are those of the latents of public pictures, and each sample is decoded. Empty: none.
        public_detail: give each sample the fine detail of the public picture with the nearest code. It needs public pictures.
            The release contains them.
    """

    noise_multiplier: float = FROM_EPSILON
    axes: int = 64
    axes_noise: float = 0.0
    mean_noise: float = 0.0
    radius: float = 1.15
    cells: int = 1
    cells_radius: float = 0.5
    classes_noise: float = 4.0
    threshold: float = 0.0
    align: bool = False
    autoencoder: Autoencoder = ""
    public_detail: bool = False


class ClassMoments(AsksMoments[Config, "loop.State"]):
    """Class moments: count, mean and covariance of each class in a public latent, released once; or of cells of each class.

    Guarantee: (epsilon, delta)-DP for one unit, add-or-remove-one. One Gaussian over all records. What a record adds to the
    moments of its class is at most 1 long, and it is in one class. So the moments of all classes together move by at most 1.
    With `cells`, two: the first, with more noise, says where to cut each class, and in the second a record is in one cell. The
    axes come from public pictures or from formulas. All that follows is post-processing.

    With `axes_noise`, two more come first. They give the mean of the records, and the sum of products whose eigenvectors are
    the axes (Dwork et al. 2014, "Analyze Gauss"). To each a record adds a vector that is at most 1 long. With `mean_noise`
    alone, the first of the two.

    With `align`, a code is made of one picture by formulas, and a pose is part of it. It is clipped as any code is.

    With an autoencoder, a code is made of its latents in the same way, and all else stays. It is assumed to have learnt from no
    record. A test on public pictures refuses an autoencoder whose latents depend on other pictures. Nothing is drawn at random
    between a picture and its code.

    The generator draws a code from a Gaussian of its class and decodes it: blurred pictures, in seconds, whose classes a
    classifier can tell. With `public_detail`, what a code does not hold comes from a public picture. The code decides which, so
    it is post-processing. Other methods can start on the generator (`--start moments`).
    """

    name = "moments"
    title = "Class moments (one Gaussian query)"
    ranks_take = "units by place"
    config_type = Config
    loop = loop
    trial = TrialConfig(canary="record", shape=(1, 8, 8), settings={"axes": 4})
    can_warm_start = True
    can_ask_sites = True

    def check(self, config: Config, card: "DataCard") -> None:  # noqa: ARG002 (what every method is asked)
        """Refuse a radius of zero, more cells than there are codes to cut them by, and a threshold above the brightest pixel.

        An autoencoder replaces pixels, and detail is that of public pictures where they stand: neither goes with alignment.
        """
        for flag, radius in (("`radius`", config.radius), ("`cells_radius`", config.cells_radius)):
            if radius == 0:
                raise RequestError(f"{flag} must be above 0: with 0 every record would be its own class's middle.")
        if config.cells > CUT_BY:
            raise RequestError(f"`cells` must be at most {CUT_BY:,} a class, not {config.cells:,}.")
        if config.align and (config.autoencoder or config.public_detail):
            raise RequestError(
                "`align` is for codes of pixels. Leave `autoencoder` and `public_detail` out, or `align`."
            )
        if config.axes_noise and self.use_of_public(config) == "required":
            raise RequestError(
                "`axes_noise` finds axes of pixels in the records, without public pictures. Leave `autoencoder` and "
                "`public_detail` out, or `axes_noise`."
            )
        if config.autoencoder and config.public_detail:
            raise RequestError(
                "`autoencoder` draws pictures from its own latents. Leave `public_detail` out, or `autoencoder`."
            )
        if config.threshold > 1:
            raise RequestError(
                f"`threshold` is a share of a sample's brightest pixel, at most 1, not {config.threshold:g}."
            )

    def phases(self, config: Config, card: "DataCard") -> "Phases[Config, loop.State]":
        """Free axes from public pictures, then one Gaussian over all records; where there are cells, another before it.

        With `axes_noise` two come first: the mean, and products for the axes. With `mean_noise` the mean does.
        """
        axes: Phases[Config, loop.State] = [OnPublic(name="axes", steps=1, body=lambda *given: loop.axes(*given))]
        own: Phases[Config, loop.State] = [
            OnPrivate(name=name, steps=1, queries=[once(name, ratio * config.noise_multiplier)], body=body)
            for name, ratio, body in (
                ("mean", config.mean_noise or _MEAN * config.axes_noise, lambda *given: loop.mean(*given)),
                ("principal axes", config.axes_noise, lambda *given: loop.principal_axes(*given)),
            )
            if ratio
        ]
        first = once("whole classes", config.classes_noise * config.noise_multiplier)
        cells: Phases[Config, loop.State] = [
            OnPrivate(name=first.name, steps=1, queries=[first], body=lambda *given: loop.whole_classes(*given)),
            OnReleased(name="cells", steps=1, body=lambda *given: loop.cut(*given)),
        ]
        return [*axes, *own, *(cells if config.cells > 1 else ()), self.training(config, card)]

    def explain(self, config: Config) -> str:
        """For which pictures alignment is."""
        aligned = "It suits single shapes on a plain ground, of any shade, turn and size, and no other pictures."
        return aligned if config.align else ""

    def use_of_public(self, config: Config) -> Literal["none", "optional", "required"]:
        """Latents need pictures for their axes, and detail is that of pictures. None where records give axes or centre."""
        if config.autoencoder or config.public_detail:
            return "required"
        return "none" if config.axes_noise or config.mean_noise else "optional"

    @classmethod
    def releases_public(cls, settings: Mapping[str, Any]) -> str:
        """Their detail is taken from them as they are."""
        return "each sample has the fine detail of one of them" if settings.get("public_detail") else ""
