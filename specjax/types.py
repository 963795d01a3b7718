"""What flows through one round of speculative decoding.

Axes: B rows, N judged nodes, R riders, W = 1 + N + R slots (slot 0 is the last
committed token, slot i + 1 is node i), D largest depth, S = D + 1 kept slots or
a prefill chunk, V vocabulary, U rows of q, H slots with logits, C cache slots,
F columns of scratch, T token buffer. p is always the target's law, q the
draft's.
"""

from typing import Any, Literal, Protocol, runtime_checkable

from flax import struct
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

Siblings = Literal["chain", "point", "iid", "without_replacement"]

# Why a row stopped; 0 while it runs.
RUNNING, EOS, STOP, LENGTH = 0, 1, 2, 3
FINISH_REASONS = (None, "eos", "stop", "length")

# Columns of Rows.history.
DRAFTED, ACCEPTED, EMITTED, WIDTH = 0, 1, 2, 3


@struct.dataclass
class Sampling:
  """The law asked for, a value a row.

  `uses` (static) names the filters that are traced at all; without
  "temperature" every row is greedy. A temperature of 0 is greedy, a top_k of 0,
  a top_p of 1 and a min_p of 0 are off.
  """

  temperature: Float[Array, "B"]
  top_k: Int[Array, "B"]
  top_p: Float[Array, "B"]
  min_p: Float[Array, "B"]
  uses: frozenset[str] = struct.field(pytree_node=False, default=frozenset())


@struct.dataclass
class Law:
  """Next-token laws, factored: a draw is made from exactly what is stored.

  prob(x) = exp(scaled[x] - log_norm) where scaled[x] >= cutoff, else 0. A
  greedy row stores 0 at its argmax and -inf elsewhere.
  """

  scaled: Float[Array, "B U V"]
  cutoff: Float[Array, "B U"]
  log_norm: Float[Array, "B U"]


@struct.dataclass
class Streams:
  """Random streams of a round; see sampling.py for what is drawn with what."""

  row: Key[Array, "B"]
  round_start: Int[Array, "B"]


@struct.dataclass
class Nodes:
  """A forest under slot 0.

  `parents[i]` is a *slot*: 0 for the last committed token, j + 1 for node j.
  Parents precede children, siblings stand in draw order, judged nodes are
  packed first (`count` of them are live in a row) and riders follow. A chain
  has parents 0, 1, 2, ...
  """

  tokens: Int[Array, "B N"]
  parents: Int[Array, "#B N"]
  count: Int[Array, "B"]
  rider_count: Int[Array, "B"]
  num_judged: int = struct.field(pytree_node=False)
  max_depth: int = struct.field(pytree_node=False)


@struct.dataclass
class Slots:
  """Input of one pass, nothing about trees in it.

  mask[b, i, j] lets slot i attend to fresh column j; the columns are those of
  the scratch (if any), then the pass's own W slots. Every slot attends to
  itself and to the whole cache of its row.
  """

  tokens: Int[Array, "B W"]
  positions: Int[Array, "B W"]
  mask: Bool[Array, "#B W _"]


@struct.dataclass
class Fresh:
  """K/V that passes made and no cache holds yet: [B K W Dh] twice a layer."""

  kv: tuple[tuple[Array, Array], ...]


@struct.dataclass
class Cache:
  """K/V of the first `length` tokens of each row.

  Read-only inside a pass and inside `propose`; written once a round, by
  commit. Slots at and past `length` are dead.
  """

  layers: tuple[PyTree, ...]
  length: Int[Array, "B"]


@struct.dataclass
class Pass:
  """Output of one pass: logits of the slots read out, and fresh K/V of all."""

  logits: Float[Array, "B H V"]
  fresh: Fresh
  taps: dict[str, Array] = struct.field(default_factory=dict)


