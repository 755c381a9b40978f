"""Server and clients as separate processes: Flower's messages over one gRPC stream for each client, with TLS on both sides.

Each side shows a certificate that the federation's own authority has signed. The common name in a client's certificate is its
name. A client calls and keeps the stream open, so that the server notices at once when it is gone. docs/federated.md says why
Flower's SuperLink and SuperNode do not carry the messages.
"""

import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import grpc
from flwr.app import Error, Message
from flwr.clientapp import ClientApp

from gossamer.errors import RequestError
from gossamer.run.federated.grid import NamedGrid, context, from_bytes, to_bytes
from gossamer.run.federated.messages import SERVER_ID

_SERVICE, _CALL = "gossamer.Federation", "Attend"
_GONE = 1_001
"""Code of the error in place of the reply of a client whose stream has ended."""
_OPTIONS = [
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    ("grpc.use_local_subchannel_pool", 1),
]
"""The loss of a peer's machine is noticed after 20 seconds. Each call tries again, without back-off."""
_BACK_OFF = 1.0  # seconds between two calls of a client that was not answered


@dataclass(frozen=True)
class Identity:
    """The PEM files of a process: the federation's authority, its own certificate, signed by the authority, and its key."""

    ca: Path
    certificate: Path
    key: Path

    def read(self) -> tuple[bytes, bytes, bytes]:
        """The three. Raises RequestError."""
        try:
            return self.ca.read_bytes(), self.certificate.read_bytes(), self.key.read_bytes()
        except OSError as error:
            raise RequestError(f"{error.filename} cannot be read ({error.strerror}).") from None


class Link(NamedGrid):
    """The server's end: a grid of the clients that have called. A context manager: open inside.

    Args:
        address: HOST:PORT to listen on; port 0: any.
        identity: of the server.
        clients: how many may be there at once.
        largest: bytes of a message that a client may send.
    """

    def __init__(self, address: str, identity: Identity, *, clients: int, largest: int) -> None:
        self._lock = threading.Lock()
        self._streams: dict[str, tuple[int, queue.SimpleQueue[bytes | None]]] = {}
        self._waiting: dict[str, Message] = {}
        self._replies: dict[str, Message] = {}
        self._next_node = SERVER_ID + 1
        ca, certificate, key = identity.read()
        self._server = grpc.server(
            ThreadPoolExecutor(max_workers=clients + 4),
            options=[*_OPTIONS, ("grpc.max_receive_message_length", largest), ("grpc.so_reuseport", 0)],
        )
        attend = grpc.stream_stream_rpc_method_handler(self._attend)
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(_SERVICE, {_CALL: attend}),))
        secure = grpc.ssl_server_credentials([(key, certificate)], root_certificates=ca, require_client_auth=True)
        try:
            self.port = self._server.add_secure_port(address, secure)
        except RuntimeError:
            raise RequestError(f"--address {address} cannot be listened on, or the certificate is none.") from None

    def __enter__(self) -> "Link":
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            for _node, outgoing in self._streams.values():
                outgoing.put(None)
        self._server.stop(grace=1.0).wait()

    # ------------------------------------------------------------------ as a grid

    def present(self) -> dict[str, int]:
        """Clients with an open stream; a client that calls again has a new node."""
        with self._lock:
            return {name: node for name, (node, _) in self._streams.items()}

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        """Send; a message to a client that has gone is answered by an error at once."""
        numbers = []
        for message in messages:
            number, node = message.metadata.message_id, message.metadata.dst_node_id
            data = to_bytes(message)
            numbers.append(number)
            with self._lock:
                self._waiting[number] = message
                outgoing = next((stream for of, stream in self._streams.values() if of == node), None)
            if outgoing is None:
                self._give_up(node, "has gone")
            else:
                outgoing.put(data)
        return numbers

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        with self._lock:
            return [self._replies.pop(number) for number in set(message_ids) if number in self._replies]

    def forget(self, message_ids: Iterable[str]) -> None:
        with self._lock:
            for number in message_ids:
                self._waiting.pop(number, None)
                self._replies.pop(number, None)

    # ------------------------------------------------------------------ streams

    def _attend(self, incoming: Iterator[bytes], called: grpc.ServicerContext) -> Iterator[bytes]:
        """A client's stream, for as long as it is open. An older stream of the same name ends."""
        name = called.auth_context()["x509_common_name"][0].decode(errors="replace")
        outgoing: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        with self._lock:
            node, self._next_node = self._next_node, self._next_node + 1
            if name in self._streams:
                self._streams[name][1].put(None)
            self._streams[name] = node, outgoing
        called.add_callback(lambda: outgoing.put(None))
        threading.Thread(target=self._listen, args=(incoming, node, outgoing), daemon=True).start()
        try:
            while (data := outgoing.get()) is not None:
                yield data
        finally:
            with self._lock:
                if self._streams.get(name, (0,))[0] == node:
                    del self._streams[name]
            self._give_up(node, "has gone")

    def _listen(self, incoming: Iterator[bytes], node: int, outgoing: "queue.SimpleQueue[bytes | None]") -> None:
        """Take the replies of one client."""
        try:
            for data in incoming:
                self._take(from_bytes(data), node)
        except grpc.RpcError:
            pass  # it has gone
        except Exception:  # bytes that are no message raise any error of protobuf or Flower
            self._give_up(node, "sent what is no message")
        outgoing.put(None)

    def _take(self, answer: Message, node: int) -> None:
        """Keep a reply to a message that went to this node, and no other."""
        with self._lock:
            request = self._waiting.get(answer.metadata.reply_to_message_id)
            if request is None or request.metadata.dst_node_id != node:
                return
            content = answer.error if answer.has_error() else answer.content
            self._replies[request.metadata.message_id] = Message(content, reply_to=request)
            del self._waiting[request.metadata.message_id]

    def _give_up(self, node: int, why: str) -> None:
        """Answer with an error in place of a client."""
        with self._lock:
            for number, request in list(self._waiting.items()):
                if request.metadata.dst_node_id == node:
                    self._replies[number] = Message(Error(_GONE, why), reply_to=request)
                    del self._waiting[number]


