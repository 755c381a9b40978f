"""The methods, one folder per paper. To add one: the folder, one line here, one page in docs/methods/."""

from pathlib import Path

from gossamer.errors import RunFolderError
from gossamer.methods.dp_diffusion import DpDiffusion
from gossamer.methods.dp_mepf import DpMepf
from gossamer.methods.dp_wgan import DpWgan
from gossamer.methods.dpgan import Dpgan
from gossamer.methods.evolve import Evolve
from gossamer.methods.gs_wgan import GsWgan
from gossamer.methods.method import AnyMethod
from gossamer.methods.moments import ClassMoments
from gossamer.methods.privae import Privae
from gossamer.methods.privgan import Privgan
from gossamer.methods.registry import METHODS as METHODS
from gossamer.methods.teacher import Teacher

METHODS.fill([
    Dpgan(), DpWgan(), GsWgan(), Privae(), Privgan(), DpDiffusion(), DpMepf(), ClassMoments(), Evolve(), Teacher(),
])  # fmt: skip


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
