"""Named settings: each row of the papers' tables, and what was tuned for two cores. Every method keeps its own.

`fit --preset` takes them as they are. Scaled to a card, they keep the number of records per critic or histogram bin
(`in_proportion`). Batches keep their size, or hold all records where fewer are declared.
"""

import dataclasses
import math
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gossamer.data.card import Card
from gossamer.errors import RequestError, did_you_mean
from gossamer.lazy import torch
from gossamer.methods import METHODS
from gossamer.methods.contract import FROM_EPSILON, BaseConfig, State, presets_of
from gossamer.methods.job import Job
from gossamer.methods.registry import ABOUT, asked

_CLASSES = 10
"""Of the records that presets were tuned on."""
NEAR = 1.25
"""Two numbers whose ratio is no larger count as equal: signal-to-noise, numbers of records, sides of pictures."""


def all_presets() -> dict[str, dict[str, dict[str, Any]]]:
    """{method: {name: {"about": ..., settings...}}}."""
    return {name: presets_of(method) for name, method in METHODS.items()}


def settings(method: str, name: str) -> dict[str, Any]:
    """Return the settings of one preset.

    Raises:
        RequestError: if there is none of that name; names the nearest.
    """
    return {key: value for key, value in _entry(method, name).items() if key not in ABOUT}


def defaults(method: str) -> dict[str, Any]:
    """The settings of a method that nobody has given."""
    fields = dataclasses.fields(METHODS[method].config_type)
    return {field.name: field.default for field in fields if field.default not in (dataclasses.MISSING, FROM_EPSILON)}


def by_distance(
    methods: Iterable[str], card: Card, epsilon: float, *, shows: str
) -> list[tuple[str, str, dict[str, Any]]]:
    """Method, name and entry of each preset that says for how many records and which epsilon it was tuned.

    The product of both says how much noise there is beside the records. Those with a similar product come first, by ratio. A
    similar number of records in each class counts half as much. Of presets as near, one that is for less comes first.

    Args:
        methods: their names.
        card: of the records.
        epsilon: of the run.
        shows: what the records show. Presets that say for what they are must name it.
    """

    def far(found: tuple[str, str, dict[str, Any]]) -> tuple[float, int]:
        size = card.declared_size * _CLASSES / getattr(card, "classes", _CLASSES)
        records = math.log(found[2]["records"] / size)
        product = records + math.log(found[2]["epsilon"] / min(epsilon, 20.0))
        return abs(product) + abs(records) / 2, len(found[2].get("shows", ()))

    tuned = [(method, name, entry) for method in methods for name, entry in presets_of(METHODS[method]).items()]
    return sorted((each for each in tuned if "epsilon" in each[2] and shows in each[2].get("shows", [shows])), key=far)


def tailored(method: str, entry: Mapping[str, Any], card: Card) -> dict[str, Any]:
    """The settings of a preset that was made for another number of records, changed to that of a card."""
    values = defaults(method) | {key: value for key, value in entry.items() if key not in ABOUT}
    in_proportion = entry.get("in_proportion", ())
    return values | scaled(values, card, made_for=entry.get("records"), in_proportion=in_proportion)


def any_noise(method: str) -> dict[str, float]:
    """The setting that stands for what epsilon decides, where only the others matter; empty: the method has no noise."""
    return {} if METHODS[method].without_guarantee else {"noise_multiplier": 1.0}


def scaled(
    values: Mapping[str, Any], card: Card, *, made_for: int | None, in_proportion: Sequence[str]
) -> dict[str, Any]:
    """What changes in settings that were made for another number of records.

    Args:
        values: the settings.
        card: the records; their declared size counts.
        made_for: the number of records. If it is None, or nearly the declared size, only a batch that is too large changes.
        in_proportion: the settings that go with the number of records; each stays at 1 or above.
    """
    share = card.declared_size / (made_for or card.declared_size)
    new: dict[str, Any] = {}
    for name in in_proportion:
        if name in values and not 1 / NEAR <= share <= NEAR:
            new[name] = max(1, round(values[name] * share))
    if values.get("expected_batch_size", 0) > card.declared_size:
        new["expected_batch_size"] = card.declared_size
    return {name: value for name, value in new.items() if value != values[name]}


def check_net(job: Job[BaseConfig, State]) -> None:
    """Refuse settings that contradict each other or the card, or of which no generator can be made.

    Raises:
        RequestError: naming the flag, or the shapes that there are.
    """
    with asked(job.method.name), torch.random.fork_rng(devices=[]):
        _ = job.plan
        job.generator()


def flags(values: Mapping[str, Any]) -> list[str]:
    """Settings as words of a command."""
    arguments = []
    for name, value in values.items():
        flag = name.replace("_", "-")
        if isinstance(value, Mapping):  # a start: its METHOD, and flags of it
            own = flags({key: each for key, each in value.items() if key != "method"})
            arguments.append(f"--{flag} {shlex.quote(' '.join([value['method'], *own]))}")
        else:
            arguments.append(f"--{'' if value else 'no-'}{flag}" if isinstance(value, bool) else f"--{flag} {value}")
    return arguments


def _entry(method: str, name: str) -> dict[str, Any]:
    presets = presets_of(METHODS[method])
    if name not in presets:
        raise RequestError(
            f"{method} has no preset {name!r}.{did_you_mean(name, presets)} Known: {', '.join(presets) or 'none'}."
        )
    return presets[name]
