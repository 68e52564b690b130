"""CherryPy, with its tool for static files, and its dispatcher that makes a path of a host."""

import sys

import cherrypy

port, root = sys.argv[1:]


class Hidden:
    @cherrypy.expose
    def note(self):
        return "marker:/hidden/note"


class Site:
    hidden = Hidden()

    @cherrypy.expose
    def wiki(self, title=""):
        return f"marker:/wiki?title={title}"


cherrypy.config.update(
    {
        "server.socket_host": "127.0.0.1",
        "server.socket_port": int(port),
        "engine.autoreload.on": False,
        "log.screen": False,
    }
)
hosts = cherrypy.dispatch.VirtualHost(**{"hidden.example": "/hidden"})
static = {"tools.staticdir.on": True, "tools.staticdir.dir": root}
cherrypy.quickstart(Site(), "/", {"/": {"request.dispatch": hosts, **static}})
