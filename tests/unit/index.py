"""A package index on this computer: what resolving needs of one, and no wheel itself."""

import hashlib
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

PAGE = "application/vnd.pypi.simple.v1+json"


def metadata(name, version, requires):
    """A distribution's metadata."""
    rows = [f"Requires-Dist: {one}" for one in requires]
    head = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    return "\n".join([*head, *rows, ""]).encode()


class Index:
    """Serves what was put on it; `url` is its simple index."""

    def __init__(self):
        self.pages = {}
        self.files = {}
        handler = type("Handler", (_Handler,), {"index": self})
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.base = f"http://127.0.0.1:{self.server.server_port}"
        self.url = f"{self.base}/simple"
        Thread(target=self.server.serve_forever, daemon=True).start()

    def put(self, name, version, *, requires=(), uploaded="2026-01-01", python=">=3.8", note=""):
        """Offer a version; `note` makes another file of it, with another hash."""
        file = f"{name.replace('-', '_')}-{version}-py3-none-any.whl"
        about = self.files[f"{file}.metadata"] = metadata(name, version, requires)
        self.pages.setdefault(name, {})[file] = {
            "filename": file,
            "url": f"{self.base}/files/{file}",
            "hashes": {"sha256": hashlib.sha256(about + note.encode()).hexdigest()},
            "core-metadata": {"sha256": hashlib.sha256(about).hexdigest()},
            "requires-python": python,
            "upload-time": f"{uploaded}T12:00:00Z",
        }

    def stop(self):
        self.server.shutdown()
        self.server.server_close()


class _Handler(BaseHTTPRequestHandler):
    index: Index

    def do_GET(self):
        kind, name = self.path.strip("/").split("/", 1)
        if kind == "files" and name in self.index.files:
            self._say(200, "text/plain", self.index.files[name])
        elif kind == "simple" and name in self.index.pages:
            page = {"meta": {"api-version": "1.1"}, "name": name}
            page["files"] = list(self.index.pages[name].values())
            self._say(200, PAGE, json.dumps(page).encode())
        else:
            self._say(404, "text/plain", b"not here")

    def _say(self, code, kind, content):
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *args):
        """Say nothing."""
