"""The order of the layers, and what keeps the files readable.

A lower layer never imports a higher one and no imports form a circle. Imports
are read from the source, those inside functions too.
"""

import ast
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]

LAYERS = (
  ("types", "sharding"),
  ("filters", "sampling", "topologies", "trees"),
  ("constraints", "looks", "metrics"),
  ("theory",),
  ("acceptance",),
  ("models",),
  ("checkpoints", "text"),
  ("passes",),
  ("control",),
  ("drafters",),
  ("decoding",),
  ("api",),
  ("evaluation",),
  ("training",),
)
RANKS = {name: rank for rank, names in enumerate(LAYERS) for name in names}
OUTSIDE = ("experiments", "configs")
MAX_LINES = 450


def find_modules(root):
  """{dotted name: path} of the modules of the three packages."""
  modules = {}
  for package in ("specjax", *OUTSIDE):
    for path in sorted((root / package).rglob("*.py")):
      parts = path.relative_to(root).with_suffix("").parts
      name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
      modules[name] = path
  return modules


def find_imports(name, path, modules):
  """(line, dotted name) of all that a module imports."""
  package = name if path.name == "__init__.py" else name.rpartition(".")[0]
  for node in ast.walk(ast.parse(path.read_text())):
    if isinstance(node, ast.Import):
      for alias in node.names:
        yield node.lineno, alias.name
    elif isinstance(node, ast.ImportFrom):
      base = node.module or ""
      if node.level:
        above = package.split(".")
        above = above[: len(above) - node.level + 1]
        base = ".".join([*above, base] if base else above)
      for alias in node.names:
        inner = f"{base}.{alias.name}"
        outside = not base.startswith("specjax")
        yield node.lineno, inner if inner in modules or outside else base


def unit_of(name):
  """The layer's unit of a dotted name: "" for specjax itself, None outside."""
  parts = name.split(".")
  if parts[0] != "specjax":
    return None
  return parts[1] if len(parts) > 1 else ""


def check_import(name, imported):
  """What is wrong with one import, or None."""
  unit, other = unit_of(name), unit_of(imported)
  if unit is None:
    return None
  if imported.split(".")[0] in OUTSIDE:
    return "the library never imports the commands or their configurations"
  if re.match(r"absl\.(flags|app)\b", imported):
    return "the library defines no flags"
  if other is None or unit == other:
    return None
  if other == "":
    return "a layer never imports the package itself"
  if other == "testing":
    return "only tests and commands import specjax.testing"
  if other not in RANKS:
    return f"{other} is in no layer"
  if unit == "":
    return None
  if unit == "testing":
    low = RANKS[other] < RANKS["api"]
    return None if low else "specjax.testing imports what is below api"
  if unit not in RANKS:
    return f"{unit} is in no layer"
  if RANKS[other] > RANKS[unit]:
    return "a lower layer never imports a higher one"
  return None


def find_circle(graph):
  """Modules that import one another in a circle, or None."""
  done, path = set(), []

  def visit(name):
    if name in path:
      return [*path[path.index(name) :], name]
    if name in done:
      return None
    path.append(name)
    for other in sorted(graph.get(name, ())):
      if circle := visit(other):
        return circle
    path.pop()
    done.add(name)
    return None

  for name in sorted(graph):
    if circle := visit(name):
      return circle
  return None


def find_faults(root):
  """Every broken rule under a root, a line each."""
  modules = find_modules(root)
  faults, graph = [], {}
  for name, path in modules.items():
    for line, imported in find_imports(name, path, modules):
      if wrong := check_import(name, imported):
        where = f"{path.relative_to(root)}:{line}"
        faults.append(f"{where} imports {imported}: {wrong}")
      if imported in modules and imported != name:
        graph.setdefault(name, set()).add(imported)
  if circle := find_circle(graph):
    faults.append("circle: " + " -> ".join(circle))
  return faults


def test_the_layers_hold():
  faults = find_faults(ROOT)
  assert not faults, "\n".join(faults)


def _write(root, files):
  for name, text in files.items():
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


SOUND = {
  "specjax/__init__.py": "from specjax import api, sampling\n",
  "specjax/types.py": "import jax\n",
  "specjax/sampling.py": "from specjax.types import Law\n",
  "specjax/drafters/__init__.py": "from specjax.drafters.ngram import NGram\n",
  "specjax/drafters/ngram.py": "from .. import types\nfrom . import base\n",
  "specjax/drafters/base.py": "import specjax.sampling\n",
  "specjax/api.py": "def f():\n  from specjax import drafters\n",
  "specjax/testing/battery.py": "from specjax.drafters import NGram\n",
  "experiments/generate.py": "from absl import app, flags\nimport specjax\n",
}


def test_a_sound_tree_has_no_faults(tmp_path):
  _write(tmp_path, SOUND)
  assert find_faults(tmp_path) == []


@pytest.mark.parametrize(
  "file, text, fault",
  [
    ("types.py", "import specjax.sampling", "lower layer"),
    ("sampling.py", "from specjax import drafters", "lower layer"),
    ("sampling.py", "from . import api", "lower layer"),
    ("types.py", "def f():\n  from .api import generate", "lower layer"),
    ("drafters/base.py", "from ..api import generate", "lower layer"),
    ("drafters/base.py", "from .ngram import NGram", "circle"),
    ("types.py", "from specjax import sharding", "circle"),
    ("drafters/base.py", "from specjax import Law", "the package itself"),
    ("api.py", "from specjax.testing import battery", "only tests"),
    ("__init__.py", "from specjax import testing", "only tests"),
    ("testing/battery.py", "from specjax import api", "below api"),
    ("api.py", "from absl import flags", "no flags"),
    ("api.py", "import absl.app", "no flags"),
    ("api.py", "from experiments import generate", "the commands"),
    ("api.py", "import configs.benchmark", "the commands"),
    ("misc.py", "from specjax import types", "in no layer"),
  ],
)
def test_each_broken_rule_is_found(tmp_path, file, text, fault):
  _write(tmp_path, SOUND)
  _write(tmp_path, {"specjax/sharding.py": "from specjax import types\n"})
  _write(tmp_path, {"specjax/testing/__init__.py": ""})
  _write(tmp_path, {f"specjax/{file}": text + "\n"})
  faults = find_faults(tmp_path)
  assert any(fault in line and "specjax" in line for line in faults), faults


def _source_files():
  folders = ("specjax", "experiments", "configs", "tests")
  return [p for f in folders for p in sorted((ROOT / f).rglob("*.py"))]


def test_files_are_short():
  sizes = {p: len(p.read_text().splitlines()) for p in _source_files()}
  long = {
    str(p.relative_to(ROOT)): n for p, n in sizes.items() if n > MAX_LINES
  }
  assert not long, f"split these by concept: {long}"


def test_nothing_is_left_for_later():
  later = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X)\b")
  texts = [*_source_files(), *ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
  found = [
    f"{path.relative_to(ROOT)}:{number}"
    for path in texts
    for number, line in enumerate(path.read_text().splitlines(), 1)
    if later.search(line)
  ]
  assert not found, found
