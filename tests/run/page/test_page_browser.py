"""The page in a real browser: the whole way, Ctrl-C in training, two tabs, and what is refused.

It needs Playwright (`pip install playwright`) and a Chromium on PATH. With AXE_CORE, the path of axe.min.js of the npm package
axe-core, each step is checked for accessibility. `python tests/run/page/test_page_browser.py DATA [UNITS]` goes the same way
with other records, and writes a picture of each step beside them.
"""

import contextlib
import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "fixtures"))
from chromium import CHROMIUM, LOOKS, QUIET

playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
pytestmark = LOOKS

ROWS = ["patient,sex,age,ill"] + [
    f"P{n // 2},{'fm'[n % 2]},{20 + n % 50},{'yes' if n % 3 else 'no'}" for n in range(600)
]
LONG = 600_000
"""Milliseconds that a step may take on a busy machine."""
SERIOUS = ("serious", "critical")
SIZES = {"wide": {"width": 1200, "height": 900}, "narrow": {"width": 390, "height": 844}}


class Server:
    """`gossamer page` in a process of its own."""

    def __init__(self, folder, *words):
        self._folder, self._words = folder, words
        self.address = ""

    def __enter__(self):
        environment = {**os.environ, "XDG_STATE_HOME": str(self._folder / "state"), "OMP_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "gossamer", "page", *self._words], stderr=subprocess.PIPE, text=True, cwd=self._folder,
            env=environment, start_new_session=True,
        )  # fmt: skip
        first = self._process.stderr.readline()
        found = re.search(r"(http://gossamer-[0-9a-f]{16}\.localhost:(\d+))/\S+", first)
        assert found, first
        self.address, self.own, self.port = found[0], found[1], int(found[2])
        return self

    def of(self, name):
        """The address of the data set of this name."""
        opened = json.loads((self._folder / "state" / "gossamer" / "page.json").read_text())
        return f"{self.own}/d/{next(each['id'] for each in opened if Path(each['data']).name == name)}"

    def interrupt(self):
        """Send what Ctrl-C sends, and return what the page says at its end."""
        os.killpg(self._process.pid, signal.SIGINT)
        _, said = self._process.communicate(timeout=60)
        assert self._process.returncode == 0
        return said

    def __exit__(self, *error):
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._process.stderr.close()


