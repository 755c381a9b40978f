"""The methods, one folder per paper. To add one: the folder, one line here, one page in docs/methods/."""

import typing
from pathlib import Path

from gossamer.errors import RunFolderError
from gossamer.lazy import exported, reexports
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
from gossamer.methods.contract import FROM_EPSILON as FROM_EPSILON
from gossamer.methods.contract import AnyMethod
from gossamer.methods.contract import Autoencoder as Autoencoder
from gossamer.methods.contract import BaseConfig as BaseConfig
from gossamer.methods.contract import Encoder as Encoder
from gossamer.methods.contract import Generator as Generator
from gossamer.methods.contract import Loop as Loop
from gossamer.methods.contract import MaybeZero as MaybeZero
from gossamer.methods.contract import Method as Method
from gossamer.methods.contract import NetState as NetState
from gossamer.methods.contract import OnPrivate as OnPrivate
from gossamer.methods.contract import OnPublic as OnPublic
from gossamer.methods.contract import OnReleased as OnReleased
from gossamer.methods.contract import Query as Query
from gossamer.methods.contract import Run as Run
from gossamer.methods.contract import State as State
from gossamer.methods.registry import METHODS as METHODS

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

METHODS.fill([
    dpgan.Dpgan(), dp_wgan.DpWgan(), gs_wgan.GsWgan(), privae.Privae(), privgan.Privgan(), dp_diffusion.DpDiffusion(),
    dp_mepf.DpMepf(), moments.ClassMoments(), evolve.Evolve(), teacher.Teacher(), feature_moments.FeatureMoments(),
    marginals.Marginals(),
])  # fmt: skip

if not typing.TYPE_CHECKING:
    _CONFIGS = "DPDiffusion DPGAN DPMEPF DPWGAN Evolve FeatureMoments GSWGAN Marginals Moments PrivAE PrivGAN Teacher"
    _NAMES = reexports(__name__, __file__) | dict.fromkeys(_CONFIGS.split(), ":Config")
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
