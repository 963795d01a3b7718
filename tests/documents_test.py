"""What the documents point to is there, and is committed."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCUMENTS = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]
_LINK = re.compile(r"\]\(([^)\s#]+)(?:#[^)]*)?\)")
_RECIPE = re.compile(r"--config=(configs/[a-z0-9_/]+\.py)")


def links(document: Path) -> list[str]:
  return [x for x in _LINK.findall(document.read_text()) if "://" not in x]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_and_configs_lead_somewhere(document):
  for link in links(document):
    assert (document.parent / link).exists(), link
  for recipe in _RECIPE.findall(document.read_text()):
    assert (ROOT / recipe).is_file(), recipe


def test_what_is_linked_is_not_ignored():
  """A file that git leaves out is there for its author alone."""
  if not (ROOT / ".git").exists():
    pytest.skip("no repository")
  targets = {
    str((document.parent / link).resolve().relative_to(ROOT))
    for document in DOCUMENTS
    for link in links(document)
  }
  given = ["git", "check-ignore", *sorted(targets)]
  found = subprocess.run(given, cwd=ROOT, capture_output=True, text=True)
  assert found.stdout == ""