class Walk:
    """Goes through the steps in a browser.

    Args:
        page: of Playwright.
        shots: folder for pictures of each step; None: none are made.
    """

    def __init__(self, page, shots=None):
        self.page, self._shots, self._count = page, shots, 0
        page.set_default_timeout(LONG)
        self.problems = []
        page.on(
            "console", lambda said: self.problems.append((said.text, said.location)) if said.type == "error" else None
        )
        page.on("pageerror", lambda error: self.problems.append(str(error)))

    def enter(self, server, sees="Choose records"):
        """Open the address that the server printed."""
        self.page.goto(server.address)
        self.see(sees)

    def press(self, name):
        self.page.get_by_role("button", name=name, exact=True).click()

    def follow(self, name):
        self.page.get_by_role("link", name=name).click()

    def see(self, text):
        self.page.get_by_text(text).first.wait_for()

    def look(self, name):
        """Check the step at both widths: nothing beyond the edge, nothing serious for axe-core; and take its picture."""
        self.page.wait_for_load_state()  # the heading comes first
        for size, viewport in SIZES.items():
            self.page.set_viewport_size(viewport)
            width = self.page.evaluate("document.documentElement.scrollWidth")
            assert width <= viewport["width"], f"{name} scrolls sideways at {viewport['width']}"
            if self._shots is not None:
                self.page.screenshot(path=self._shots / f"{self._count:02}-{name}-{size}.png", full_page=True)
        self._count += 1
        self.page.set_viewport_size(SIZES["wide"])
        if axe := os.environ.get("AXE_CORE"):
            for scheme in ("dark", "light"):
                self.page.emulate_media(color_scheme=scheme)
                self.page.evaluate(Path(axe).read_text(encoding="utf-8"))
                found = self.page.evaluate("axe.run().then(found => found.violations)")
                bad = [
                    (rule["id"], [node["html"] for node in rule["nodes"]][:3])
                    for rule in found
                    if rule["impact"] in SERIOUS
                ]
                assert bad == [], (name, scheme)

    def open(self, data):
        """Choose records from the list of names; the list begins where the page was started."""
        self.look("start")
        if data == "digits":
            self.press("Try the page with built-in digits")
        elif Path(data).is_dir():
            self.press(f"{Path(data).name}/")
            self.press("Open this folder")
        else:
            self.press(Path(data).name)
        self.see("Your records")

    def examine(self, *, units="", divide):
        """Divide the records and look at them. units: a column, or where the persons of pictures are found."""
        self.look("data")
        if divide:
            field = self.page.locator('[name="units"]')
            if units and field.evaluate("field => field.tagName") == "SELECT":
                field.select_option(units)
            elif units:
                field.fill(units)
            self.press("Divide the records")
            self.see("The records are divided.")
        self.press("Look at the records")
        self.see("Private: only you see these records.")
        self.look("looked")
        self.follow("Next: declare the public facts")

    def declare(self, title, facts, how="Declare these facts public"):
        """Declare the facts by name. What was measured is accepted box by box. Folded columns are opened by keyboard."""
        self.page.get_by_label("What is the data set called?").fill(title)
        self.page.get_by_label("Under which name are all runs on these people added up?").fill(title.lower())
        self.look("facts")
        for name, value in facts.items():
            field = self.page.locator(f'[name="{name}"]')
            column = self.page.locator("details.column", has=field)
            if column.count() and column.get_attribute("open") is None:
                column.locator("summary").press("Enter")
            if value is True:
                if column.get_by_text("Some values are missing").count():
                    self.page.locator(f'[name="{name.removeprefix("accept.")}.missing"]').check()
                field.check()
            elif field.evaluate("field => field.tagName") == "SELECT":
                field.select_option(value)
            else:
                field.fill(value)
        self.press(how)
        self.see("Choose epsilon for one run")

    def choose(self, epsilon, method=""):
        """Choose epsilon, and a method where there is a choice."""
        self.page.get_by_label(f"epsilon {epsilon}", exact=True).check()
        self.look("protection")
        self.press("Next: choose a method")
        self.see("Which method?")
        if method:
            self.page.get_by_label(method, exact=True).check()
        self.look("method")
        self.press("Next: train")
        self.see("Start a run")
        self.look("train")

    def train(self):
        self.press("Train")
        self.see("is finished")
        self.look("trained")
        self.follow("Next: judge the samples")

    def judge(self, *, measure, attack, sees="Measure again"):
        if measure:
            self.press("Measure the samples")
            self.page.get_by_role("button", name="Measure again").wait_for()
            self.see(sees)
        if attack:
            self.press("Attack this run")
            again = self.page.get_by_role("button", name="Attack again")
            again.or_(self.page.get_by_text("are too few")).first.wait_for()
        self.look("judge")
        self.follow("Next: make a release")

    def release(self, into, samples="100"):
        """Declare, make, sign and download a release into a folder."""
        self.page.get_by_label("Who makes this release?").fill("The data office of Example Hospital")
        self.page.get_by_label("How were the settings chosen?").select_option("before")
        self.page.get_by_label("How many synthetic records").fill(samples)
        self.look("declare")
        self.press("Make the release")
        self.see("The page for recipients, README.md")
        self.press("Sign this release")
        self.see("Signed and verified.")
        self.look("release")
        with self.page.expect_download() as loading:
            self.follow("Download release-1.zip")
        loading.value.save_as(into / "release-1.zip")
        shutil.unpack_archive(into / "release-1.zip", into)
        self.follow("See all runs")
        self.see("is signed and verified.")
        self.look("runs")


PICTURES = {f"accept.{name}": True for name in ("declared_size", "classes", "class_names", "shape")}
TABLE = {
    "accept.declared_size": True, "unit": "patient", "label": "ill", "column.0.values": "f | m", "column.1.low": "0",
    "column.1.high": "120", "accept.column.2": True,
}  # fmt: skip


@contextlib.contextmanager
def browser():
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=CHROMIUM, args=[*QUIET])
        yield opened
        opened.close()


def verified(folder):
    """Whether `gossamer verify` accepts a release that was downloaded into a folder, by the key of the user."""
    public = folder.parent / "state" / "gossamer" / "signing-key.pem.pub"
    words = [sys.executable, "-m", "gossamer", "verify", str(folder / "release-1"), "--key", str(public)]
    return subprocess.run(words, capture_output=True, check=False).returncode == 0


