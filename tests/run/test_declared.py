"""What was declared and what was asked for is what a run is made of: the card's size, a preset's settings."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gossamer.run import presets

Run = Callable[..., Any]


def test_the_rate_is_that_of_the_declared_size_not_of_the_records(
    gossamer: Run, fit_words: list[str], card: Path, tmp_path: Path
) -> None:
    """160 records, 250 declared: 16 expected in a step are a rate of 16/250, on the ledger and on the certificate."""
    card.write_text(card.read_text().replace("160", "250"))
    answer = gossamer(*fit_words)
    assert answer.status == 0, answer.err
    lines = [json.loads(line) for line in (tmp_path / "run" / "ledger.jsonl").read_text().splitlines()]
    (entry,) = next(line["reserve"] for line in lines if "reserve" in line)
    assert entry["event"]["sampling_rate"] == 16 / 250
    certificate = json.loads((tmp_path / "run" / "certificate.json").read_text())
    assert certificate["card"]["declared_size"] == 250
    assert gossamer("verify", tmp_path / "run").status == 0


def test_a_run_has_the_settings_of_its_preset_but_for_those_that_were_given(
    gossamer: Run, fit_words: list[str], tmp_path: Path
) -> None:
    name = "paper-eps10-adaptive"
    assert gossamer(*fit_words, "--preset", name).status == 0
    config = json.loads((tmp_path / "run" / "certificate.json").read_text())["config"]
    given = {"steps": 20, "expected_batch_size": 16, "width": 4, "latent_size": 8}
    of_preset = {key: value for key, value in presets.settings("dpgan", name).items() if key not in given}
    del of_preset["noise_multiplier"]  # --epsilon decides it
    assert of_preset["adaptive"]
    assert {key: config[key] for key in {**of_preset, **given}} == {**of_preset, **given}
