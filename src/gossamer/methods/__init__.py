"""The methods, one folder per paper. To add one: the folder, one line here, one page in docs/methods/."""

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
from gossamer.methods.teacher import Teacher

METHODS: dict[str, AnyMethod] = {
    method.name: method
    for method in (
        Dpgan(),
        DpWgan(),
        GsWgan(),
        Privae(),
        Privgan(),
        DpDiffusion(),
        DpMepf(),
        ClassMoments(),
        Evolve(),
        Teacher(),
    )
}
"""Each method by its name on the command line."""
