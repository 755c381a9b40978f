"""The page: its addresses, and what answers them. It keeps no state: each answer is made from the files that are there now."""

import asyncio
import functools
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, TypeAlias

from jinja2 import Environment, PackageLoader, PrefixLoader, StrictUndefined
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from gossamer.errors import GossamerError, RequestError
from gossamer.lazy import Lazy
from gossamer.run.page import steps
from gossamer.run.page.jobs import FIT, PageJob
from gossamer.run.page.opened import DataSet, Form, Opened, inside
from gossamer.run.page.steps.step import Step, chosen
from gossamer.run.words import plain

STEPS = {
    step.name: step
    for step in (
        Step("data", "Your records", ("divide", "look")), Step("facts", "What may everybody know?", ("declare",)),
        Step("protection", "How strong is the protection?", ("limit",)), Step("method", "Which method?"),
        Step("train", "Train", ("start", "resume")), Step("judge", "How good are the samples?", ("measure", "attack")),
        Step("release", "Make a release", ("make", "sign")), Step("runs", "All runs", ("discard",)),
    )
}  # fmt: skip
_SOON, _STYLED = 0.3, 0.2
"""Seconds in which a whole page comes as one; and seconds for the style sheets, before modules are loaded that hold all up."""
_HEADED, _WAITING = "</h1>", '<p class="waiting" role="status">Gossamer looks at these records: {} s</p>'
"""What a step finds comes after the heading. Of these lines, a browser shows the last, and only while nothing follows."""
promise: Any = Lazy("gossamer.run.report.promise")
_Answer: TypeAlias = Callable[[Opened, Request, Form], Response]
_REPORT = "report.html"
_SHOWN = {"samples.png": "image/png", "samples.csv": "text/csv", "samples.zip": "application/zip", _REPORT: "text/html"}
"""The files of a run or a release that the page shows."""
_REPORT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'"
"""A report holds its style sheet and its pictures, and no script."""
_RUN = Path(__file__).parents[1]


def application(opened: Opened) -> Starlette:
    """Return the page. opened: the list of data sets."""

    def bound(answer: _Answer) -> Callable[[Request], Awaitable[Response]]:
        return functools.partial(_answered, answer, opened)

    return Starlette(
        routes=[
            Route("/", bound(_start), methods=["GET"]),
            Route("/open", bound(_open), methods=["POST"]),
            Route("/browse", bound(_start), methods=["POST"]),
            Route("/hide", bound(_hide), methods=["POST"]),
            Route("/static/report.css", lambda _: FileResponse(_RUN / "report/report.css"), methods=["GET"]),
            Mount("/static", StaticFiles(directory=_RUN / "page/static")),
            Route("/d/{id}/progress", bound(_progress), methods=["GET"]),
            Route("/d/{id}/stop", bound(_stop), methods=["POST"]),
            Route("/d/{id}/file/{folder}/{name}", bound(_file), methods=["GET"]),
            Route("/d/{id}/{step}", functools.partial(_stepped, opened), methods=["GET"]),
            Route("/d/{id}/{step}/{action}", bound(_act), methods=["GET", "POST"]),
        ]
    )


async def _answered(answer: _Answer, opened: Opened, request: Request, after: float = 0) -> Response:
    """Answer a request in a thread, after so many seconds. An error becomes a page.

    The page has no traceback, which could hold a private value.
    """
    await asyncio.sleep(after)
    form = Form(await request.body()) if request.method == "POST" else request.query_params
    try:
        return await run_in_threadpool(answer, opened, request, form)
    except GossamerError as error:
        return _page(
            "error.html",
            status=404 if isinstance(error, RequestError) else 500,
            error=plain(str(error)),
            opened=opened.all(),
        )
    except Exception as error:  # its message could hold a value read from a record
        text = f"Unexpected {type(error).__name__}. Do this step on the command line: --debug shows where it fails."
        return _page("error.html", status=500, error=text, opened=opened.all())


def _start(opened: Opened, _request: Request, form: Form, *, error: str = "") -> Response:
    """The first page. form: of a refused path; or `browse`, the folder whose names are listed. No address has a path."""
    known = [data_set for data_set in reversed(opened.all()) if not data_set.hidden]
    try:
        listed = inside(form.get("browse", "."))
    except GossamerError as failed:
        listed, error = inside("."), str(failed)
    return _page("start.html", status=400 if error else 200, opened=known, error=error, given=form, listed=listed)


def _hide(opened: Opened, _request: Request, form: Form) -> Response:
    """Take a data set off the list."""
    opened.change(form.get("id", ""), {"hidden": "yes"})
    return RedirectResponse("/", status_code=303)


def _open(opened: Opened, request: Request, form: Form) -> Response:
    try:
        data_set = opened.open(form.get("data", ""), form.get("folder", ""))
    except GossamerError as error:
        return _start(opened, request, form, error=plain(str(error)))
    return RedirectResponse(f"/d/{data_set.id}/data", status_code=303)


async def _stepped(opened: Opened, request: Request) -> Response:
    """The page of a step. Where it takes long, its heading comes at once, and the rest when it is there."""
    heading = await _answered(_heading, opened, request)
    if heading.status_code != 200:
        return heading
    loaded = hasattr(steps, request.path_params["step"])
    work = asyncio.ensure_future(_answered(_step, opened, request, 0 if loaded else _STYLED))
    if (await asyncio.wait({work}, timeout=_SOON if loaded else 0))[0]:
        return work.result()

    async def in_parts() -> AsyncIterator[str]:
        yield bytes(heading.body).decode()
        for seconds in itertools.count(1):
            if (await asyncio.wait({work}, timeout=1))[0]:
                yield bytes(work.result().body).decode().partition(_HEADED)[2]
                return
            yield _WAITING.format(seconds)

    return StreamingResponse(in_parts(), media_type="text/html")


