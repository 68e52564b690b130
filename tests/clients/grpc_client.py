"""Calls a gRPC server: grpc_client.py HOST:PORT

Prints a line of JSON for each call: a unary one, one that exchanges a message at a time, and one that is denied.
"""

import json
import os
import queue
import sys

import grpc

with open(os.environ["SSL_CERT_FILE"], "rb") as roots:
    credentials = grpc.ssl_channel_credentials(roots.read())
channel = grpc.secure_channel(sys.argv[1], credentials)

heard, call = channel.unary_unary("/test.Open/One").with_call(b"one", timeout=60)
octets = dict(call.trailing_metadata())["x-octets"]
print(json.dumps([heard.decode(), octets, call.code().name]))

words = queue.Queue()
answers = channel.stream_stream("/test.Open/Many")(iter(words.get, None), timeout=60)
told = []
for word in (b"two", b"three"):
    words.put(word)
    told.append(next(answers).decode())
words.put(None)
print(json.dumps([*told, len(list(answers)), answers.code().name]))

try:
    channel.unary_unary("/test.Other/One")(b"four", timeout=60)
except grpc.RpcError as error:
    print(json.dumps([error.code().name, error.details()]))
