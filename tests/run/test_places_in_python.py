"""Places in Python: `~` is the home of the user, and a Synthesizer stands for the folder of its run."""

import numpy as np
import pandas as pd
import pytest

import gossamer
from gossamer.errors import RequestError, RunFolderError
from gossamer.files import at_home
from gossamer.methods.synthesizer import Synthesizer

CARD = gossamer.TableCard.loads("""
declared_size = 400
label = "ill"
[[column]]
name = "age"
kind = "integer"
bounds = [0, 99]
[[column]]
name = "ill"
kind = "category"
values = ["no", "yes"]
""")


@pytest.fixture
def home(tmp_path, monkeypatch):
    """The home of a user, who works in another folder."""
    (tmp_path / "home").mkdir()
    (tmp_path / "work").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path / "work")
    draw = np.random.default_rng(5)
    frame = pd.DataFrame({"age": draw.integers(20, 90, 400), "ill": draw.choice(["no", "yes"], 400)})
    frame.to_csv(tmp_path / "home" / "people.csv", index=False)
    return tmp_path / "home"


def test_a_tilde_is_the_home_of_the_user_wherever_a_path_is_taken(home, tmp_path):
    CARD.save("~/card.toml")
    gossamer.split("~/people.csv", out="~/parts", seed=2)
    draft = gossamer.draft_card("~/people.csv")
    draft.save("~/draft.toml")
    run = gossamer.fit(
        "marginals", data="~/parts", card="~/card.toml", epsilon=50, delta=1e-5, out="~/RUN", accounts="~/log"
    )
    assert gossamer.evaluate("~/RUN", train="~/parts", test="~/parts", out="~/metrics.json").metrics
    assert gossamer.attack("~/RUN", members="~/parts", nonmembers="~/parts", out="~/attacks.json").attacks
    run.sample(9, seed=0).save("~/s.csv")
    gossamer.release("~/RUN", "~/RELEASE")
    assert gossamer.verify("~/RELEASE").ok and gossamer.resume("~/RUN").path == home / "RUN"
    gossamer.sign("~/RELEASE", key="~/key.pem", new_key=True)
    assert gossamer.verify("~/RELEASE", key="~/key.pem.pub").ok
    assert gossamer.budget("~/parts", accounts="~/log").account.entries
    made = {
        "RUN",
        "RELEASE",
        "attacks.json",
        "card.toml",
        "draft.toml",
        "key.pem",
        "key.pem.pub",
        "log",
        "metrics.json",
    }
    assert {path.name for path in home.iterdir()} == made | {"people.csv", "parts", "s.csv"}
    assert not [*(tmp_path / "work").iterdir()], "nothing is in a folder called ~"


def test_a_name_that_only_begins_with_a_tilde_is_a_file(home, tmp_path):
    assert at_home("~$book.xlsx").name == "~$book.xlsx" and at_home("~nobody-here/x").parts[0] == "~nobody-here"
    (home / "people.csv").rename(tmp_path / "work" / "~$people.csv")
    assert "age" in gossamer.draft_card("~$people.csv").text


def test_what_fit_returned_is_judged_attacked_and_released_without_its_path(home):
    made = gossamer.fit("marginals", data="~/people.csv", card=CARD, epsilon=50, delta=1e-5, out="RUN")
    parts = pd.read_csv(home / "people.csv")
    figures = gossamer.evaluate(made, train=parts[:200], test=parts[200:]).metrics
    assert (made.path / "metrics.json").is_file() and figures
    report = gossamer.attack(made, members=parts[:200], nonmembers=parts[200:])
    assert "RUN" not in report.on and (made.path / "attacks.json").is_file()
    gossamer.release(made, "RELEASE")
    loaded = Synthesizer.load("RELEASE")
    assert loaded.path.name == "RELEASE" and gossamer.verify(loaded.path).ok
    assert gossamer.evaluate(loaded, train=parts[:200], test=parts[200:]).metrics == figures
    with pytest.raises(RequestError, match="`synth` must be text or a path or a Synthesizer, not of type int"):
        gossamer.evaluate(3, train=parts, test=parts)


def test_a_run_that_was_killed_in_its_first_second_is_called_so_by_every_command(home):
    """Row 110: one said that `resume` finishes it, and `resume` that it is no run."""
    (home / "RUN" / "checkpoint").mkdir(parents=True)
    (home / "RUN" / "checkpoint" / "lock").touch()
    with pytest.raises(
        RunFolderError, match=r"was cut off before its ledger was written; no budget is used\. Start a new"
    ):
        gossamer.resume("~/RUN")
    with pytest.raises(RunFolderError, match=r"not a finished run\. Give a finished RUN\."):
        Synthesizer.load("~/RUN")
    made = gossamer.fit("marginals", data="~/people.csv", card=CARD, epsilon=50, delta=1e-5, out="~/RUN")
    assert made.path == home / "RUN"
