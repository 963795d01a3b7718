"""Acceptance rules: pure functions of (proposal, p, keys)."""

from specjax.acceptance.block import BlockVerification
from specjax.acceptance.exact_match import ExactMatch
from specjax.acceptance.kseq import KSeq
from specjax.acceptance.recursive import Recursive
from specjax.acceptance.rejection import (
  BiasedResample,
  LossyLenience,
  Rejection,
)
from specjax.acceptance.synthetic import LossySynthetic
from specjax.acceptance.typical import LossyTypical
from specjax.types import Drafter, Rule

RULES = {
  rule.name: rule
  for rule in (
    Rejection,
    ExactMatch,
    Recursive,
    KSeq,
    BlockVerification,
    BiasedResample,
    LossyLenience,
    LossySynthetic,
    LossyTypical,
  )
}


def make_rule(name: str, **settings) -> Rule:
  """A rule by name.

  Raises:
    ValueError: no such rule.
  """
  if name not in RULES:
    raise ValueError(f"unknown rule {name!r}; choose from {', '.join(RULES)}")
  return RULES[name](**settings)


def check_pair(drafter: Drafter, rule: Rule) -> None:
  """Refuses a drafter whose siblings the rule does not know how to judge.

  Raises:
    ValueError: with the reason.
  """
  if drafter.num_nodes and drafter.siblings not in rule.supports:
    needs = getattr(rule, "needs", "")
    raise ValueError(
      f"rule {rule.name!r} judges {', '.join(sorted(rule.supports))} siblings,"
      f" and {type(drafter).__name__} draws {drafter.siblings!r} ones"
      + (f": {needs}" if needs else "")
    )


def is_lossless(drafter: Drafter, rule: Rule) -> bool:
  """Whether the pair's output law is exactly the target's."""
  return bool(rule.lossless_for) and (
    drafter.num_nodes == 0 or drafter.siblings in rule.lossless_for
  )


__all__ = [
  "RULES",
  "BiasedResample",
  "BlockVerification",
  "ExactMatch",
  "KSeq",
  "LossyLenience",
  "LossySynthetic",
  "LossyTypical",
  "Recursive",
  "Rejection",
  "check_pair",
  "is_lossless",
  "make_rule",
]
