"""CherryPy, with its tool for static files."""

import sys

import cherrypy

port, root = sys.argv[1:]


class Site:
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
cherrypy.quickstart(Site(), "/", {"/": {"tools.staticdir.on": True, "tools.staticdir.dir": root}})
