"""Acceptance on given texts: by prompt, against whole laws."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from specjax.testing.nets import random_net, tiny_net
from specjax.training import forced
from specjax.training.data import Conversation
from specjax.training.data.labels import read
from specjax.training.draft_model import DraftTrainee
from specjax.training.draft_sizes import cut_config
from specjax.training.types import Frozen

NET = tiny_net()
PARAMS = random_net(NET)
TEXTS = [
  Conversation(str(n), "prompt", tuple(ids), ((2, len(ids)),), 1.0, name)
  for n, (name, ids) in enumerate(
    [("a", [1, 2, 3, 4, 5]), ("b", [6, 7, 8]), ("a", [9, 1, 9, 1, 9, 1])]
  )
]


def _trainee(layers, vocabulary=None):
  return DraftTrainee(
    cut_config(NET.config, len(layers), vocabulary),
    NET.config,
    layers=layers,
    train_head=False,
  )


def _measure(trainee, ids=None, temperature=1.0):
  frozen = Frozen(PARAMS, ids)
  params = trainee.init(jax.random.key(0), frozen)
  return forced.measure(trainee, params, frozen, NET, TEXTS, temperature)


def test_a_draft_that_is_the_target_is_always_kept():
  got = _measure(_trainee((0, 1)))
  assert got["texts"] == 3 and got["positions"] == 3 + 1 + 4
  assert got["acceptance"] == pytest.approx([1.0], abs=1e-5)


@pytest.mark.parametrize("reduced", [False, True])
def test_it_is_what_two_laws_have_in_common(reduced):
  ids = jnp.asarray([0, 1, 2, 5, 9, 11, 16]) if reduced else None
  trainee = _trainee((0,), 7 if reduced else None)
  got = _measure(trainee, ids)
  drafter = trainee.drafter(1)
  frozen = Frozen(PARAMS, ids)
  draft = trainee.draft_params(trainee.init(jax.random.key(0), frozen), frozen)
  sums = {}
  for text in TEXTS:
    tokens = jnp.asarray([text.token_ids])
    p = jax.nn.softmax(read(NET, PARAMS, tokens).logits)
    q = jax.nn.softmax(read(drafter.model, draft, tokens).logits)
    kept = np.minimum(p, q).sum(-1)[0][text.mask]
    sums.setdefault(text.prompt_id, []).extend(kept.tolist())
  for one in got["by_prompt"]:
    kept = sums[one["prompt_id"]]
    assert one["count"] == [len(kept)]
    np.testing.assert_allclose(one["total"], [sum(kept)], rtol=1e-4)
  everything = [x for kept in sums.values() for x in kept]
  assert got["acceptance"][0] == pytest.approx(np.mean(everything), rel=1e-4)


def test_at_temperature_0_it_is_agreement():
  got = _measure(_trainee((0, 1)), temperature=0.0)
  assert got["acceptance"] == [1.0]
  part = _measure(_trainee((0,)), temperature=0.0)
  counts = [one["total"][0] for one in part["by_prompt"]]
  assert counts == [round(count) for count in counts]


def test_no_texts_are_no_figure():
  trainee = _trainee((0,))
  assert forced.measure(trainee, {}, Frozen(PARAMS), NET, [], 1.0) is None
