"""What Python programs get: a `Synthesizer` that can be judged, attacked, saved and released, of typed samples.

`fit` and `resume` are those of `run/training`. Evaluation, attacks and releases are loaded when they are asked for.
"""

import functools
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, overload

from gossamer.data.card import DataCard
from gossamer.data.samples.samples import Samples
from gossamer.data.source import Data
from gossamer.data.tables.any_card import AnyCard
from gossamer.data.tables.card import TableCard, TableDraft
from gossamer.data.tables.samples import TableSamples
from gossamer.files import at_home
from gossamer.methods import synthesizer
from gossamer.methods.contract import BaseConfig, Loop
from gossamer.run.storage.run_folder import REPORT, RunFolder
from gossamer.run.training import fit as training
from gossamer.run.training import resume as resuming

P = ParamSpec("P")
if TYPE_CHECKING:
    from gossamer.run.evaluation import attack as attacking
    from gossamer.run.evaluation import evaluate as evaluation
    from gossamer.run.release import release as releasing
    from gossamer.run.report import html

else:
    attacking, evaluation = Loop("gossamer.run.evaluation.attack"), Loop("gossamer.run.evaluation.evaluate")
    releasing, html = Loop("gossamer.run.release.release"), Loop("gossamer.run.report.html")


class Synthesizer(synthesizer.Synthesizer[synthesizer.S_co]):
    """A generator with its certificate, of a run or a release. Built by `fit` or `load`, never by hand.

    Its methods `evaluate`, `attack` and `release` are the functions of these names.

    S_co: the class of its samples, `Samples` or `TableSamples`. `fit` knows it by the card, and `Synthesizer[Samples].load`
    states it.
    """

    evaluate = evaluation.evaluate
    attack = attacking.attack  # type: ignore[has-type]  # mypy has not come to it yet; pyright knows it
    release = releasing.release

    @property
    def card(self) -> AnyCard:
        """The public facts of the data it imitates: a DataCard, or a TableCard."""
        card: AnyCard = self.job.card
        return card

    def save(self, path: str | Path) -> "Synthesizer[synthesizer.S_co]":
        """Copy its run with all private files, or its release, into a new folder, and return it from there.

        Raises:
            RunFolderError: if the folder is taken or cannot be written.
        """
        target = at_home(path).absolute()
        RunFolder(target).check_free()
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(
            dir=target.parent, prefix=f".{target.name}."
        ) as hidden:  # nobody else may look
            copy: Path = shutil.copytree(self.path, Path(hidden) / target.name)
            if not (copy / REPORT).exists():
                html.write_report(copy, internal=True)
            copy.replace(target)
        return type(self)(self.net, self.job, self.certificate, target)


def _public(run: Callable[P, synthesizer.Synthesizer]) -> Callable[P, Synthesizer]:
    """The function, with what Python programs get as its result."""

    @functools.wraps(run)
    def call(*args: P.args, **kwargs: P.kwargs) -> Synthesizer:
        made = run(*args, **kwargs)
        return Synthesizer(made.net, made.job, made.certificate, made.path)

    return call


resume = _public(resuming.resume)
"""See `run.training.resume.resume`."""


@overload
def fit(
    method: str | BaseConfig,
    *,
    data: Data,
    card: DataCard,
    out: str | Path | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    public: Data | float | None = None,
    **options: Any,
) -> Synthesizer[Samples]: ...
@overload
def fit(
    method: str | BaseConfig,
    *,
    data: Data,
    card: TableCard | TableDraft,
    out: str | Path | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    public: Data | float | None = None,
    **options: Any,
) -> Synthesizer[TableSamples]: ...
@overload
def fit(
    method: str | BaseConfig,
    *,
    data: Data,
    card: str | Path | None = None,
    out: str | Path | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    public: Data | float | None = None,
    **options: Any,
) -> Synthesizer: ...
@functools.wraps(training.fit)
def fit(*args: Any, **options: Any) -> Any:
    """See `run.training.fit.fit`."""
    return _public(training.fit)(*args, **options)
