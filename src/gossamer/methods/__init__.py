"""The methods, one folder per paper. To add one: the folder, one line here, one page in docs/methods/."""

import typing
from pathlib import Path

from gossamer.errors import RunFolderError
from gossamer.lazy import exported
from gossamer.methods import (
    dp_diffusion,
    dp_mepf,
    dp_wgan,
    dpgan,
    evolve,
    feature_moments,
    gs_wgan,
    marginals,
    moments,
    privae,
    privgan,
    teacher,
)
from gossamer.methods.contract import AnyMethod
from gossamer.methods.registry import METHODS as METHODS

METHODS.fill([
    dpgan.Dpgan(), dp_wgan.DpWgan(), gs_wgan.GsWgan(), privae.Privae(), privgan.Privgan(), dp_diffusion.DpDiffusion(),
    dp_mepf.DpMepf(), moments.ClassMoments(), evolve.Evolve(), teacher.Teacher(), feature_moments.FeatureMoments(),
    marginals.Marginals(),
])  # fmt: skip

if typing.TYPE_CHECKING:
    from gossamer.methods.contract import FROM_EPSILON as FROM_EPSILON
    from gossamer.methods.contract import Autoencoder as Autoencoder
    from gossamer.methods.contract import BaseConfig as BaseConfig
    from gossamer.methods.contract import Encoder as Encoder
    from gossamer.methods.contract import Generator as Generator
    from gossamer.methods.contract import MaybeZero as MaybeZero
    from gossamer.methods.contract import Method as Method
    from gossamer.methods.contract import NetState as NetState
    from gossamer.methods.contract import OnPrivate as OnPrivate
    from gossamer.methods.contract import OnPublic as OnPublic
    from gossamer.methods.contract import OnReleased as OnReleased
    from gossamer.methods.contract import Query as Query
    from gossamer.methods.contract import Run as Run
    from gossamer.methods.contract import State as State

    DPGAN = dpgan.Config
    DPMEPF = dp_mepf.Config
    DPWGAN = dp_wgan.Config
    DPDiffusion = dp_diffusion.Config
    Evolve = evolve.Config
    FeatureMoments = feature_moments.Config
    GSWGAN = gs_wgan.Config
    Marginals = marginals.Config
    Moments = moments.Config
    PrivAE = privae.Config
    PrivGAN = privgan.Config
    Teacher = teacher.Config
else:
    _CONTRACT = (
        "Autoencoder BaseConfig Encoder FROM_EPSILON Generator MaybeZero Method NetState OnPrivate OnPublic OnReleased Query "
        "Run State"
    )
    _NAMES = {
        **{name: f"gossamer.methods.contract:{name}" for name in _CONTRACT.split()},
        "METHODS": "gossamer.methods.registry:METHODS",
        "DPDiffusion": "gossamer.methods.dp_diffusion:Config",
        "DPGAN": "gossamer.methods.dpgan:Config",
        "DPMEPF": "gossamer.methods.dp_mepf:Config",
        "DPWGAN": "gossamer.methods.dp_wgan:Config",
        "Evolve": "gossamer.methods.evolve:Config",
        "FeatureMoments": "gossamer.methods.feature_moments:Config",
        "GSWGAN": "gossamer.methods.gs_wgan:Config",
        "Marginals": "gossamer.methods.marginals:Config",
        "Moments": "gossamer.methods.moments:Config",
        "PrivAE": "gossamer.methods.privae:Config",
        "PrivGAN": "gossamer.methods.privgan:Config",
        "Teacher": "gossamer.methods.teacher:Config",
    }
    __all__, __getattr__, __dir__ = exported(__name__, _NAMES)


def method_of(name: str, *, folder: Path) -> AnyMethod:
    """The method that a run or a release names.

    Raises:
        RunFolderError: it is not installed here.
    """
    if not isinstance(name, str) or name not in METHODS:  # a damaged file may hold something else
        raise RunFolderError(
            f"{folder} was made by the method {name!r}, which is not installed here, so the folder cannot be verified or used "
            "here. That says nothing against it. Install the package that has this method, or name a method of your own: "
            "`gossamer --plugin module:object COMMAND`, or gossamer.plugins.allow in Python."
        )
    return METHODS[name]
