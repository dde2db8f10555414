"""A page that arrives slowly is drawn as from a file: it waits for missing parts."""

import http.server
import threading
import time

import browsing
import made_data
import pytest
from poptorch_core.reports import page

PARTS = 40
PAUSE = 0.02  # seconds between two parts


class Slowly(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = self.server.body
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        size = len(body) // PARTS + 1
        for begin in range(0, len(body), size):
            self.wfile.write(body[begin : begin + size])
            self.wfile.flush()
            time.sleep(PAUSE)

    def log_message(self, *arguments):
        pass


@pytest.fixture(scope="module")
def address():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Slowly)
    server.body = page.html(made_data.make(ops=20_000, events=60_000)).encode()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


@pytest.mark.shared
@pytest.mark.parametrize("name", ["memory", "graph", "compile"])
def test_a_page_is_drawn_from_whole_parts(address, name):
    with browsing.opened() as browser:
        browser.driver.get(f"{address}/#{name}")
        browser.wait()
        assert browser.page() == name
        assert browser.problems() == []
