"""Serve an exported posterior over HTTP with jax alone: no credax on the server.

credax export runs/ensemble --out model.export
python examples/serve.py model.export 8000
curl -d '[[0.1, 0.2]]' localhost:8000
"""

import json
import pathlib
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

import jax
import numpy as np

PROGRAM = jax.export.deserialize(pathlib.Path(sys.argv[1]).read_bytes())
PREDICT = jax.jit(PROGRAM.call)


class Handler(BaseHTTPRequestHandler):
    """Rows as JSON in, predictions as JSON out."""

    def do_POST(self):
        """Predict the rows of one request."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        x = np.asarray(json.loads(body), PROGRAM.in_avals[0].dtype)
        answer = {name: np.asarray(value).tolist() for name, value in PREDICT(x).items()}
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())


HTTPServer(("127.0.0.1", int(sys.argv[2])), Handler).serve_forever()
