"""aiohttp, as its documentation serves files."""

import sys

from aiohttp import web

port, root = sys.argv[1:]


async def wiki(request):
    return web.Response(text=f"marker:/wiki?title={request.query.get('title')}")


app = web.Application()
app.router.add_get("/wiki", wiki)
app.router.add_static("/", root)
web.run_app(app, host="127.0.0.1", port=int(port), print=None)
