"""NVIDIA FLARE as the messenger of a federation of few: docs/federated.md. It holds no record and no ledger.

The server asks with `Ask`. A client answers with `Answer`, which runs the command of its own site. The environment variable
GOSSAMER_ANSWER has that command, for example `sudo -u gossamer /srv/gossamer/answer`, so no job from the server can choose it.
"""

import os
import shlex
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
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
from gossamer.run.federated.network import Network
from gossamer.run.federated.questions import refusal
from gossamer.run.training.plan import plan


class Ask(Controller):
    """Trains at the server, as `gossamer federated ask` does. wait: seconds for the answers to a query."""

    def __init__(self, method: str, card: str, out: str, epsilon: float, delta: float, wait: int = 600) -> None:
        super().__init__()
        self.method, self.card, self.out = method, card, out
        self.epsilon, self.delta, self.wait = epsilon, delta, wait

    def control_flow(self, abort_signal: Signal, fl_ctx: FLContext) -> None:
        network = Flare(self, [each.name for each in self._engine.get_clients()], abort_signal, fl_ctx)
        network.wait = network.reply_timeout = self.wait
        request = plan(self.method, load_card(self.card), epsilon=self.epsilon, delta=self.delta)
        ask(request, sites=network.names, out=self.out, network=network)

    def start_controller(self, fl_ctx: FLContext) -> None: ...
    def stop_controller(self, fl_ctx: FLContext) -> None: ...
    def process_result_of_unknown_task(self, client: Client, *_: Any) -> None: ...


class Flare(Network):
    """Brings questions to the clients of FLARE."""

    def __init__(self, controller: Ask, names: list[str], abort_signal: Signal, fl_ctx: FLContext) -> None:
        self.controller, self.names, self.abort_signal, self.fl_ctx = controller, names, abort_signal, fl_ctx

    def present(self) -> list[str]:
        return self.names

    def exchange(self, texts: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        found: dict[str, str] = {}

        def received(client_task: ClientTask, fl_ctx: FLContext) -> None:
            del fl_ctx  # FLARE names it
            found[client_task.client.name] = client_task.result.get("answer") or refusal("its command has failed")

        task = Task(
            "answer", Shareable({"questions": dict(texts)}), timeout=int(self.wait), result_received_cb=received
        )
        self.controller.broadcast_and_wait(
            task, self.fl_ctx, [*texts], min_responses=len(texts), abort_signal=self.abort_signal
        )
        yield from found.items()


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
