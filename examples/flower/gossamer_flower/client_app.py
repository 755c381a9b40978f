"""The messenger of a site: passes questions to `gossamer federated serve-records` and its answers back.

It holds no record and no state, and imports nothing of Gossamer.
"""

import socket

from flwr.app import ConfigRecord, Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp

UNREACHABLE = 1_001
"""Code of Flower's error reply where the records service gives no answer."""
LENGTH = 8  # bytes that hold the length of a text

app = ClientApp()


@app.query("ask")
def forward(message: Message, context: Context) -> Message:
    """Return the reply of the records service. An error says nothing of this machine: the server reads it."""
    try:
        data = str(message.content["text"]["text"]).encode()
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(message.metadata.ttl)  # later, nobody waits for the reply
            connection.connect(str(context.node_config["socket"]))
            connection.sendall(len(data).to_bytes(LENGTH) + data)
            with connection.makefile("rb") as replies:
                text = replies.read(int.from_bytes(replies.read(LENGTH))).decode()
        if not text:
            raise OSError
        return Message(RecordDict({"text": ConfigRecord({"text": text})}), reply_to=message)
    except Exception:  # Flower would send the error's own text
        return Message(Error(UNREACHABLE, "the records service gave no answer"), reply_to=message)
