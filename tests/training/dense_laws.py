"""Losses on dense laws in float64, and ours on the same cases."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special

from specjax.training import losses
from specjax.training import teacher as teachers

SIZE = 7
SHAPE = (2, 5)
SAYABLE = jnp.asarray([5, 0, 3])  # of a reduced vocabulary
WEIGHT = 0.3
OF_LAWS = [name for name in losses.LOSSES if name != "sft"]
FUNCTIONS = {
  "forward_kl": losses.forward_kl,
  "reverse_kl": losses.reverse_kl,
  "jsd": lambda z, t: losses.jsd(z, t, 0.3),
  "total_variation": losses.total_variation,
  "lk_alpha": losses.lk_alpha,
  "lk_lambda": lambda z, t: losses.lk_lambda(z, t, WEIGHT),
}


def kl(p, q):
  return special.rel_entr(p, q).sum(-1)


def mixed(p, q, beta=0.3):
  middle = beta * p + (1 - beta) * q
  return beta * kl(p, middle) + (1 - beta) * kl(q, middle)


def kept(p, q):
  return np.minimum(p, q).sum(-1)


DENSE = {  # of laws p and q that both sum to 1
  "forward_kl": kl,
  "reverse_kl": lambda p, q: kl(q, p),
  "jsd": mixed,
  "total_variation": lambda p, q: 0.5 * np.abs(p - q).sum(-1),
  "lk_alpha": lambda p, q: -np.log(kept(p, q)),
  "lk_lambda": lambda p, q: WEIGHT * kl(p, q) + (1 - WEIGHT) * (1 - kept(p, q)),
}


def softmax(logits, temperature=1.0):
  return special.softmax(np.asarray(logits, np.float64) / temperature, -1)


def case(seed, shape=SHAPE, size=SIZE):
  """(the draft's logits, the target's)."""
  rng = np.random.default_rng(seed)
  drawn = rng.normal(0, 2, (2, *shape, size))
  return jnp.asarray(drawn[0], jnp.float32), jnp.asarray(drawn[1], jnp.float32)


def by_atoms(law, teacher):
  """The law of the named tokens and, last, of all others together."""
  named = np.take_along_axis(law, np.asarray(teacher.ids), -1)
  return np.concatenate([named, 1 - named.sum(-1, keepdims=True)], -1)


@functools.cache
def compiled(name):
  """(logits, teacher) -> (values, slope of their sum)."""

  def both(logits, teacher):
    values, back = jax.vjp(lambda z: FUNCTIONS[name](z, teacher), logits)
    return values, back(jnp.ones_like(values))[0]

  return jax.jit(both)


make_top_k = jax.jit(teachers.top_k, static_argnames="k")


def value_of(name, logits, teacher):
  return np.asarray(compiled(name)(logits, teacher)[0])


def sum_slope(name, logits, teacher):
  return np.asarray(compiled(name)(logits, teacher)[1])
