"""Records whose gradients are computed at once, by the memory of a GPU. No GPU is needed: its memory is a number."""

import math
from typing import Any
from unittest import mock

import pytest
import torch

from gossamer.data.card import DataCard
from gossamer.methods import METHODS
from gossamer.methods.contract import AT_ONCE
from gossamer.methods.job import Job
from gossamer.run.training.memory import fitted

CARD = DataCard(shape=(1, 28, 28), classes=10, declared_size=60_000)


def chosen(free: float, *, method: str = "dpgan", device: str = "cuda:3", ranks: int = 1, **settings: Any) -> int:
    job = Job.of(METHODS[method], {"noise_multiplier": 1.0, "width": 16, **settings}, CARD)
    with mock.patch("torch.cuda.mem_get_info", return_value=(int(free), 1 << 40)) as asked:
        found = fitted(job, device, ranks=ranks)
    assert asked.call_args_list in ([], [mock.call(torch.device(device))])
    same = {name: value for name, value in job.settings.items() if name != "physical_batch_size"}
    assert same.items() <= found.settings.items() and found.card is CARD
    return int(found.settings["physical_batch_size"])


def test_a_draw_is_taken_whole_where_it_fits() -> None:
    """512 are expected: five standard deviations more, and the next multiple of 32."""
    assert chosen(1e11) == 32 * math.ceil((512 + 5 * math.sqrt(512)) / 32) == 640
    assert chosen(1e11, ranks=4) == 32 * math.ceil((128 + 5 * math.sqrt(128)) / 32) == 192
    assert chosen(1e11, expected_batch_size=64) == 128


def test_else_in_equal_parts_that_fit() -> None:
    sizes = [chosen(free) for free in (1e9, 1e8, 3e7, 1e7, 1e6, 1)]
    assert sizes == sorted(sizes, reverse=True) and sizes[0] == 640 and sizes[-1] == 1
    assert 1 < sizes[2] < 640


def test_several_rows_a_record_and_larger_nets_take_more_room() -> None:
    small = {"method": "dp-diffusion", "width": 8, "depth": 1, "network": "unet", "sampler_steps": 1}
    one, eight = (chosen(2e8, multiplicity=k, expected_batch_size=4_096, **small) for k in (1, 8))
    assert 4 < one / eight < 16
    assert chosen(5e7, width=64) < chosen(5e7, width=16)


@pytest.mark.parametrize("given", [{"physical_batch_size": 7}, {"device": "cpu"}])
def test_what_was_asked_for_stays_and_so_does_a_processor(given: dict[str, Any]) -> None:
    assert chosen(1e11, **given) == given.get("physical_batch_size", 0)


def test_methods_without_the_setting_are_left_alone() -> None:
    for method in ("moments", "gs-wgan"):
        job = Job.of(METHODS[method], {"noise_multiplier": 1.0}, CARD)
        assert fitted(job, "cuda") is job


def test_left_open_on_a_processor_it_is_512() -> None:
    assert AT_ONCE == 512
