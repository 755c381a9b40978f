"""A transformer of your own under differential privacy: `python examples/own_model.py FOLDER`. Takes seconds.

A program writes the notes, so they are public. They play notes of patients, of whom a quarter has two: the unit is a patient.
"""

import random
import sys
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import gossamer

folder = Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
LENGTH, PATIENTS = 12, 3_000
SIGNS = {"flu": "fever aches chills cough", "cold": "sneezing sore_throat cough", "allergy": "sneezing itching rash"}
REST = ["patient", "reports", "since", "two", "days", "and", "no", "mild", "some", "of", "was", "seen", "today"]
WORDS = sorted({*REST, *" ".join(SIGNS.values()).split()})


def note(sickness: str) -> list[int]:
    words = [*random.choices(SIGNS[sickness].split(), k=2), *random.choices(REST, k=LENGTH - 2)]
    return [WORDS.index(word) for word in random.sample(words, LENGTH)]


random.seed(0)
sick = [random.choice(list(SIGNS)) for _ in range(PATIENTS)]
owners = [patient for patient in range(PATIENTS) for _ in range(random.choice([1, 1, 1, 2]))]
notes = torch.tensor([note(sick[patient]) for patient in owners])
classes = torch.tensor([list(SIGNS).index(sick[patient]) for patient in owners])


class Transformer(nn.Module):
    """One block of attention over the words of a note."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(len(WORDS), width), nn.Embedding(LENGTH, width)
        self.parts, self.norm = nn.Linear(width, 3 * width), nn.LayerNorm(width)
        self.head = nn.Linear(width, len(SIGNS))

    def forward(self, notes: Tensor) -> Tensor:
        x = self.words(notes) + self.places(torch.arange(LENGTH).expand_as(notes))
        q, k, v = self.parts(self.norm(x)).chunk(3, -1)
        return self.head((x + F.scaled_dot_product_attention(q, k, v)).mean(1))


def loss(net: nn.Module, notes: Tensor, classes: Tensor) -> Tensor:
    return F.cross_entropy(net(notes), classes, reduction="none")


train, test = owners.index(2_500), slice(owners.index(2_500), None)  # the last 500 patients are held out
engine = gossamer.Engine(
    gossamer.Source((notes[:train], classes[:train]), units=owners[:train]),
    declared_size=2_500, expected_batch_size=100, steps=40, max_norm=1.0, epsilon=4, delta=1e-5, unit="patient",
    ledger=folder / "ledger.jsonl",
)  # fmt: skip
torch.manual_seed(0)
net = Transformer()
optimiser = torch.optim.Adam(net.parameters(), lr=2e-2)
for _ in engine.steps(net, loss):
    optimiser.step()

right = net(notes[test]).argmax(1) == classes[test]
print(f"accuracy on patients who are not in the data: {right.float().mean():.0%}")
engine.certificate().save(folder / "certificate.json")
print(engine.certificate().statement)
