"""Events as the ledger and the certificate write them."""

from typing import Any

from dp_accounting import (
    ComposedDpEvent,
    DpEvent,
    GaussianDpEvent,
    NonPrivateDpEvent,
    PoissonSampledDpEvent,
    SampledWithoutReplacementDpEvent,
    SelfComposedDpEvent,
)

from gossamer.errors import BudgetError, LedgerDamaged
from gossamer.privacy.accounting.accountants import flatten
from gossamer.privacy.accounting.revealed_draw import RevealedDrawGaussianDpEvent


def event_to_json(event: DpEvent) -> dict[str, Any]:
    """An event as the ledger and the certificate write it; `event_from_json` is the inverse.

    Raises:
        TypeError: an event outside Gossamer's vocabulary.
    """
    match event:
        case GaussianDpEvent():
            return {"event": "Gaussian", "noise_multiplier": float(event.noise_multiplier)}
        case PoissonSampledDpEvent():
            rate = float(event.sampling_probability)
            return {"event": "PoissonSampled", "sampling_rate": rate, "of": event_to_json(event.event)}
        case SampledWithoutReplacementDpEvent():
            sizes = {"population": int(event.source_dataset_size), "drawn": int(event.sample_size)}
            return {"event": "SampledWithoutReplacement", **sizes, "of": event_to_json(event.event)}
        case RevealedDrawGaussianDpEvent():
            noise = float(event.noise_multiplier)
            return {"event": "RevealedDrawGaussian", "population": int(event.population), "noise_multiplier": noise}
        case SelfComposedDpEvent():
            return {"event": "SelfComposed", "count": int(event.count), "of": event_to_json(event.event)}
        case ComposedDpEvent():
            return {"event": "Composed", "of": [event_to_json(part) for part in event.events]}
        case NonPrivateDpEvent():
            return {"event": "NonPrivate"}
        case _:
            raise TypeError(f"{type(event).__name__} is not an event that a ledger can hold")


def event_from_json(data: Any) -> DpEvent:
    """The event that `event_to_json` wrote.

    Raises:
        LedgerDamaged: an unknown event, named; a missing or additional field, or a value of the wrong kind or range.
    """
    whole_numbers = not isinstance(data, dict) or not any(isinstance(value, bool) for value in data.values())
    match data if whole_numbers else None:  # True would pass for 1
        case {"event": "Gaussian", "noise_multiplier": float(noise), **rest}:
            event = GaussianDpEvent(noise)
        case {"event": "PoissonSampled", "sampling_rate": float(rate), "of": of, **rest}:
            event = PoissonSampledDpEvent(rate, event_from_json(of))
        case {"event": "SampledWithoutReplacement", "population": int(whole), "drawn": int(drawn), "of": of, **rest}:
            event = SampledWithoutReplacementDpEvent(whole, drawn, event_from_json(of))
        case {"event": "RevealedDrawGaussian", "population": int(whole), "noise_multiplier": float(noise), **rest}:
            event = RevealedDrawGaussianDpEvent(whole, noise)
        case {"event": "SelfComposed", "count": int(count), "of": of, **rest}:
            event = SelfComposedDpEvent(event_from_json(of), count)
        case {"event": "Composed", "of": list(parts), **rest}:
            event = ComposedDpEvent([event_from_json(part) for part in parts])
        case {"event": "NonPrivate", **rest}:
            event = NonPrivateDpEvent()
        case _:
            name = data.get("event") if isinstance(data, dict) else None
            raise LedgerDamaged(f"the event {name!r} is unknown, or its fields are missing or of the wrong kind")
    if rest:
        raise LedgerDamaged(f"the event {data['event']!r} has the unknown field {next(iter(rest))!r}")
    try:
        flatten([(event, 1)])
    except BudgetError as error:
        raise LedgerDamaged(str(error)) from None
    return event
