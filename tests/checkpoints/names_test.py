"""Names, the embedded default model and the Hub's repositories."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

from specjax.checkpoints import EMBEDDED, CheckpointError, load, resolve
from specjax.checkpoints.hub import HubFiles

SERVER = pathlib.Path(__file__).with_name("hub_server.py")
# Prints, for each name, the file names of what it fetches or the error.
# Retries need not wait here.
CLIENT = """
import sys, time
time.sleep = lambda seconds: None
from specjax.checkpoints import CheckpointError, resolve
for name in sys.argv[1:]:
  try:
    path = resolve(name).fetch()
    inside = path.is_dir() and sorted(p.name for p in path.iterdir())
    print("found", inside or path.name)
  except CheckpointError as error:
    print("error", error)
"""


def test_embedded_names_in_any_case():
  for name in ("smollm2-135m", "SmolLM2-135M-Instruct"):
    assert resolve(name).origin is EMBEDDED["smollm2-135m"]
    assert resolve(name).name == name


@pytest.mark.parametrize(
  "name,expected",
  [
    ("org/name", HubFiles("org/name")),
    ("org/name@v1", HubFiles("org/name", "v1")),
    ("org/na.me-1@refs/pr/3:a b/F.gguf",
     HubFiles("org/na.me-1", "refs/pr/3", "a b/F.gguf")),
    ("org/name:f.Q4_0.gguf", HubFiles("org/name", None, "f.Q4_0.gguf")),
  ],
)  # fmt: skip
def test_hub_names(name, expected):
  assert resolve(name).origin == expected


def test_what_exists_wins(tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  (tmp_path / "org/name").mkdir(parents=True)
  assert resolve("org/name").fetch() == pathlib.Path("org/name")
  assert resolve(tmp_path).origin == tmp_path
  (tmp_path / "model.gguf").touch()
  assert resolve("model.gguf").origin == pathlib.Path("model.gguf")
  (tmp_path / "notes.txt").touch()
  with pytest.raises(CheckpointError, match="neither a .gguf nor"):
    resolve("notes.txt")


@pytest.mark.parametrize(
  "name,match",
  [
    ("smollm2-135", "did you mean 'smollm2-135m'?"),
    ("smolm2-135m-instruct", "did you mean 'smollm2-135m-instruct'?"),
    ("nothing-like-it", "try 'smollm2-135m'"),
    ("", "unknown model ''"),
    ("./no/folder", "folder or file that exists"),
    ("/no/folder", "folder or file that exists"),
    ("org/name:weights.bin", "unknown model"),
    ("org/name/more", "unknown model"),
    ("org/na\nme", "unknown model"),
  ],
)
def test_unknown_names(name, match):
  with pytest.raises(CheckpointError, match=match) as caught:
    load(name)
  assert "\n" not in str(caught.value)


@pytest.fixture(scope="module")
def repositories(make_tiny, tmp_path_factory):
  root = tmp_path_factory.mktemp("hub")
  folder = make_tiny().write_folder(root / "org/good")
  (folder / "tokenizer.json").write_text("{}")
  (folder / "pytorch_model.bin").write_bytes(bytes(10))
  (folder / "original").mkdir()
  (folder / "original/params.json").write_text("{}")
  packed = root / "org/packed"
  packed.mkdir()
  make_tiny().write_gguf(packed / "tiny.gguf")
  # Longer, so that the Hub's cache cannot take it for the file above.
  whole = (packed / "tiny.gguf").read_bytes() + bytes(32)
  (packed / "cut-tiny.gguf").write_bytes(whole)
  return root


def run_client(url, home, *names, offline=False):
  environment = {
    **os.environ,
    "HF_ENDPOINT": url,
    "HF_HOME": str(home),
    "HF_HUB_OFFLINE": "1" if offline else "0",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "HF_HUB_DISABLE_XET": "1",
    "NO_PROXY": "127.0.0.1",
  }
  result = subprocess.run(
    [sys.executable, "-c", CLIENT, *names],
    env=environment,
    stdout=subprocess.PIPE,
    timeout=120,
    text=True,
    check=True,
  )
  lines = result.stdout.splitlines()
  assert len(lines) == len(names)
  return lines


def test_hub_repositories(repositories, tmp_path):
  server = subprocess.Popen(
    [sys.executable, SERVER, repositories], stdout=subprocess.PIPE, text=True
  )
  with server:
    try:
      url = f"http://127.0.0.1:{int(server.stdout.readline())}"
      names = [
        "org/good@v1", "org/packed:tiny.gguf", "org/packed", "org/absent",
        "org/good@v9", "org/packed:absent.gguf", "org/packed:cut-tiny.gguf",
        "absent/repo:x.gguf",
      ]  # fmt: skip
      found = run_client(url, tmp_path, *names)
    finally:
      server.kill()
  files = "['config.json', 'model.safetensors', 'tokenizer.json']"
  assert found[0] == f"found {files}"
  assert found[1] == "found tiny.gguf"
  assert "no safetensors; name one" in found[2]
  assert "no public repository org/absent" in found[3]
  assert found[4] == "error org/good has no revision 'v9'"
  assert found[5] == "error org/packed has no file 'absent.gguf'"
  assert found[6].startswith("error cannot fetch org/packed: ")
  assert "no public repository absent/repo" in found[7]
  snapshots = list(tmp_path.rglob("snapshots/*/*.gguf"))
  assert [path.name for path in snapshots] == ["tiny.gguf"]

  # With the server gone: what was fetched is there, the rest is one line.
  names = ["org/packed:tiny.gguf", "org/absent", "org/packed:absent.gguf"]
  for offline in (True, False):
    found = run_client(url, tmp_path, *names, offline=offline)
    assert found[0] == "found tiny.gguf"
    assert "org/absent is not in the cache and the Hub cannot" in found[1]
    assert "org/packed is not in the cache and the Hub cannot" in found[2]


def test_load_keeps_the_name_and_metadata(make_tiny, tmp_path):
  path = make_tiny().write_gguf(tmp_path / "tiny.gguf")
  checkpoint = load(path)
  assert checkpoint.name == str(path) and checkpoint.path == path
  assert checkpoint.tokenizer_source["llama.block_count"] == 2
  assert json.dumps(checkpoint.config.__dict__)
