"""Gossamer as a custom synthesizer of SDGym: the two functions that SDGym asks for.

    pip install sdgym
    import sdgym
    train, sample = functions([gossamer.TableCard.load("card.toml")], epsilon=1.0, delta=1e-5)
    Private = sdgym.create_single_table_synthesizer("Gossamer", train, sample)
    sdgym.benchmark_single_table(synthesizers=["GaussianCopulaSynthesizer"], custom_synthesizers=[Private])

The cards come from you: bounds and lists of values that are measured in the table would break the guarantee. SDGym's metadata
say the kinds of columns. `sdv_metadata.py` beside this file writes a draft of a card from them.
"""

from collections.abc import Callable, Sequence
from typing import Any

import gossamer

Functions = tuple[Callable[[Any, Any], gossamer.Synthesizer], Callable[[gossamer.Synthesizer, int], Any]]


def functions(cards: Sequence[gossamer.TableCard], *, epsilon: float, delta: float, **settings: Any) -> Functions:
    """Return `get_trained_synthesizer` and `sample_from_synthesizer`, as SDGym calls them.

    Args:
        cards: one for each table of the benchmark. The names of its columns tell which table it is for.
        epsilon: of each run.
        delta: of each run.
        settings: others of `gossamer.fit("marginals", ...)`.
    """

    def get_trained_synthesizer(data: Any, metadata: Any) -> gossamer.Synthesizer:  # noqa: ARG001 - SDGym passes it
        named = {str(name) for name in data.columns}
        fitting = [card for card in cards if {*card.names} <= named]
        if not fitting:
            raise ValueError(f"No card declares columns of this table. It has {', '.join(sorted(named))}.")
        card = max(fitting, key=lambda card: len(card.names))
        cells = data[[*card.names]]
        source = gossamer.Source(cells.astype(str).where(cells.notna(), ""), public_test_data=True)
        given: dict[str, Any] = {"epsilon": epsilon, "delta": delta, **settings}
        return gossamer.fit("marginals", data=source, card=card, **given)

    def sample_from_synthesizer(synthesizer: gossamer.Synthesizer, n_rows: int) -> Any:
        return synthesizer.sample(n_rows).to_pandas()

    return get_trained_synthesizer, sample_from_synthesizer
