"""Serves a model over HTTP: requests that arrive together run as one batch.

Without a port as its argument it sends itself some requests and ends.
"""

import http.server
import json
import queue
import sys
import tempfile
import threading
import urllib.request
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import poptorch
import torch
from torch import nn

LARGEST = 8  # rows of a batch; shorter batches are padded, as the program has one shape


class Batcher:
    """Runs the requests of a queue, as many at a time as have arrived."""

    def __init__(self, model):
        self.model, self.requests = model, queue.Queue()
        threading.Thread(target=self.run, daemon=True).start()

    def ask(self, row):
        answer = Future()
        self.requests.put((row, answer))
        return answer.result()

    def run(self):
        while True:
            waiting = [self.requests.get()]
            while len(waiting) < LARGEST and not self.requests.empty():
                waiting.append(self.requests.get())
            rows = torch.zeros(LARGEST, 4)
            rows[: len(waiting)] = torch.tensor([row for row, _ in waiting])
            for (_, answer), scores in zip(waiting, self.model(rows), strict=False):
                answer.set_result(scores.tolist())


def handler_of(batcher):
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            row = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(batcher.ask(row)).encode())

        def log_message(self, *_):
            pass

    return Handler


def main():
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    network, path = nn.Sequential(nn.Linear(4, 3), nn.Softmax(1)), Path(tempfile.mkdtemp(), "m")
    poptorch.inferenceModel(network).compileAndExport(path, torch.zeros(LARGEST, 4))
    handler = handler_of(Batcher(poptorch.load(path)))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", port), handler)
    if port:
        return server.serve_forever()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url, rows = f"http://127.0.0.1:{server.server_port}", torch.randn(40, 4)
    with ThreadPoolExecutor(8) as pool:
        bodies = [json.dumps(row).encode() for row in rows.tolist()]
        found = pool.map(lambda body: urllib.request.urlopen(url, body), bodies)
        answers = torch.tensor([json.load(answer) for answer in found])
    right = torch.allclose(answers, network(rows), atol=1e-6)
    print(f"{len(rows)} answers, in batches, are those of the model: {right}")


if __name__ == "__main__":
    main()
