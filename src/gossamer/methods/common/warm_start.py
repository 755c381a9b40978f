"""A method that trains on public records before the first private step. No PyTorch is loaded here."""

import dataclasses
from typing import Any, Generic

from gossamer.methods.contract import C, Method, OnPublic, Phases, S


class WarmStarted(Method[C, S], Generic[C, S]):
    """One whose loop has `warm_start`, and whose Config says how many steps that takes: `warm_steps`."""

    def phases(self, config: C, card: Any) -> Phases[C, S]:
        """A free warm start, then the training."""
        steps = dataclasses.asdict(config)["warm_steps"]
        warm: OnPublic[C, S] = OnPublic(
            name="warm start", steps=steps, body=lambda *given: self.loop.warm_start(*given)
        )
        return [warm, self.training(config, card)]