def status(server, path, method="GET", **headers):
    """The status of a request that a program sends, with any Host, Origin and cookie."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
    for name, value in {"host": server.own.removeprefix("http://"), **headers}.items():
        connection.putheader(name, value)
    connection.endheaders()
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer.status


def test_the_whole_way_with_digits_and_with_a_table(tmp_path):
    (tmp_path / "clinic.csv").write_text("\n".join(ROWS) + "\n")
    with Server(tmp_path) as server, browser() as opened:
        context = opened.new_context(viewport=SIZES["wide"])
        walk = Walk(context.new_page())
        walk.enter(server)
        walk.open("digits")
        walk.examine(divide=False)
        walk.declare("Digits", PICTURES)
        walk.choose(3)
        walk.train()
        walk.judge(measure=False, attack=True)
        walk.release(tmp_path / "handed-out")
        assert verified(tmp_path / "handed-out")
        walk.page.goto(f"{server.own}/")
        walk.open(str(tmp_path / "clinic.csv"))
        walk.examine(units="patient", divide=True)
        walk.declare("Clinic", TABLE)
        walk.choose(3)
        walk.train()
        walk.judge(measure=True, attack=True, sees="After learning from real records it gets")
        walk.release(tmp_path / "handed-out-too")
        assert verified(tmp_path / "handed-out-too")
        assert walk.problems == [], "the policy stopped nothing"
        assert "The page has ended." in server.interrupt()


def test_ctrl_c_two_tabs_and_what_is_refused(tmp_path):
    with browser() as opened:
        context = opened.new_context(viewport=SIZES["wide"])
        walk = Walk(context.new_page())
        with Server(tmp_path, "digits") as server:
            stale = server.address
            walk.enter(server, "Your records")
            walk.examine(divide=False)
            walk.declare("Digits", PICTURES)
            walk.choose(10, "dpgan")
            walk.press("Train")
            walk.page.locator("progress[max]").wait_for()
            walk.look("training")
            other = Walk(context.new_page())
            other.page.goto(f"{server.of('digits')}/train?method=moments&epsilon=1&delta=1e-05")
            other.page.locator("progress").wait_for()
            assert other.page.get_by_role("button", name="Train").count() == 0, "one run at a time"
            refusals(server, stale, context, tmp_path)
            said = server.interrupt()
            assert "`gossamer fit` goes on for digits." in said
            walk.see("The page has ended in the terminal, and the job goes on.")
        with Server(tmp_path) as server:
            assert status(server, f"/start{stale.partition('/start')[2]}") == 403
            walk.enter(server)
            walk.follow("digits")
            walk.follow("Train")
            walk.page.locator("progress[max]").wait_for()
            walk.press("Stop")
            walk.see("Runs that were stopped")
            walk.page.get_by_role("button", name="Resume run-1").click()
            walk.page.locator("progress").wait_for()
            time.sleep(1)
            walk.press("Stop")
            walk.see("Runs that were stopped")
            walk.follow("Runs")
            walk.page.get_by_role("button", name="Delete run-1").click()
            walk.see("given up")
            assert not (tmp_path / "digits-gossamer" / "run-1").exists()


def refusals(server, stale, context, tmp_path):
    """What is refused although the browser has the cookie."""
    (cookie,) = context.cookies()
    assert (cookie["sameSite"], cookie["httpOnly"]) == ("Strict", True)
    held = {"cookie": f"{cookie['name']}={cookie['value']}"}
    own, ours = server.own, server.of("digits").removeprefix(server.own)
    assert status(server, "/", **held) == 200
    assert status(server, f"{ours}/data", **held) == 200
    assert status(server, "/d/1/data", **held) == 404, "addresses have no numbers"
    assert status(server, "/") == 403
    assert status(server, f"/start{stale.partition('/start')[2]}") == 403, "a stale token"
    for host in (f"localhost:{server.port}", f"127.0.0.1:{server.port}", "evil.example"):
        assert status(server, "/", host=host, **held) == 403
    assert status(server, f"{ours}/stop", "POST", origin="http://evil.example", **held) == 403
    assert status(server, f"{ours}/stop", "POST", **held) == 403
    assert status(server, f"{ours}/file/jobs/fit.jsonl", origin=own, **held) == 404
    assert status(server, f"{ours}/file/..%2Fstate/page.json", origin=own, **held) == 404
    outside = tmp_path / "outside"
    outside.mkdir(exist_ok=True)
    (outside / "samples.png").write_text("x")
    (tmp_path / "digits-gossamer" / "run-7").symlink_to(outside)
    assert status(server, f"{ours}/file/run-7/samples.png", origin=own, **held) == 404, (
        "outside of what the user opened"
    )
    (tmp_path / "digits-gossamer" / "run-7").unlink()


if __name__ == "__main__":
    data, units = Path(sys.argv[1]).resolve(), sys.argv[2] if len(sys.argv) > 2 else ""
    pictures = data.with_name(f"steps-{data.stem}")
    pictures.mkdir(exist_ok=True)
    with Server(data.parent) as running, browser() as chromium:
        way = Walk(chromium.new_page(viewport=SIZES["wide"]), pictures)
        way.enter(running)
        way.open(str(data))
        way.examine(units=units, divide=True)
        facts = {"unit": "patient"} if units else {}
        for field in way.page.locator('select[name$="label"]').all():
            facts[field.get_attribute("name")] = field.locator("option").last.get_attribute("value")
        way.declare(data.stem, facts, "Use all measured values, I declare that they may be public")
        way.choose(3)
        way.train()
        way.judge(measure=True, attack=True)
        way.release(data.parent / "handed-out", "1000")
        assert verified(data.parent / "handed-out"), "the archive does not verify"
