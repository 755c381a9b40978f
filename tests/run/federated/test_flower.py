"""The server's side of the Flower app: names of SuperNodes, its grid, and its run config."""

import io
import subprocess
import tomllib
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest

pytest.importorskip("flwr", reason="the extra `federated` is not installed")

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.proto.node_pb2 import NodeInfo
from test_federated import CARD, NAMES, TINY, granting

from gossamer.errors import RequestError
from gossamer.run.cli.commands.federated import flower_app
from gossamer.run.cli.flower_app import serve
from gossamer.run.federated.flower import PART, FlowerGrid, message_to, read_sites

EXAMPLE = Path(__file__).parents[3] / "examples" / "flower"


class Site:
    """The key of a SuperNode."""

    def __init__(self, name: str) -> None:
        key = ec.generate_private_key(ec.SECP384R1()).public_key()
        self.pem = key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        self.line = f"{key.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()} {name}\n"


class FakeGrid:
    """Flower's grid before sites in memory. nodes: public key and node of each SuperNode that is online."""

    def __init__(self, sites: dict[bytes, Callable[[str], str]], nodes: list[tuple[bytes, int]]) -> None:
        self.run, self.nodes, self.sites = SimpleNamespace(run_id=77), nodes, sites
        self.sent: list[Message] = []
        self._replies: dict[str, Message] = {}

    def get_nodes(self) -> Iterable[NodeInfo]:
        return [NodeInfo(node_id=node, public_key=key) for key, node in self.nodes]

    def push_messages(self, given: Iterable[Message]) -> Iterable[str]:
        keys = {node: key for key, node in self.nodes}
        for message in given:
            text = str(message.content[PART][PART])
            reply = RecordDict({PART: ConfigRecord({PART: self.sites[keys[message.metadata.dst_node_id]](text)})})
            self._replies[message.metadata.message_id] = Message(reply, reply_to=message)
            self._replies[message.metadata.message_id].metadata.__dict__["_src_node_id"] = 1  # it may say what it likes
            self.sent.append(message)
            yield message.metadata.message_id

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        return [self._replies.pop(number) for number in message_ids if number in self._replies]


def test_sites_are_named_by_their_keys(tmp_path: Path) -> None:
    sites = [Site("hospital-a"), Site("St. Mary, ward 3")]
    (tmp_path / "sites.pub").write_text("\n".join(each.line for each in sites))
    assert read_sites(tmp_path / "sites.pub", most=2) == {sites[0].pem: "hospital-a", sites[1].pem: "St. Mary, ward 3"}


def test_a_key_of_ssh_keygen_is_read(tmp_path: Path) -> None:
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ecdsa", "-b", "384", "-N", "", "-C", "site-1", "-f", tmp_path / "site-1"], check=True
    )  # fmt: skip
    assert list(read_sites(tmp_path / "site-1.pub", most=1).values()) == ["site-1"]


@pytest.mark.parametrize(
    "why", ["no OpenSSH public key", "there twice", "there twice, by name", "names 2 sites", "read"]
)
def test_a_wrong_list_of_sites_is_refused(tmp_path: Path, why: str) -> None:
    one, other = Site("a"), Site("b")
    text = {
        "no OpenSSH public key": one.line.rpartition(" ")[0], "there twice": one.line + one.line.replace(" a", " c"),
        "there twice, by name": one.line + other.line.replace(" b", " a"), "names 2 sites": one.line + other.line,
    }.get(why)  # fmt: skip
    if text is not None:
        (tmp_path / "sites").write_text(text)
    with pytest.raises(RequestError, match=why.partition(",")[0]):
        read_sites(tmp_path / "sites", most=1)


def test_a_site_counts_once_and_a_stranger_not_at_all() -> None:
    """Under whatever nodes: a SuperNode that was registered again has another one."""
    a, b, stranger = (Site(name).pem for name in "abc")
    grid = FakeGrid({}, [(a, 5), (stranger, 6), (b, 7), (a, 9)])
    named = FlowerGrid(grid, {a: "a", b: "b"})  # type: ignore[arg-type]  # what a grid has to answer
    assert named.present() == {"a": 9, "b": 7}
    grid.nodes = [(b, 7)]
    assert named.present() == {"b": 7}
    assert not list(named.exchange({}))


