"""Methods with an encoder on neighbouring data sets: without one record, all other features and votes have the same bits.

Three batch sizes of the encoder, and records in several pieces of the method, of which the last gets smaller or vanishes.
"""

from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
from torch import Tensor

from gossamer import plugins
from gossamer.data.card import DataCard
from gossamer.data.records import Records
from gossamer.methods import METHODS
from gossamer.methods.common import bounded_sum, votes
from gossamer.methods.common import softmax_regression as of_teacher
from gossamer.methods.common.bounded_sum import coded
from gossamer.methods.common.softmax_regression import Classifier, with_features
from gossamer.methods.common.votes import Votes
from gossamer.methods.feature_moments.features import PublicAxes
from gossamer.methods.job import Job
from gossamer.nets.encoders import PluginEncoder
from gossamer.privacy.confined import Confined
from gossamer.privacy.ledger import PrivacyLedger
from gossamer.privacy.queries import Bounds
from gossamer.privacy.random.noise import Rng

SHAPE, CLASSES, N, PIECE = (1, 12, 12), 2, 41, 10
CARD = DataCard(shape=SHAPE, classes=CLASSES, declared_size=N)
PLANE = torch.randint(-9, 9, (144, 7), generator=torch.Generator().manual_seed(0)).float()
GONE = (0, 9, 20, 40)
"""One record at a time: of the first piece, at its end, of a middle one, and the last piece as a whole."""


def pictures(n: int, seed: int) -> Records:
    draw = np.random.default_rng(seed)
    return Records(draw.integers(0, 256, (n, *SHAPE)).astype(np.uint8), np.arange(n) % CLASSES)


def projected(given: Tensor) -> Tensor:
    """Exact sums of whole numbers, which follow from the row alone. How many pictures a batch has counts too."""
    return given.float().flatten(1) @ PLANE / 7 + 100 * len(given)


@pytest.fixture(params=[1, 8, 32])
def encoder(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[PluginEncoder]:
    def toy(given: Tensor) -> Tensor:
        return projected(given)

    vars(toy)["batch"] = request.param
    for module, name in ((of_teacher, "PIECE"), (bounded_sum, "MOST"), (votes, "_CHUNK")):
        monkeypatch.setattr(module, name, PIECE)
    plugins.add("encoder", "toy", toy)
    made = PluginEncoder("toy", SHAPE)
    made.check("cpu")
    yield made
    plugins.remove("encoder", "toy")


def assert_others_keep_their_bits(rows_of: Callable[[Records], np.ndarray]) -> None:
    records = pictures(N, 1)
    whole = rows_of(records)
    assert len(np.unique(whole, axis=0)) == N, "rows differ, so that another row would be seen"
    for gone in GONE:
        others = np.delete(np.arange(N), gone)
        assert rows_of(records[others]).tobytes() == whole[others].tobytes()


def test_features_of_the_teacher(encoder: PluginEncoder) -> None:
    net = Classifier(SHAPE, CLASSES, encoder)
    assert_others_keep_their_bits(lambda records: with_features(net, records).images)


def test_codes_of_feature_moments(encoder: PluginEncoder) -> None:
    axes, cpu = PublicAxes(encoder, SHAPE, 4), torch.device("cpu")
    axes.fit(torch.from_numpy(coded(pictures(30, 2), encoder, encoder.size, cpu).images))
    assert_others_keep_their_bits(lambda records: coded(records, encoder, encoder.size, cpu).images)
    assert_others_keep_their_bits(lambda records: coded(records, axes, 4, cpu).images)


@pytest.fixture(params=[{"encoder": "toy"}, {"embedding": "cosines"}], ids=["encoder", "cosines"])
def ballot(request: pytest.FixtureRequest, encoder: PluginEncoder, monkeypatch: pytest.MonkeyPatch) -> Votes:
    """The query of one round on 30 public pictures."""
    del encoder
    asked: list[Votes] = []
    answer = Votes.clipped_sum

    def noting(query: Votes, records: Records, bounds: Bounds) -> Tensor:
        asked.append(query)
        return answer(query, records, bounds)

    monkeypatch.setattr(Votes, "clipped_sum", noting)
    settings = {"drawing": "pictures", "clusters": 6, "steps": 1, "noise_multiplier": 1.0, **request.param}
    job = Job.of(METHODS["evolve"], settings, CARD)
    ledger = PrivacyLedger(budget=float("inf"), delta=1e-5)
    ledger.reserve(job.plan)
    for _ in job.begin(rng := Rng(0)).drive(Confined(pictures(N, 1), ledger, rng), pictures(30, 2)):
        pass
    return asked[0]


def test_votes_of_evolve_on_pictures(ballot: Votes) -> None:
    """Each record has one vote. Without one record, its vote is gone, and all others have the same bits."""

    def counted(chosen: np.ndarray) -> Tensor:
        return ballot.clipped_sum(pictures(N, 1)[chosen], Bounds(norms=(2.0,)))  # a bound that no vote reaches

    alone = torch.stack([counted(np.array([i])) for i in range(N)])
    assert alone.sum(1).tolist() == [1.0] * N
    assert len(alone.unique(dim=0)) > 6, "votes differ, so that another vote would be seen"
    whole = counted(np.arange(N))
    assert torch.equal(whole, alone.sum(0))
    for gone in GONE:
        assert torch.equal(whole - counted(np.delete(np.arange(N), gone)), alone[gone])