def _heading(opened: Opened, request: Request, query: Form) -> Response:
    """The beginning of the page of a step, which needs no records."""
    data_set, step = _asked(opened, request)
    done = _done(data_set, step, query, data_set.jobs.last())
    page = _page("base.html", data_set=data_set, steps=STEPS.values(), step=step, done=done, chosen=chosen(query))
    return HTMLResponse(bytes(page.body).decode().partition(_HEADED)[0] + _HEADED + _WAITING.format(0))


def _step(opened: Opened, request: Request, query: Form) -> Response:
    data_set, step = _asked(opened, request)
    return _shown(data_set, step, query)


def _act(opened: Opened, request: Request, form: Form) -> Response:
    data_set, step = _asked(opened, request)
    action, where = request.path_params["action"], step.name
    try:
        if action not in step.actions:
            raise RequestError("This step has no such action.")
        if request.method == "POST":  # else the address of a refused form is loaded again
            where = getattr(step.module, action)(opened, data_set, form)
    except GossamerError as error:
        return _shown(data_set, step, form, error)
    return RedirectResponse(f"/d/{data_set.id}/{where}", status_code=303)


def _stop(opened: Opened, request: Request, form: Form) -> Response:
    """Stop the job, and show the step again that asked for it."""
    data_set = opened.get(request.path_params["id"])
    data_set.jobs.stop()
    step = form.get("step", "")
    return RedirectResponse(f"/d/{data_set.id}/{step if step in STEPS else 'runs'}", status_code=303)


def _progress(opened: Opened, request: Request, _query: Form) -> Response:
    """The part of a page that changes while a job runs; status 204: it has ended."""
    data_set = opened.get(request.path_params["id"])
    job = data_set.jobs.running()
    if job is None:
        return Response(status_code=204)
    return HTMLResponse(_environment().get_template("page/progress.html").render(job=job))


def _file(opened: Opened, request: Request, _query: Form) -> Response:
    """The samples or the report of a run or a release; or a release as a .zip. A run lists no files, so it has none."""
    folder = opened.get(request.path_params["id"]).child(request.path_params["folder"])
    name = request.path_params["name"]
    path = folder / name
    if name == f"{folder.name}.zip":
        return Response(STEPS["release"].module.zipped(folder), media_type=_SHOWN["samples.zip"])
    if name not in _SHOWN or not path.is_file() or path.resolve().parent != folder.resolve():
        raise RequestError("There is no such file in this folder.")
    headers = {"content-security-policy": _REPORT_POLICY} if name == _REPORT else {}
    return FileResponse(path, media_type=_SHOWN[name], headers=headers)


def _asked(opened: Opened, request: Request) -> tuple[DataSet, Step]:
    step = STEPS.get(request.path_params["step"])
    if step is None:
        raise RequestError("The page has no such step.")
    return opened.get(request.path_params["id"]), step


def _shown(data_set: DataSet, step: Step, query: Form, refused: GossamerError | None = None) -> Response:
    """The page of a step. query: of its address, or the form that was refused."""
    given, error, problems = (
        (query, plain(str(refused)), getattr(refused, "problems", {})) if refused else (Form(), "", {})
    )
    try:
        content = step.module.show(data_set, query)
    except GossamerError as failed:
        query, error = Form(), error or str(failed)
        content = step.module.show(data_set, query)
    job = data_set.jobs.last()
    return _page(
        f"{step.name}.html", status=400 if error else 200, data_set=data_set, steps=STEPS.values(), step=step, job=job,
        done=_done(data_set, step, query, job), running=job is not None and job.running, error=error, given=given,
        problems=problems, chosen=chosen(query), **content,
    )  # fmt: skip


def _done(data_set: DataSet, step: Step, query: Form, job: PageJob | None) -> set[str]:
    """The steps that have left a file, or a choice: in a run, or in the address of the step that is shown."""
    finished = [data_set.run(name) for name in data_set.finished()]
    begun = bool(finished or data_set.unfinished() or (job is not None and job.running and job.name == FIT))
    compared = step.name == "protection"  # its address has what the user compares, and no choice
    left = {
        "data": data_set.draft.is_file(),
        "facts": data_set.card.is_file(),
        "protection": begun or ("epsilon" in query and not compared),
        "method": begun or "method" in query,
        "train": bool(finished),
        "judge": any(run.metrics() or run.attacked for run in finished),
        "release": bool(data_set.releases()),
    }
    return {name for name, there in left.items() if there}


def _page(template: str, *, status: int = 200, **content: Any) -> Response:
    return HTMLResponse(_environment().get_template(f"page/{template}").render(content), status_code=status)


@functools.cache
def _environment() -> Environment:
    """The templates of the page, and those that it shares with the report."""
    environment = Environment(
        loader=PrefixLoader({
            "page": PackageLoader("gossamer.run.page", "templates"), "report": PackageLoader("gossamer.run.report", "."),
        }),
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.filters["up"] = lambda value: promise.up(value, digits=3)
    environment.filters["plain"] = plain
    environment.filters["pairs"] = lambda texts: [(str(text), str(text)) for text in texts]
    return environment
