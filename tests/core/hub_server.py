"""A small Hugging Face Hub on the loopback address: enough to push, list and fetch files."""

import base64
import hashlib
import json
import re
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Hub(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.repositories: dict[str, dict[str, bytes]] = {}
        self.requests: list[str] = []

    def commit(self, name):
        content = sorted(self.repositories[name].items())
        return hashlib.sha1(repr(content).encode()).hexdigest()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Hub

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.requests.append(f"POST {self.path}")
        if self.path == "/api/validate-yaml":
            return self.answer({"errors": [], "warnings": []})
        if self.path == "/api/repos/create":
            asked = json.loads(body)
            name = f"{asked.get('organization') or 'user'}/{asked['name']}"
            known = name in self.server.repositories
            self.server.repositories.setdefault(name, {})
            url = f"http://127.0.0.1:{self.server.server_port}/{name}"
            return self.answer({"url": url, "id": name}, 409 if known else 200)
        found = re.fullmatch(
            r"/api/models/([\w.-]+/[\w.-]+)/(preupload|commit)/main(\?.*)?", self.path
        )
        if found is None or found[1] not in self.server.repositories:
            return self.answer({"error": "not found"}, 404)
        if found[2] == "preupload":
            files = json.loads(body)["files"]
            kinds = [
                {"path": f["path"], "uploadMode": "regular", "shouldIgnore": False} for f in files
            ]
            return self.answer({"files": kinds})
        for line in map(json.loads, body.splitlines()):
            if line["key"] == "file":
                value = line["value"]
                self.server.repositories[found[1]][value["path"]] = base64.b64decode(
                    value["content"]
                )
        commit = self.server.commit(found[1])
        url = f"http://127.0.0.1:{self.server.server_port}/{found[1]}/commit/{commit}"
        return self.answer({"commitUrl": url, "commitOid": commit, "success": True})

    def do_GET(self):
        self.server.requests.append(f"{self.command} {self.path}")
        found = re.fullmatch(r"/api/models/([\w.-]+/[\w.-]+)(/revision/[\w.-]+)?(\?.*)?", self.path)
        if found and found[1] in self.server.repositories:
            files = [{"rfilename": name} for name in self.server.repositories[found[1]]]
            commit = self.server.commit(found[1])
            return self.answer({"id": found[1], "sha": commit, "siblings": files, "private": False})
        found = re.fullmatch(r"/api/models/([\w.-]+/[\w.-]+)/tree/[\w.-]+/?(\?.*)?", self.path)
        if found and found[1] in self.server.repositories:
            files = self.server.repositories[found[1]].items()
            return self.answer(
                [{"type": "file", "path": n, "size": len(c), "oid": _digest(c)} for n, c in files]
            )
        found = re.fullmatch(r"/([\w.-]+/[\w.-]+)/resolve/[\w.-]+/([\w./-]+)", self.path)
        content = self.server.repositories.get(found[1], {}).get(found[2]) if found else None
        if found is None or content is None:
            return self.answer({"error": "not found"}, 404, code="RepoNotFound")
        self.send_response(200)
        self.send_header("ETag", f'"{_digest(content)}"')
        self.send_header("X-Repo-Commit", self.server.commit(found[1]))
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)
        return None

    do_HEAD = do_GET

    def answer(self, content, status=200, code=None):
        body = json.dumps(content).encode()
        self.send_response(status)
        if code:
            self.send_header("X-Error-Code", code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def _digest(content):
    return hashlib.sha1(content).hexdigest()


@contextmanager
def serving():
    hub = Hub()
    thread = threading.Thread(target=hub.serve_forever, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        hub.shutdown()
        hub.server_close()
        thread.join()
