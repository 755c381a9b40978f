"""The last step: all runs, and what they have used."""

from collections.abc import Mapping
from typing import Any

from starlette.datastructures import QueryParams

from gossamer.run.budget import budget as spending
from gossamer.run.page.opened import DataSet, Opened
from gossamer.run.page.steps.protection import used


def show(data_set: DataSet, _query: QueryParams) -> Mapping[str, Any]:
    """The runs of the budget log. links: where the finished ones in the folder of the data set are judged, by their path."""
    links = {str(data_set.child(name)): f"/d/{data_set.id}/judge?run={name}" for name in data_set.finished()}
    return {"used": used(data_set), "links": links, "unfinished": data_set.unfinished()}


def discard(_opened: Opened, data_set: DataSet, form: QueryParams) -> str:
    """Delete an unfinished run."""
    spending.discard(data_set.child(form.get("run", "")))
    return "runs"
