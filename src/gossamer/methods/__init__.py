"""The methods, one folder per paper. To add one: the folder, one line here, one page in docs/methods/."""

from gossamer.methods.dp_wgan import DpWgan
from gossamer.methods.dpgan import Dpgan
from gossamer.methods.method import AnyMethod

METHODS: dict[str, AnyMethod] = {method.name: method for method in (Dpgan(), DpWgan())}
"""Each method by its name on the command line."""