def attend(
    app: ClientApp,
    address: str,
    identity: Identity,
    *,
    until: Callable[[], bool],
    wait: float,
    log: Callable[[str], None],
) -> None:
    """A client's end: call the server, answer what comes, and call again when the stream breaks.

    Args:
        app: answers.
        address: HOST:PORT of the server; its certificate has to be for that host.
        identity: of this client.
        until: whether that was the last answer.
        wait: seconds for which a server that cannot be reached is called again.
        log: shows a note on the terminal.

    Raises:
        RequestError: if no server can be reached for so long, or it does not show or take a certificate.
    """
    ca, certificate, key = identity.read()
    secure = grpc.ssl_channel_credentials(root_certificates=ca, private_key=key, certificate_chain=certificate)
    options = [*_OPTIONS, ("grpc.max_receive_message_length", -1)]
    since, connected = time.monotonic(), None
    while not until():
        replies: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        with grpc.secure_channel(address, secure, options=options) as channel:
            try:
                for data in channel.stream_stream(f"/{_SERVICE}/{_CALL}")(iter(replies.get, None)):
                    since, connected = time.monotonic(), True
                    replies.put(to_bytes(app(from_bytes(data), context(0))))
                    if until():
                        replies.put(None)
            except grpc.RpcError as error:
                if until():
                    return
                if time.monotonic() - since > wait:
                    raise RequestError(
                        f"{address} cannot be reached ({error.code().name}): is the server up, and are both certificates "
                        "of one authority, the server's for this host?"
                    ) from None
            replies.put(None)
        if not until():
            if connected is not False:
                log(f"no connection to {address}; calling again and again")
            connected = False
            time.sleep(_BACK_OFF)
