"""Whether an output law is the target's, with evidence and a control."""

from specjax.evaluation.exactness.control import Redrawn
from specjax.evaluation.exactness.laws import JointLaw, enumerate_law
from specjax.evaluation.exactness.near_ties import (
  Difference,
  Identity,
  Pair,
  classify,
  compare,
  compare_records,
)
from specjax.evaluation.exactness.samples import Sampler, Samples
from specjax.evaluation.exactness.statistics import Interval
from specjax.evaluation.exactness.verdict import (
  CONTROL,
  SPECULATIVE,
  TARGET,
  Column,
  Evidence,
  measure,
)

__all__ = [
  "CONTROL",
  "SPECULATIVE",
  "TARGET",
  "Column",
  "Difference",
  "Evidence",
  "Identity",
  "Interval",
  "JointLaw",
  "Pair",
  "Redrawn",
  "Sampler",
  "Samples",
  "classify",
  "compare",
  "compare_records",
  "enumerate_law",
  "measure",
]
