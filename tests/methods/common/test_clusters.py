"""Clusters of candidates: what they are, that a vote for one is a matter of its own record, and how votes are shared."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.cluster import KMeans
from threadpoolctl import threadpool_info, threadpool_limits
from torch import Tensor

from gossamer.data.records import Records
from gossamer.methods.common import votes
from gossamer.methods.common.clusters import Clusters, grouped, k_means, within_classes
from gossamer.methods.common.votes import Cosines, Votes, embedded, on_grid
from gossamer.privacy.queries import Bounds

ONE = Bounds(norms=(1.0,))


def stream() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def pictures(n: int, seed: int, units: np.ndarray | None = None) -> Records:
    draw = np.random.default_rng(seed)
    return Records(draw.integers(0, 256, (n, 1, 8, 8)).astype(np.uint8), draw.integers(3, size=n), units)


def test_three_groups_are_found_and_their_centres_lie_on_the_grid() -> None:
    groups = torch.tensor([2, 0, 1, 0, 2, 1, 0])
    middle = torch.tensor([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0]])
    positions = on_grid(middle[groups] + 0.3 * torch.rand(7, 2, generator=stream()))
    centres, members = grouped(positions, 3, stream())
    assert len(centres) == 3
    assert torch.equal(members[:, None] == members, groups[:, None] == groups)
    means = torch.stack([positions[members == k].mean(0) for k in range(3)])
    torch.testing.assert_close(centres, means, atol=2.0**-12, rtol=0)
    assert torch.equal(4_096 * centres, (4_096 * centres).round())
    assert torch.equal(grouped(positions, 3, stream())[0], centres), "the same stream gives the same clusters"


def test_there_are_no_more_clusters_than_different_pictures() -> None:
    centres, members = grouped(torch.tensor([[1.0], [1.0], [5.0]]), 10, stream())
    assert sorted(centres.flatten().tolist()) == [1, 5]
    assert members[0] == members[1] != members[2]


def test_each_candidate_is_a_cluster_where_there_are_no_more_candidates() -> None:
    """The votes are then bit for bit those for single candidates, and no public number is drawn."""
    positions, labels, coins = on_grid(torch.randn(9, 4)), torch.arange(3).repeat_interleave(3), stream()
    found = within_classes(positions, labels, torch.tensor([3, 7, 3]), coins)
    assert torch.equal(found.centres, positions)
    assert torch.equal(found.labels, labels)
    assert torch.equal(found.shared(torch.arange(9.0)), torch.arange(9.0))
    assert torch.equal(coins.get_state(), stream().get_state())


def test_clusters_are_of_one_class_and_a_class_without_candidates_has_none() -> None:
    labels = torch.tensor([0] * 20 + [2] * 4)
    found = within_classes(on_grid(torch.randn(24, 3, generator=stream())), labels, torch.tensor([5, 5, 5]), stream())
    assert torch.bincount(found.labels, minlength=3).tolist() == [5, 0, 4]
    assert torch.equal(found.labels[found.members], labels)


def test_the_candidates_of_a_cluster_share_its_votes() -> None:
    found = Clusters(torch.zeros(3, 1), torch.zeros(3).long(), torch.tensor([0, 2, 0, 2, 2]))
    assert found.shared(torch.tensor([8.0, 5.0, 3.0])).tolist() == [4, 1, 4, 1, 1]


def query(kind: str) -> Votes:
    """Votes for clusters of drawn candidates, or of a folder: there each cluster is one of every class."""
    public = pictures(60, 0)
    embedding = Cosines.of(public, 10)
    positions = embedded(public, embedding)
    if kind == "candidates":
        found = within_classes(positions, torch.arange(60) % 3, torch.full((3,), 4), stream())
        return Votes(embedding, found.centres, found.labels, 3)
    centres, _ = grouped(positions, 6, stream())
    return Votes(embedding, centres.repeat_interleave(3, dim=0), torch.arange(3).repeat(6), 3)


@pytest.mark.parametrize("at_once", [1, 7, 1_000])
@pytest.mark.parametrize("kind", ["candidates", "folder"])
def test_without_a_record_every_other_vote_is_the_same(
    kind: str, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever record is gone, however many pictures are compared at once: bit for bit."""
    asked, records = query(kind), pictures(40, 1)
    whole = asked._nearest(records)
    assert len(whole.unique()) > 5
    monkeypatch.setattr(votes, "_CHUNK", at_once)
    assert torch.equal(asked._nearest(records), whole)
    for gone in (0, 17, 39):
        rest = np.delete(np.arange(40), gone)
        assert torch.equal(asked._nearest(records[rest]), whole[torch.from_numpy(rest)])
        moved = asked.clipped_sum(records, ONE) - asked.clipped_sum(records[rest], ONE)
        assert torch.equal(torch.nonzero(moved)[:, 0], whole[[gone]])
        assert 1 - 1e-5 < float(moved.norm()) <= 1


@pytest.mark.parametrize("kind", ["candidates", "folder"])
def test_the_votes_of_a_unit_for_clusters_have_length_one(kind: str) -> None:
    asked, owners = query(kind), np.repeat(np.arange(4), [10, 1, 3, 6])
    records = pictures(20, 1, units=owners)
    moved = asked.clipped_sum(records, ONE) - asked.clipped_sum(records.take(np.arange(1, 4)), ONE)
    assert 1 - 1e-5 < float(moved.norm()) <= 1


def test_a_record_votes_for_the_nearest_cluster_of_a_folder_in_the_bin_of_its_class() -> None:
    def grey(images: Tensor) -> Tensor:
        return images.mean((1, 2, 3), dtype=torch.float64)[:, None]

    asked = replace(
        query("folder"), embedding=grey, positions=on_grid(torch.tensor([[0.0], [0.0], [0.0], [1.0], [1.0], [1.0]]))
    )
    asked = replace(asked, labels=torch.arange(3).repeat(2))
    records = Records(np.array([0, 250, 10, 255], np.uint8).reshape(4, 1, 1, 1), np.array([2, 0, 0, 1]))
    assert asked.clipped_sum(records, Bounds(norms=(float("inf"),))).tolist() == [1, 0, 1, 1, 1, 0]


def test_centres_are_summed_by_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the process has: else a replay on another number of threads would end elsewhere."""
    seen, fit = [], KMeans.fit

    def noted(self: KMeans, points: np.ndarray) -> KMeans:
        seen.extend(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "openmp")
        return fit(self, points)

    monkeypatch.setattr(KMeans, "fit", noted)
    with threadpool_limits(2):
        centres = k_means(torch.tensor([[0.0], [1.0], [10.0], [11.0]]), 2, stream())
    assert set(seen) == {1}
    assert sorted(centres.flatten().tolist()) == [0.5, 10.5]
