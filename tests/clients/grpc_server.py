"""A gRPC server that answers each message with what it heard: grpc_server.py CERTIFICATE KEY

Prints its port, then the path of each call. Ends when standard input does.
"""

import sys
from concurrent.futures import ThreadPoolExecutor

import grpc


def one(request, context):
    context.set_trailing_metadata([("x-octets", str(len(request)))])
    return b"heard " + request


def many(requests, _):
    for request in requests:
        yield b"heard " + request


class Calls(grpc.GenericRpcHandler):
    def service(self, call):
        print(call.method, flush=True)
        if call.method.endswith("/One"):
            return grpc.unary_unary_rpc_method_handler(one)
        return grpc.stream_stream_rpc_method_handler(many)


certificate, key = (open(path, "rb").read() for path in sys.argv[1:])
server = grpc.server(ThreadPoolExecutor(4), handlers=[Calls()])
credentials = grpc.ssl_server_credentials([(key, certificate)])
port = server.add_secure_port("127.0.0.1:0", credentials)
server.start()
print(port, flush=True)
sys.stdin.read()