@struct.dataclass
class Proposal:
  """What a drafter proposes.

  `q` None says that every node is a point mass, lawful however the token was
  found. Else node i was really drawn from row `q_row[i]` of q. `aux` is for the
  policy: confidences and the like. `siblings`, one of `Siblings`, is for the
  rule: the loop writes what the drafter declares there, so a drafter leaves it
  as it is.
  """

  nodes: Nodes
  q: Law | None = None
  q_row: Int[Array, "#B N"] | None = None
  aux: PyTree = None
  siblings: str = struct.field(pytree_node=False, default="chain")


@struct.dataclass
class Verdict:
  """slots[:, 0] = 0, then the kept nodes' slots; `accepted` of them are nodes.

  next_token is drawn at slots[accepted]; entries past it repeat the last.
  """

  slots: Int[Array, "B S"]
  accepted: Int[Array, "B"]
  next_token: Int[Array, "B"]


@struct.dataclass
class Feedback:
  """What a drafter may learn from, aligned and `count` long a row.

  inputs[i] -> taps[i] -> emitted[i]: the token fed, the target's features at
  it, the token that followed. A prefill chunk is the same thing with the prompt
  as the emitted tokens (`slots` and `logits` are then None). In a round `slots`
  are the kept slots and `logits` holds the rows of the slots that were read
  out, kept or not, zero past the width that ran. Where drafters share a pass
  `slots`, `accepted`, `nodes` and `logits` are those of each one's own nodes,
  and `accepted` may be less than count - 1.
  """

  inputs: Int[Array, "B S"]
  emitted: Int[Array, "B S"]
  count: Int[Array, "B"]
  taps: dict[str, Array]
  slots: Int[Array, "B S"] | None = None
  accepted: Int[Array, "B"] | None = None  # nodes kept and emitted
  nodes: Nodes | None = None
  logits: Float[Array, "B W V"] | None = None


@struct.dataclass
class Look:
  """What a round proposed and how the target saw it, kept for a reader.

  `top` are the target's likeliest K tokens at every slot. `accepted` is the
  rule's, before stops and limits cut. q is NaN for point masses. A greedy row's
  p are those of temperature 1.
  """

  tokens: Int[Array, "B N"]
  parents: Int[Array, "B N"]
  count: Int[Array, "B"]
  p: Float[Array, "B N"]  # of each node, at its parent's slot
  q: Float[Array, "B N"]
  slots: Int[Array, "B S"]
  accepted: Int[Array, "B"]
  p_emitted: Float[Array, "B S"]
  top: Int[Array, "B W K"]
  p_top: Float[Array, "B W K"]


@struct.dataclass
class Rows:
  """State of the requests. Every leaf leads with B: rows join and leave by one
  tree map. The cache of an active row holds all its tokens but the last.
  """

  tokens: Int[Array, "B T"]
  length: Int[Array, "B"]  # committed tokens, prompt included
  prompt_length: Int[Array, "B"]
  limit: Int[Array, "B"]  # largest length
  active: Bool[Array, "B"]
  finish: Int[Array, "B"]
  key: Key[Array, "B"]
  sampling: Sampling
  max_draft: Int[Array, "B"]
  rounds: Int[Array, "B"]
  history: Int[Array, "B rounds 4"]  # drafted, accepted, emitted, width
  cache: Cache
  logprobs: Float[Array, "B T"] | None = None  # of emitted tokens, raw
  look: Look | None = None  # at the last round, where it is asked for
  constraint: PyTree = None
  draft: PyTree = None
  control: PyTree = None


@struct.dataclass
class Params:
  """What rows share: weights of the target and of the draft, and tables."""

  target: PyTree
  draft: PyTree = None
  constraint: PyTree = None


