"""A stand-in for the Hub: one process, a folder per repository.

  python hub_server.py FOLDER   prints its port, then serves until killed

FOLDER/org/name/... are the files. A file whose name starts with "cut-" is sent
only in half, though its full length is announced.
"""

import hashlib
import http.server
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(sys.argv[1])
COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Handler(http.server.BaseHTTPRequestHandler):
  """Answers what `huggingface_hub` asks."""

  protocol_version = "HTTP/1.1"

  def log_message(self, *args):
    pass

  def do_HEAD(self):
    self.answer(body=False)

  def do_GET(self):
    self.answer(body=True)

  def answer(self, body: bool):
    path = self.path.partition("?")[0]
    if match := re.fullmatch(r"/api/models/([^/]+/[^/]+)/(\w+)/([^/]+)", path):
      return self.describe(*match.groups(), body)
    if match := re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
      return self.file(*match.groups(), body)
    return self.fail("RepoNotFound", body)

  def describe(self, repo: str, kind: str, revision: str, body: bool):
    folder = ROOT / repo
    if not folder.is_dir():
      return self.fail("RepoNotFound", body)
    if revision not in ("main", "v1", COMMIT):
      return self.fail("RevisionNotFound", body)
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    names = [path.relative_to(folder).as_posix() for path in files]
    if kind == "tree":
      answer = [
        {"type": "file", "path": n, "size": p.stat().st_size, "oid": etag(p)}
        for n, p in zip(names, files, strict=True)
      ]
    else:
      siblings = [{"rfilename": name} for name in names]
      answer = {"id": repo, "sha": COMMIT, "siblings": siblings, "tags": []}
    self.send(json.dumps(answer).encode(), {}, body)

  def file(self, repo: str, revision: str, name: str, body: bool):
    path = ROOT / repo / name
    if not (ROOT / repo).is_dir():
      return self.fail("RepoNotFound", body)
    if not path.is_file():
      return self.fail("EntryNotFound", body)
    headers = {"ETag": f'"{etag(path)}"', "X-Repo-Commit": COMMIT}
    self.send(path.read_bytes(), headers, body, cut=name.startswith("cut-"))

  def fail(self, code: str, body: bool):
    self.send(b"no", {"X-Error-Code": code, "X-Error-Message": "no"}, body, 404)

  def send(self, data, headers, body, status=200, cut=False):
    self.send_response(status)
    for name, value in headers.items():
      self.send_header(name, value)
    self.send_header("Content-Length", str(len(data)))
    self.end_headers()
    if body:
      self.wfile.write(data[: len(data) // 2] if cut else data)
    self.close_connection = cut


def etag(path: pathlib.Path) -> str:
  return hashlib.sha1(path.read_bytes()).hexdigest()


if __name__ == "__main__":
  server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
  print(server.server_address[1], flush=True)
  server.serve_forever()
