"""The methods, one folder per paper. To add one: the folder, one line here, one page in docs/methods/."""

from gossamer.methods.dp_wgan import DpWgan
from gossamer.methods.dpgan import Dpgan
from gossamer.methods.gs_wgan import GsWgan
from gossamer.methods.method import AnyMethod

METHODS: dict[str, AnyMethod] = {method.name: method for method in (Dpgan(), GsWgan())}
"""Each method by its name on the command line."""
