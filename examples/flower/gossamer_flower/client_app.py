"""The messenger of a site: passes Flower's messages to `gossamer federated serve-records` and its replies back.

It holds no record and no state, and imports nothing of Gossamer.
"""

import socket

from flwr.app import Context, Error, Message
from flwr.clientapp import ClientApp
from flwr.common.serde import message_from_proto, message_to_proto
from flwr.proto.message_pb2 import Message as ProtoMessage

UNREACHABLE = 1_001
"""Code of Flower's error reply where the records service gives no answer."""
LENGTH = 8  # bytes that hold the length of a message

app = ClientApp()


@app.query("terms")
@app.train("round")
@app.query("end")
@app.query("ask")
def forward(message: Message, context: Context) -> Message:
    """Return the reply of the records service. An error says nothing of this machine: the server reads it."""
    try:
        data = message_to_proto(message).SerializeToString()
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(message.metadata.ttl)  # later, nobody waits for the reply
            connection.connect(str(context.node_config["socket"]))
            connection.sendall(len(data).to_bytes(LENGTH) + data)
            with connection.makefile("rb") as replies:
                length = int.from_bytes(replies.read(LENGTH))
                answer = message_from_proto(ProtoMessage.FromString(replies.read(length)))
        return Message(answer.error if answer.has_error() else answer.content, reply_to=message)
    except Exception:  # Flower would send the error's own text
        return Message(Error(UNREACHABLE, "the records service gave no answer"), reply_to=message)
