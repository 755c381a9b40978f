"""The methods, one file per paper. To add one: one file, one line here, one page in docs/methods/."""

from types import ModuleType
from typing import Any, Protocol

from torch import nn

from gossamer.methods import dp_wgan, dpgan, gs_wgan, privae, privgan

METHODS: dict[str, ModuleType] = {
    "dpgan": dpgan, "dp-wgan": dp_wgan, "gs-wgan": gs_wgan, "privae": privae, "privgan": privgan
}  # fmt: skip


class State(Protocol):
    """What `train` yields: enough to go on from, and the network to release."""

    step: int
    warm: int

    @property
    def left(self) -> int:
        """Steps that the run still has before it."""
        ...

    @property
    def released(self) -> nn.Module:
        """The generator that the run hands out."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Tensors and plain numbers."""
        ...

    def load_state_dict(self, saved: dict[str, Any], /) -> None:
        """The inverse of `state_dict`, in place."""
        ...
