"""Every package that is installed is used, and every one used is declared."""

import ast
import pathlib
import re
import sys
import tomllib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
IMPORTED_AS = {"absl-py": "absl", "orbax-checkpoint": "orbax"}
OWN = {"specjax", "experiments", "configs"}
# Named for the users' sake: flax installs it whether or not it is used here.
UNUSED = {"optax"}
# In an extra: imported only where it is installed.
OPTIONAL = {"libtpu", "llama_cpp", "torch", "transformers"}


def _declared():
  project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
  names = [re.match(r"[\w-]+", d)[0] for d in project["dependencies"]]
  return {IMPORTED_AS.get(name, name) for name in names}


def _imported():
  found = set()
  for path in (p for name in OWN for p in (ROOT / name).rglob("*.py")):
    for node in ast.walk(ast.parse(path.read_text())):
      if isinstance(node, ast.Import):
        found |= {alias.name.split(".")[0] for alias in node.names}
      elif isinstance(node, ast.ImportFrom) and not node.level:
        found.add(node.module.split(".")[0])
  return found - set(sys.stdlib_module_names) - OWN


def test_every_dependency_is_used():
  unused = _declared() - _imported() - UNUSED
  if unused:
    pytest.fail(f"declared in pyproject.toml and never imported: {unused}")


def test_every_import_is_declared():
  unknown = _imported() - _declared() - OPTIONAL
  if unknown:
    pytest.fail(f"imported and not declared in pyproject.toml: {unknown}")
