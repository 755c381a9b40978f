"""NVIDIA FLARE as the messenger of a federation of few: docs/federated.md. It holds no record and no ledger.

The server asks with `Ask`. A client answers with `Answer`, which runs the command of its own site. The environment variable
GOSSAMER_ANSWER has that command, for example `sudo -u gossamer /srv/gossamer/answer`, so no job from the server can choose it.
"""

import os
import shlex
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nvflare.apis.client import Client
from nvflare.apis.controller_spec import ClientTask, Task
from nvflare.apis.executor import Executor
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.impl.controller import Controller
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.apis.signal import Signal

from gossamer.data.tables.any_card import load_card
from gossamer.run.federated.centre import ask
from gossamer.run.training.plan import plan


class Ask(Controller):
    """Trains at the server, as `gossamer federated ask` does. wait: seconds for the answers to a query."""

    def __init__(self, method: str, card: str, out: str, epsilon: float, delta: float, wait: int = 600) -> None:
        super().__init__()
        self.method, self.card, self.out = method, card, out
        self.epsilon, self.delta, self.wait = epsilon, delta, wait

    def control_flow(self, abort_signal: Signal, fl_ctx: FLContext) -> None:
        def send(questions: Mapping[str, str]) -> dict[str, str]:
            found: dict[str, str] = {}

            def received(client_task: ClientTask, fl_ctx: FLContext) -> None:
                del fl_ctx  # FLARE names it
                if (text := client_task.result.get("answer")) is not None:
                    found[client_task.client.name] = text

            task = Task(
                "answer", Shareable({"questions": dict(questions)}), timeout=self.wait, result_received_cb=received
            )
            names = list(questions)
            self.broadcast_and_wait(task, fl_ctx, names, min_responses=len(names), abort_signal=abort_signal)
            return found

        request = plan(self.method, load_card(self.card), epsilon=self.epsilon, delta=self.delta)
        ask(request, sites=[each.name for each in self._engine.get_clients()], out=self.out, send=send)

    def start_controller(self, fl_ctx: FLContext) -> None: ...
    def stop_controller(self, fl_ctx: FLContext) -> None: ...
    def process_result_of_unknown_task(self, client: Client, *_: Any) -> None: ...


class Answer(Executor):
    """Answers at a client, by the site's own command. A refusal says nothing: the command's reason stays on this machine."""

    def execute(self, task_name: str, shareable: Shareable, fl_ctx: FLContext, abort_signal: Signal) -> Shareable:
        del task_name, abort_signal
        name = fl_ctx.get_identity_name()
        with tempfile.TemporaryDirectory() as folder:
            question, answer = Path(folder) / "question.json", Path(folder) / "answer.json"
            question.write_text(shareable["questions"][name])
            command = [word.format(site=name) for word in shlex.split(os.environ["GOSSAMER_ANSWER"])]
            if subprocess.run([*command, question, "-o", answer], check=False).returncode:
                return make_reply(ReturnCode.EXECUTION_EXCEPTION)
            return Shareable({"answer": answer.read_text()})
