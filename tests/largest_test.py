"""The vocabulary is searched for its largest entries and never sorted."""

import pathlib
import re

import jax
import jax.numpy as jnp
import pytest

import specjax
from specjax import filters, sampling
from specjax.training import teacher
from specjax.training.data.labels import likeliest

LOGITS = jax.ShapeDtypeStruct((2, 3, 4096), jnp.float32)


def filtered(logits):
  settings = sampling.make_sampling(2, temperature=0.7, top_k=5, top_p=0.9)
  return jax.tree.leaves(sampling.make_law(logits, settings))


@pytest.mark.parametrize(
  "function",
  [
    lambda x: filters.largest(x, 5)[0][..., -1:],
    lambda x: jax.tree.leaves(likeliest(x, 5)),
    lambda x: jax.tree.leaves(teacher.top_k(x, 5)),
    filtered,
  ],
  ids=["slice", "labels", "teacher", "filters"],
)
def test_no_sort_is_compiled(function):
  text = jax.jit(function).lower(LOGITS).compile().as_text()
  assert "TopK" in text
  assert not re.search(r"\bsort\(", text)


def test_who_looks_at_a_vocabulary_does_it_here():
  root = pathlib.Path(specjax.__file__).parent
  users = {
    str(path.relative_to(root))
    for path in root.rglob("*.py")
    if "lax.top_k(" in path.read_text()
  }
  # Of a toy's few tokens, and differentiated.
  assert users == {"filters.py", "theory/siblings.py"}
