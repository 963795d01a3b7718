"""What `import specjax` gives, and how long it takes."""

import resource
import statistics
import subprocess
import sys

import pytest

import specjax

IMPORT_SECONDS = 2.0


def test_all_is_complete_and_sorted():
  names = specjax.__all__
  assert len(set(names)) == len(names)
  assert "__version__" in names


@pytest.mark.parametrize("name", specjax.__all__)
def test_public_name_is_there_and_documented(name):
  value = getattr(specjax, name)
  if name == "__version__":
    assert value.count(".") == 2
    return
  doc = value.__doc__
  assert doc, f"specjax.{name} has no docstring"
  assert not doc.startswith(f"{name}("), f"specjax.{name}: generated docstring"


def _cpu_seconds():
  before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
  subprocess.run([sys.executable, "-c", "import specjax"], check=True)
  return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before


def test_import_is_quick():
  """User CPU time, which another load on the machine hardly changes."""
  seconds = statistics.median(_cpu_seconds() for _ in range(3))
  assert seconds < IMPORT_SECONDS