def test_a_reply_belongs_to_the_site_that_was_asked() -> None:
    """Whatever its own metadata say; SuperLinks answer in place of SuperNodes that are gone, under their own node."""
    a, b = Site("a").pem, Site("b").pem
    grid: Any = FakeGrid({a: lambda _: "A", b: lambda _: "B"}, [(a, 5), (b, 7)])
    named = FlowerGrid(grid, {a: "a", b: "b"})
    named.present()
    assert dict(named.exchange({"a": "", "b": "", "gone since": ""})) == {"a": "A", "b": "B"}


def test_the_ids_of_messages_cannot_be_guessed() -> None:
    """Flower makes them from the content. Two sites may get the same content."""
    sent = [message_to(2, "round") for _ in range(2)]
    assert sent[0].metadata.group_id != sent[1].metadata.group_id
    assert all(len(each.metadata.group_id) == 32 for each in sent)


def config(tmp_path: Path, sites: list[Site], **changed: Any) -> dict[str, Any]:
    """A run config as Flower gives it: what the app declares, with a run's values."""
    CARD.save(tmp_path / "card.toml")
    (tmp_path / "sites.pub").write_text("".join(each.line for each in sites))
    declared = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["tool"]["flwr"]["app"]["config"]
    return {
        **declared, "sites": str(tmp_path / "sites.pub"), "card": str(tmp_path / "card.toml"), "out": str(tmp_path / "run"),
        "delta": 1e-3, "accounts": str(tmp_path / "book"), "wait": 1.0,
        **{name.replace("_", "-"): value for name, value in TINY.items()}, **changed,
    }  # fmt: skip


def test_the_app_declares_every_flag() -> None:
    """Flower refuses a key that the app does not declare."""
    declared = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["tool"]["flwr"]["app"]["config"]
    of_method = flower_app.get_command(click.Context(flower_app), "gs-wgan")
    assert of_method is not None
    flags = {option.opts[-1].removeprefix("--"): option for option in of_method.params}
    assert set(declared) == {*flags, "method"}
    for name, value in declared.items() - {("method", "")}:
        assert value in ("", False) or value == flags[name].default, name


@pytest.mark.filterwarnings("ignore:GitWildMatchPattern:DeprecationWarning")  # of pathspec, which flwr calls
def test_the_app_becomes_a_bundle_of_its_own_files() -> None:
    from flwr.cli.build import build_fab_from_disk
    from flwr.common.config import get_fab_config

    bundle = build_fab_from_disk(EXAMPLE)
    names = set(zipfile.ZipFile(io.BytesIO(bundle)).namelist())
    assert {name for name in names if name.endswith(".py")} == {
        f"gossamer_flower/{name}.py" for name in ("__init__", "client_app", "server_app")
    }
    assert get_fab_config(bundle)["project"]["name"] == "gossamer-flower"


def test_a_run_by_its_run_config(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sites = [Site(name) for name in NAMES]
    nodes = [(each.pem, number) for number, each in enumerate(sites, start=100)]
    grid = FakeGrid({each.pem: granting for each in sites}, nodes)
    serve(grid, config(tmp_path, sites))
    assert "replace-one client" in capsys.readouterr().out
    assert (tmp_path / "run" / "certificate.json").exists()
    assert {each.metadata.run_id for each in grid.sent} == {77}
    assert {each.metadata.ttl for each in grid.sent} == {60.0}
    serve(grid, config(tmp_path, sites))
    assert "is finished and uses no more epsilon" in capsys.readouterr().err


def test_an_error_is_one_paragraph(tmp_path: Path) -> None:
    sites = [Site(name) for name in NAMES]
    grid = FakeGrid({}, [])
    with pytest.raises(RuntimeError, match=r"^gossamer: only 0 of the 4 clients .* start the server again\.$"):
        serve(grid, config(tmp_path, sites, wait=0.1))
    with pytest.raises(RuntimeError, match=r"^gossamer: .*'--steps'.*'many'"):
        serve(grid, config(tmp_path, sites, steps="many"))
