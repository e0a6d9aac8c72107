"""The test project behind a real HTTP server, under a strict Content-Security-Policy."""

import contextlib
import threading

from django.contrib.staticfiles.handlers import StaticFilesHandler
from django.core.handlers.wsgi import WSGIHandler
from django.core.servers.basehttp import ThreadedWSGIServer, WSGIRequestHandler
from django.http import HttpResponse
from django.test import override_settings

HOST = "127.0.0.1"
POLICY = "default-src 'self'"


class StrictPolicy:
    """A middleware that lets a page use the project's own files, and nothing else."""

    def __init__(self, get_response):
        self.get_response = get_response

    def __call__(self, request):
        if request.path == "/favicon.ico":  # browsers ask for it by themselves
            return HttpResponse(status=204)
        response = self.get_response(request)
        response["Content-Security-Policy"] = POLICY
        return response


class Quiet(WSGIRequestHandler):
    def log_message(self, *args):
        pass


@contextlib.contextmanager
def running(middleware):
    """Serve the test project, and the static files of its apps; yields the URL."""
    names = [f"{__name__}.StrictPolicy", *middleware]
    with override_settings(MIDDLEWARE=names):
        application = StaticFilesHandler(WSGIHandler())
    server = ThreadedWSGIServer((HOST, 0), Quiet)
    server.set_app(application)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        with override_settings(ALLOWED_HOSTS=["testserver", HOST]):
            yield f"http://{HOST}:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
