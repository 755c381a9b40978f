"""A federation of few on loopback, by Flower's own processes: `python benchmarks/federated.py few --out FOLDER`.

Adult in five unequal parts of other ages, `marginals` at epsilon 1 for each. In the second run, one records service is killed
(-9) and started again, and the last site is gone for good after its first answer. A false messenger before the service of the
fourth cuts answers.
"""

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

from benchmarks.few import adult_parts, quality
from flower_deployment import ROOT, Deployment, liar, until
from gossamer.methods.synthesizer import Synthesizer
from gossamer.run.release.verify import verify

COUNT, EPSILON, DELTA = 5, 1.0, 1e-5


def half_an_answer(reply: str) -> str:
    """Cut the text of an answer."""
    return reply[: len(reply) // 2]


def few(out: Path) -> None:
    """One run without faults, and one with. Prints a JSON object for each."""
    out = out.resolve()
    (data := out.with_name(f"{out.name}-data")).mkdir()
    card, files = adult_parts(data, COUNT)
    all_of = Deployment(
        out, card=card, data={f"site-{number}": file for number, file in enumerate(files)}, limits=(EPSILON, DELTA)
    )
    try:
        all_of.count_bytes()
        all_of.superlink()
        for name in all_of.names:
            all_of.supernode(name)
        print(json.dumps({"run": "whole", **whole(all_of)}), flush=True)
        print(json.dumps({"run": "faults", **faults(all_of)}), flush=True)
    finally:
        all_of.close()


def whole(all_of: Deployment) -> dict[str, Any]:
    """No faults: quality, seconds and bytes."""
    for name in all_of.names:
        all_of.service("whole", name, repeats=False)
    began, before = time.monotonic(), sum(all_of.bytes)
    all_of.run("whole", {"method": "marginals", "epsilon": EPSILON}, ROOT / "examples" / "flower")
    status = all_of.popen["run-whole"].wait(1500)
    found = {"status": status, "seconds": round(time.monotonic() - began), "bytes": sum(all_of.bytes) - before}
    return {**found, **result(all_of, "whole")}


def faults(all_of: Deployment) -> dict[str, Any]:
    """One service is killed and started again, one site is gone for good, and one messenger cuts answers."""
    killed, cut, gone = all_of.names[1], all_of.names[3], all_of.names[4]
    for name in all_of.names:
        all_of.service("faults", name, repeats=False, at=f"{cut}-true" if name == cut else "")
    all_of.lie(cut, lambda near, far: liar(near, far, half_an_answer))
    settings = {"method": "marginals", "epsilon": EPSILON, "wait": 60.0, "reply-timeout": 20.0}
    all_of.run("faults", settings, ROOT / "examples" / "flower")
    first = all_of.out / "faults" / "server" / "checkpoint" / "exchange" / f"answer-0-{gone}.json"
    until(first.exists, "the first answers are there")
    for name in (killed, gone):
        os.kill(all_of.services[name], signal.SIGKILL)
        os.waitpid(all_of.services.pop(name), 0)
    time.sleep(5)
    all_of.service("faults", killed, repeats=False)
    status = all_of.popen["run-faults"].wait(1500)
    return {"status": status, **result(all_of, "faults")}


def result(all_of: Deployment, run: str) -> dict[str, Any]:
    """What the release says, and whether all folders verify that have a certificate."""
    server = all_of.out / run / "server"
    until(lambda: (server / "certificate.json").exists(), "the release is there", 60)
    finished = [name for name in ("server", *all_of.names) if (all_of.out / run / name / "certificate.json").exists()]
    synthesizer = Synthesizer.load(server)
    all_of.stop_services()
    return {
        "verify": {name: verify(all_of.out / run / name).ok for name in finished},
        "says": synthesizer.certificate.statement.partition("Answers that count here: ")[2],
        **quality("adult", synthesizer),
    }
