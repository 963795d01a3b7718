"""Acceptance by teacher forcing on the target's own texts, a prompt at a time.

Every drafter reads the same texts against the target's whole laws, so that
drafters are compared by prompt, and none by the tokens that a store kept.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree

from specjax.api.lanes import bucket
from specjax.training import teacher
from specjax.training.data.conversations import Conversation
from specjax.training.data.labels import read
from specjax.training.types import Batch, Frozen, Sum, Trainee
from specjax.types import Model


def measure(
  trainee: Trainee,
  params: PyTree,
  frozen: Frozen,
  model: Model,
  texts: Sequence[Conversation],
  temperature: float,
  say: Callable[[str], None] = lambda text: None,
) -> dict[str, Any] | None:
  """Sum of min(p, q) at every depth; at temperature 0 agreement.

  Args:
    params: what was trained.
    frozen: with the weights of `model`, the target.
    texts: that the target answered at this temperature.

  Returns:
    None for no texts; else texts, positions (of depth 1), acceptance by depth,
    and by_prompt, a dict each: prompt_id, total and count by depth, whose
    ratio is the prompt's acceptance.
  """
  if not texts:
    return None
  sums: dict[str, np.ndarray] = {}
  at = jnp.asarray(temperature, jnp.float32)
  for text in texts:
    size = len(text.token_ids)
    tokens, mask = np.zeros((1, bucket(size)), np.int32), text.mask[:size]
    tokens[0, :size] = text.token_ids
    learnt = np.zeros(tokens.shape, bool)
    learnt[0, :size] = mask
    given = (jnp.asarray(tokens), jnp.asarray(learnt), at)
    found = _judge(params, frozen, *given, trainee, model)
    pair = np.asarray([found.total, found.count], np.float64)
    sums[text.prompt_id] = sums.get(text.prompt_id, 0) + pair
  total, count = np.sum(list(sums.values()), 0)
  rates = (total / np.maximum(count, 1)).tolist()
  say(
    f"temperature {temperature:g}: acceptance"
    f" {' '.join(f'{rate:.3f}' for rate in rates)} on {len(texts)} texts"
  )
  return {
    "texts": len(texts),
    "positions": int(count[0]),
    "acceptance": rates,
    "by_prompt": [
      {"prompt_id": name, "total": t.tolist(), "count": c.tolist()}
      for name, (t, c) in sums.items()
    ],
  }


@functools.partial(jax.jit, static_argnames=("trainee", "model"))
def _judge(
  params: PyTree,
  frozen: Frozen,
  tokens: Int[Array, "1 L"],
  mask: Bool[Array, "1 L"],
  temperature: Float[Array, ""],
  trainee: Trainee,
  model: Model,
) -> Sum:
  run = read(model, frozen.target, tokens, trainee.taps)
  laws = teacher.top_k(run.logits, run.logits.shape[-1])
  batch = Batch(tokens, mask, laws, run.taps)
  return trainee.acceptance(params, frozen, batch, temperature)
