"""What `evolve`, `feature-moments` and `teacher` have in common: their samples may be labelled public pictures.

`evolve` and `teacher` also share a drawing program.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic

from gossamer.lazy import Lazy
from gossamer.methods.contract import C, Draw, Method, S

if TYPE_CHECKING:
    from torch import Tensor, nn

    from gossamer.methods.common import labelled
else:
    labelled = Lazy("gossamer.methods.common.labelled")


def drawing_program(draws: str) -> dict[str, str]:
    """What a certificate says of the drawing program. draws: what it renders, or with which setting."""
    return {
        "what": f"the drawing program of this version of Gossamer, {draws}",
        "tuned": "its constants were chosen on half of scikit-learn's digits. Its way of drawing comes from a version that was "
        "tuned on MNIST's training pictures. Results on these data sets benefit from that",
    }


class LabelsPublic(Method[C, S], Generic[C, S]):
    """A method whose network may hold labelled public pictures, as `labelled`; None or no such attribute: it holds none."""

    @classmethod
    def labels_public(cls, settings: Mapping[str, Any]) -> bool:  # noqa: ARG003 (what every method is asked)
        """Those of the run, where it has any."""
        return True

    def chunks(self, net: "nn.Module", draw: Draw[C], sizes: Sequence[int]) -> "Iterator[tuple[Tensor, ...]]":
        """These pictures with probabilities, where there are any. None comes twice before all have come."""
        pictures: Any = getattr(net, "labelled", None)
        if pictures is not None:
            return labelled.chunks(pictures, draw.card, sizes, draw.labels, draw.stream)
        return super().chunks(net, draw, sizes)