@runtime_checkable
class Model(Protocol):
  """A target or a draft: a frozen, hashable value; weights are passed in."""

  @property
  def vocab_size(self) -> int: ...

  @property
  def max_positions(self) -> int: ...

  def init_cache(self, batch: int, capacity: int) -> Cache: ...

  def __call__(
    self,
    params: PyTree,
    slots: Slots,
    cache: Cache,
    *,
    scratch: Fresh | None = None,
    readout: Int[Array, "#B H"] | None = None,
    taps: tuple[str, ...] = (),
  ) -> Pass:
    """Runs the slots against the cache without writing it.

    Args:
      params: the weights.
      slots: tokens, absolute positions and the mask over fresh columns.
      cache: K/V of the committed tokens; all of `cache.length` is visible.
      scratch: K/V of earlier passes of this round, the mask's first columns.
      readout: slots whose logits are wanted; None is all of them, and an array
        with H = 0 skips the head.
      taps: names of features wanted, each [B W F].
    """
    ...


@runtime_checkable
class Drafter(Protocol):
  """A method's proposing half: a frozen, hashable value of static choices.

  Attributes:
    siblings: how nodes with one parent were drawn, one of `Siblings`.
    num_nodes, num_riders, max_depth: static sizes of its proposals.
    widths: pass widths to compile, ascending, the last 1 + nodes + riders.
    taps: target features it wants to observe.
    reads_logits: whether it wants every slot's logits in Feedback.
  """

  @property
  def siblings(self) -> str: ...
  @property
  def num_nodes(self) -> int: ...
  @property
  def num_riders(self) -> int: ...
  @property
  def max_depth(self) -> int: ...
  @property
  def widths(self) -> tuple[int, ...]: ...
  @property
  def taps(self) -> tuple[str, ...]: ...
  @property
  def reads_logits(self) -> bool: ...

  def init(self, params: Params, batch: int, capacity: int) -> PyTree:
    """State of `batch` empty rows; every leaf leads with B."""
    ...

  def observe(self, params: Params, state: PyTree, seen: Feedback) -> PyTree:
    """Learns from a prefill chunk or from a round's kept path."""
    ...

  def propose(
    self,
    params: Params,
    state: PyTree,
    rows: Rows,
    budget: Int[Array, "B"],
    keys: Streams,
  ) -> tuple[Proposal, PyTree]:
    """Proposes nodes no deeper than `budget` a row; a budget of 0 is none."""
    ...


@runtime_checkable
class Rule(Protocol):
  """Accepts and rejects. `lossless_for` names the sibling laws that it keeps
  exact; empty for a lossy rule. A rule that does not support all of them may
  have `needs`, the reason in one line: a refusal quotes it."""

  @property
  def name(self) -> str: ...
  @property
  def supports(self) -> frozenset[str]: ...
  @property
  def lossless_for(self) -> frozenset[str]: ...

  def __call__(self, proposal: Proposal, p: Law, keys: Streams) -> Verdict: ...


@runtime_checkable
class Policy(Protocol):
  """Gives each row its draft budget before anything is drafted."""

  def init(self, batch: int) -> Any: ...
  def budget(self, control: Any, rows: Rows) -> Int[Array, "B"]: ...
  def update(
    self, control: Any, rows: Rows, proposal: Proposal, seen: Feedback
  ) -> Any:
    """After a round, for `rows` as they were before it."""
    ...


@runtime_checkable
class Constraint(Protocol):
  """Stops, penalties and biases: state a row, extended along each path."""

  def init(
    self,
    tables: Any,
    tokens: Int[Array, "B T"],
    prompt_length: Int[Array, "B"],
  ) -> Any:
    """State of rows with only a prompt; every leaf leads with B."""
    ...

  def apply(
    self,
    tables: Any,
    state: Any,
    slots: Slots,
    logits: Float[Array, "B W V"],
  ) -> Float[Array, "B W V"]:
    """Logits at every slot, the path to it taken into account."""
    ...

  def advance(
    self,
    tables: Any,
    state: Any,
    emitted: Int[Array, "B S"],
    count: Int[Array, "B"],
  ) -> tuple[Any, Int[Array, "B"], Int[Array, "B"]]:
    """(state, count cut at a stop, finish code) after the emitted tokens."""
    ...
