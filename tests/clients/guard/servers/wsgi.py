"""Files out of a WSGI application, as many are written: PATH_INFO, which the server has decoded, under a folder."""

import os
from urllib.parse import parse_qs

ROOT = os.environ["ROOT"]


def application(environ, start_response):
    path = environ["PATH_INFO"].encode("latin-1").decode("utf-8", "replace")
    if path == "/wiki":
        title = parse_qs(environ["QUERY_STRING"]).get("title", [""])[0]
        start_response("200 OK", [])
        return [f"marker:/wiki?title={title}".encode()]
    name = os.path.join(ROOT, path.lstrip("/"))
    if "\0" in name or not os.path.isfile(name):
        start_response("404 Not Found", [])
        return [b""]
    start_response("200 OK", [])
    with open(name, "rb") as file:
        return [file.read()]
