"""Bottle, as its documentation serves files."""

import sys

from bottle import Bottle, request, static_file

port, root = sys.argv[1:]
app = Bottle()


@app.get("/wiki")
def wiki():
    return f"marker:/wiki?title={request.query.title}"


@app.get("/<name:path>")
def files(name):
    return static_file(name, root=root)


app.run(host="127.0.0.1", port=int(port), quiet=True)
