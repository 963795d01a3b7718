"""How far a draft's law is from a teacher's, position by position.

Everything is computed over atoms: the tokens that the teacher names, and as one
more atom all the others together, the tail. A divergence of such lumped laws is
at most that of the whole ones (the data-processing inequality) and equal to it
where the teacher names every token. The tail is an atom like any other, so a
draft gains nothing by taking its mass away.

Axes: K named tokens, A = K + 1 atoms, Vq draft vocabulary.
"""

import jax
import jax.numpy as jnp
from flax import struct
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float

from specjax.training.teacher import log_sum, mark
from specjax.training.types import Teacher

# Log-probability that stands for an impossible event: what one law gives mass
# and the other rules out costs 100 nats, with a slope of zero and not NaN.
IMPOSSIBLE = -100.0


@struct.dataclass
class Laws:
  """p and q over the same atoms; the teacher is a constant.

  `log_p` is not normalised: exp of it sums to what the draft can say,
  1 - exp(log_outside). `log_q` sums to 1.
  """

  log_p: Float[Array, "*b A"]
  log_q: Float[Array, "*b A"]
  log_outside: Float[Array, "*b"]


def lump(logits: Float[Array, "*b Vq"], teacher: Teacher) -> Laws:
  """The atoms of a teacher, and the draft's law over them.

  The vocabulary is only reduced over. Value and gradient together hold, beside
  logits and gradient, a byte a token that marks the named ones; the value alone
  that byte and one array of the logits' size.

  Args:
    logits: the draft's, at the temperature of the teacher.
    teacher: in the draft's ids.
  """
  logits = logits.astype(jnp.float32)
  named = jax.lax.stop_gradient(teacher.log_probs) > -jnp.inf
  own = jnp.take_along_axis(logits, teacher.ids, -1)
  rest = log_sum(logits, ~mark(teacher.ids, named, logits.shape[-1]))
  atoms = jnp.concatenate(
    [jnp.where(named, own, -jnp.inf), rest[..., None]], -1
  )
  log_q = _normalized(atoms)
  log_p = jnp.concatenate([teacher.log_probs, teacher.log_tail[..., None]], -1)
  outside = teacher.log_outside
  if outside is None:
    outside = jnp.full_like(teacher.log_tail, -jnp.inf)
  log_p, outside = jax.lax.stop_gradient((log_p, outside))
  return Laws(log_p.astype(jnp.float32), log_q, outside.astype(jnp.float32))


def forward_kl(laws: Laws) -> Float[Array, "*b"]:
  """KL(p || q) = sum p log(p / q), in nats.

  p is normalised over what the draft can say (EAGLE-3, Li et al. 2025, arXiv
  2503.01840, trains so); 0 where it can say nothing of it.
  """
  log_p, any_ = _sayable(laws)
  terms = jnp.exp(log_p) * (_finite(log_p) - _finite(laws.log_q))
  return jnp.where(any_, terms.sum(-1), 0.0)


def reverse_kl(laws: Laws) -> Float[Array, "*b"]:
  """KL(q || p) = sum q log(q / p), in nats; p normalised as in `forward_kl`."""
  log_p, any_ = _sayable(laws)
  terms = jnp.exp(laws.log_q) * (_finite(laws.log_q) - _finite(log_p))
  return jnp.where(any_, terms.sum(-1), 0.0)


def jsd(laws: Laws, beta: ArrayLike) -> Float[Array, "*b"]:
  """b KL(p || m) + (1 - b) KL(q || m), m = b p + (1 - b) q, in nats.

  Generalised as in DistillSpec (Zhou et al. 2023, arXiv 2310.08461) and GKD
  (Agarwal et al. 2023, arXiv 2306.13649): over b it tends to forward KL as b
  goes to 0, over 1 - b to reverse KL as b goes to 1, and b = 1/2 is symmetric.
  p is normalised as in `forward_kl`.

  Args:
    beta: b, inside (0, 1).
  """
  log_p, any_ = _sayable(laws)
  log_q = laws.log_q
  finite_p, finite_q = _finite(log_p), _finite(log_q)
  middle = jnp.logaddexp(
    jnp.log(beta) + finite_p, jnp.log1p(-jnp.asarray(beta)) + finite_q
  )
  of_p = (jnp.exp(log_p) * (finite_p - middle)).sum(-1)
  of_q = (jnp.exp(log_q) * (finite_q - middle)).sum(-1)
  return jnp.where(any_, beta * of_p + (1 - beta) * of_q, 0.0)


def total_variation(laws: Laws) -> Float[Array, "*b"]:
  """1 - sum min(p, q) = sum max(0, p - q): the chance of a refusal.

  (Leviathan et al. 2023, arXiv 2211.17192, theorem 3.5.) p is not normalised:
  what the draft cannot say is refused. With a tail it is a lower bound, as the
  draft may put that mass on other tokens of the tail. The gradient in the
  logits is q (g - <g, q>) with g = -1[q < p].
  """
  missed = jnp.maximum(jnp.exp(laws.log_p) - jnp.exp(laws.log_q), 0.0)
  return missed.sum(-1) + jnp.exp(laws.log_outside)


def lk_alpha(laws: Laws) -> Float[Array, "*b"]:
  """-log sum min(p, q): total variation's direction, scaled by 1 / acceptance.

  LK losses (Samarin et al. 2026, arXiv 2602.23881). p as in `total_variation`;
  its sum is taken in logs, so that a hopeless draft still has a slope.
  """
  kept = log_sum(jnp.minimum(laws.log_p, laws.log_q))
  return -_finite(kept)


def lk_lambda(laws: Laws, weight: Float[ArrayLike, ""]) -> Float[Array, "*b"]:
  """w KL(p || q) + (1 - w) (1 - sum min(p, q)), LK's other loss.

  Args:
    weight: w in [0, 1], a constant of the whole batch; see `lk_weight`.
  """
  share = jnp.asarray(weight, jnp.float32)
  return share * forward_kl(laws) + (1 - share) * total_variation(laws)


def lk_weight(
  acceptance: Float[ArrayLike, ""], kl_scale: float, kl_decay: float
) -> Float[Array, ""]:
  """w = kl_scale exp(-kl_decay a), no gradient through the acceptance a.

  A bad draft follows KL, whose slope does not vanish; a good one its
  acceptance.
  """
  mean = jax.lax.stop_gradient(jnp.asarray(acceptance, jnp.float32))
  return kl_scale * jnp.exp(-kl_decay * mean)


def _sayable(laws: Laws) -> tuple[Float[Array, "*b A"], Bool[Array, "*b"]]:
  """(log p normalised over the atoms, whether it has any mass there)."""
  return _normalized(laws.log_p), jnp.isfinite(log_sum(laws.log_p))


def _normalized(log_law: Float[Array, "*b A"]) -> Float[Array, "*b A"]:
  total = log_sum(log_law)[..., None]
  possible = log_law > -jnp.inf
  return jnp.where(
    possible, jnp.where(possible, log_law, 0.0) - total, -jnp.inf
  )


def _finite(log_law: Float[Array, "*s"]) -> Float[Array, "*s"]:
  return jnp.where(log_law == -jnp.inf, IMPOSSIBLE, log_law)
