"""What the States of the methods share: from modules, optimisers and counters to what a checkpoint holds, and back."""

from typing import Any, ClassVar


class Kept:
    """A State that goes on from its parts and its counters."""

    counters: ClassVar[tuple[str, ...]]
    """Names of its plain fields."""

    def parts(self) -> dict[str, Any]:
        """Modules and optimisers by name."""
        raise NotImplementedError  # every State names its own

    def state_dict(self) -> dict[str, Any]:
        """Tensors and plain numbers: what a checkpoint holds."""
        modules = {name: part.state_dict() for name, part in self.parts().items()}
        return {**modules, **{name: getattr(self, name) for name in self.counters}}

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """The inverse of `state_dict`, in place."""
        for name, part in self.parts().items():
            part.load_state_dict(saved[name])
        for name in self.counters:
            setattr(self, name, saved[name])
