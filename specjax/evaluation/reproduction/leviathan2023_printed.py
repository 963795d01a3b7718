"""What Leviathan, Kalman and Matias 2023 print."""

from typing import NamedTuple

# Table 1: alpha, gamma, operations factor, speed factor, at no draft cost.
TABLE_1 = (
  (0.6, 2, 1.53, 1.96),
  (0.7, 3, 1.58, 2.53),
  (0.8, 2, 1.23, 2.44),
  (0.8, 5, 1.63, 3.69),
  (0.9, 2, 1.11, 2.71),
  (0.9, 10, 1.60, 6.86),
)


class Run(NamedTuple):
  """A row of tables 2 and 4: T5-XXL with a smaller T5 as its draft.

  `expected` is theorem 3.8's factor, `measured` one TPU v4's.
  """

  task: str
  draft: str
  temperature: int
  gamma: int
  alpha: float
  cost: float
  expected: float
  measured: float


RUNS = (
  Run("EnDe", "small", 0, 7, 0.75, 0.02, 3.2, 3.4),
  Run("EnDe", "base", 0, 7, 0.80, 0.04, 3.3, 2.8),
  Run("EnDe", "large", 0, 7, 0.82, 0.11, 2.5, 1.7),
  Run("EnDe", "small", 1, 7, 0.62, 0.02, 2.3, 2.6),
  Run("EnDe", "base", 1, 5, 0.68, 0.04, 2.4, 2.4),
  Run("EnDe", "large", 1, 3, 0.71, 0.11, 2.0, 1.4),
  Run("CNNDM", "small", 0, 5, 0.65, 0.02, 2.4, 3.1),
  Run("CNNDM", "base", 0, 5, 0.73, 0.04, 2.6, 3.0),
  Run("CNNDM", "large", 0, 3, 0.74, 0.11, 2.0, 2.2),
  Run("CNNDM", "small", 1, 5, 0.53, 0.02, 1.9, 2.3),
  Run("CNNDM", "base", 1, 3, 0.55, 0.04, 1.8, 2.2),
  Run("CNNDM", "large", 1, 3, 0.56, 0.11, 1.6, 1.7),
)

ORACLE_GAIN = 0.60  # section 3.5, about

# A bigram draft of English to German: alpha, gamma, factor.
BIGRAM = (0.2, 3, 1.25)

# Appendix A.5, small on EnDe at c = 0.015. Lenience: alpha (table 5), factor
# and its decimals at temperature 1; alpha and factor of gamma 8 at 0.
LENIENT_COST, LENIENT_GAMMA = 0.015, 8
LENIENT_SAMPLED = {
  1.0: (0.62, 2.5, 1),
  0.5: (0.71, 3.1, 1),
  0.3: (0.76, 3.6, 1),
  0.1: (0.84, 5.0, 0),
}
LENIENT_GREEDY = {
  1.0: (0.75, 3.3),
  0.5: (0.75, 3.3),
  0.3: (0.80, 3.9),
  0.1: (0.87, 4.9),
}
