"""The last step: all runs, and what they have used."""

from gossamer.run.budget import budget as spending
from gossamer.run.page.opened import Content, DataSet, Form, Opened
from gossamer.run.page.steps.protection import used
from gossamer.run.page.steps.release import verdict_of
from gossamer.run.storage import run_folder


def show(data_set: DataSet, _query: Form) -> Content:
    """The runs of the budget log. links: where the finished ones in the folder of the data set are judged, by their path."""
    links = {str(data_set.child(name)): f"/d/{data_set.id}/judge?run={name}" for name in data_set.finished()}
    signed = [path.name for path in data_set.releases() if (path / run_folder.SIGNATURE).is_file()][-1:]
    checked = [(name, verdict_of(data_set, name)) for name in signed]
    return {"used": used(data_set), "links": links, "unfinished": data_set.unfinished(), "checked": checked}


def discard(_opened: Opened, data_set: DataSet, form: Form) -> str:
    """Delete an unfinished run."""
    spending.discard(data_set.child(form.get("run", "")))
    return "runs"
