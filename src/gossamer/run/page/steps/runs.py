"""The last step: all runs, and what they have used."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.datastructures import QueryParams

from gossamer.lazy import Lazy
from gossamer.run.page.opened import DataSet, Opened
from gossamer.run.page.steps.protection import used
from gossamer.run.page.steps.step import Step

if TYPE_CHECKING:
    from gossamer.run.budget import budget as spending
else:
    spending = Lazy("gossamer.run.budget.budget")


def show(data_set: DataSet, _query: QueryParams) -> Mapping[str, Any]:
    """The runs of the budget log, and those in the folder of the data set."""
    report = used(data_set)
    return {
        "used": report,
        "runs": [] if report is None else [_run(entry, data_set) for entry in report.to_json()["runs"]],
        "unfinished": data_set.unfinished(),
    }


def discard(_opened: Opened, data_set: DataSet, form: QueryParams) -> str:
    """Delete an unfinished run."""
    spending.discard(data_set.child(form.get("run", "")))
    return "runs"


def _run(entry: Mapping[str, Any], data_set: DataSet) -> dict[str, Any]:
    """A run of the budget log. here: its name, if it is in the folder of the data set."""
    place = Path(entry["folder"])
    own = place.parent == data_set.folder and place.is_dir()
    return {**entry, "here": place.name if own else "", "finished": own and place.name in data_set.finished()}


STEP = Step("runs", "Runs", show, {"discard": discard})
