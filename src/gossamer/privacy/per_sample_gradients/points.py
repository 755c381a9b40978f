"""What a critic with a gradient penalty sees."""

from dataclasses import dataclass

from torch import Tensor, nn

from gossamer.errors import RequestError


@dataclass(frozen=True)
class Points:
    """What the critic sees of n records. real, fake, between: [n, ...]; labels: [n], handed to the critic as they are."""

    real: Tensor
    fake: Tensor
    between: Tensor
    labels: Tensor | None = None

    def __getitem__(self, which: slice) -> "Points":
        labels = None if self.labels is None else self.labels[which]
        return Points(self.real[which], self.fake[which], self.between[which], labels)

    def __len__(self) -> int:
        return len(self.real)

    def judged(self, critic: nn.Module, images: Tensor) -> Tensor:
        """The critic's numbers for images [n, ...] of these records, with their labels. [n]

        Raises:
            RequestError: if it gives anything else.
        """
        values: Tensor = critic(images) if self.labels is None else critic(images, self.labels)
        if values.shape != (len(self),):
            raise RequestError("the critic must give one number per record, as a vector of n")
        return values
