"""Jobs from code without asyncio: a small web server that answers at once and leaves the work to a worker.

python examples/sync_web.py                      # terminal 1: the web server, http://127.0.0.1:8700
mainspring worker examples.sync_web:app          # terminal 2: executes, from the same store
curl -d ada@example.org http://127.0.0.1:8700    # terminal 3: answers with the job's id
curl http://127.0.0.1:8700/ID                    # and what has become of it
"""

import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from mainspring import App, InvalidError, NotFoundError

app = App()


@app.job(queue="mail")
def welcome(to: str) -> str:
    time.sleep(1)  # blocks a thread, not the worker
    return f"welcomed {to}"


class Handler(BaseHTTPRequestHandler):
    """POST an address to welcome it; GET a job's id to see how it stands."""

    def do_POST(self) -> None:
        to = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        self._answer(202, welcome.sync.submit(to).id)

    def do_GET(self) -> None:
        try:
            self._answer(200, app.sync.get(self.path.lstrip("/")).status().state)
        except (InvalidError, NotFoundError) as error:
            self._answer(404, str(error))

    def _answer(self, code: int, text: str) -> None:
        self.send_response(code)
        self.end_headers()
        self.wfile.write(f"{text}\n".encode())


if __name__ == "__main__":
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 8700
    with app.sync, ThreadingHTTPServer(("127.0.0.1", port), Handler) as server:
        print(f"listening on http://127.0.0.1:{server.server_port}", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print("bye")
