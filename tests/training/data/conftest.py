"""Small models that chat: a table over bytes, and a tiny net."""

import jax.numpy as jnp
import numpy as np
import pytest

from specjax.checkpoints.loaded import LoadedModel
from specjax.models.table import TableModel
from specjax.testing import nets
from specjax.training.data import Conversation
from tests.byte_tokenizer import byte_tokenizer

CHAT = (
  "{% for m in messages %}<{{ m.role }}>{{ m.content }}</s>{% endfor %}"
  "{% if add_generation_prompt %}<answer>{% endif %}"
)
VOCAB = 257


def _table(seed):
  """Six letters and a space in any order, and an end now and then."""
  rng = np.random.default_rng(seed)
  table = np.full((VOCAB, VOCAB), -np.inf, np.float32)
  said = [*b"abcdef ", 256]
  table[:, said] = rng.normal(0, 1, (VOCAB, len(said)))
  return {"table": jnp.asarray(table)}


def _chatty(seed):
  model = TableModel(VOCAB, 1, max_positions=128)
  return LoadedModel(f"table-{seed}", model, _table(seed), byte_tokenizer(CHAT))


@pytest.fixture(scope="session")
def chatty():
  return _chatty(0)


@pytest.fixture(scope="session")
def draft():
  return _chatty(1)


@pytest.fixture(scope="session")
def net():
  model = nets.tiny_net(max_positions=64)
  return LoadedModel("net", model, nets.random_net(model))


@pytest.fixture(scope="session")
def texts():
  """Random texts of a tiny net's 17 tokens, of many lengths."""
  rng = np.random.default_rng(0)
  found = []
  for n, size in enumerate([5, 3, 40, 33, 7, 2, 20, 33, 12, 6]):
    ids = tuple(rng.integers(0, 17, size).tolist())
    start = size // 3
    spans = (
      ((start, size),) if n % 2 else ((start, start + 1), (size - 1, size))
    )
    found.append(Conversation(str(n), "prompt", ids, spans, 1.0, f"p{n // 2}"))
  return found
