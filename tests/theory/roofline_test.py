"""Step times against tables of chips, hand arithmetic and printed figures."""

import dataclasses

import jax
import numpy as np
import pytest

from specjax.models.presets import PRESETS
from specjax.theory import devices, positions, roofline, rounds, shapes
from specjax.theory.roofline import Setup
from specjax.theory.shapes import ModelShape

GIB, KIB = 2**30, 2**10
# Parameters and KiB of cache a token at 16 bits.
SIZES = {
  "qwen3-0.6b": (596_049_920, 112),
  "qwen3-1.7b": (1_720_574_976, 112),
  "qwen3-8b": (8_190_735_360, 144),
  "llama-3.2-1b": (1_235_814_400, 32),
  "llama-3.1-8b": (8_030_261_248, 128),
  "smollm2-135m": (134_515_008, 22.5),
  "smollm2-360m": (361_821_120, 40),
}
# Operations a byte at the ridge; ms to read Qwen3-8B at 16 bits.
CHIPS = {
  "a100-80gb": (153, 8.03),
  "h100": (295, 4.89),
  "h200": (206, 3.41),
  "tpu-v4": (229, 13.65),
  "tpu-v5e": (240, 20.0),
  "tpu-v5p": (166, 5.92),
  "tpu-v6e": (560, 10.0),
}
QWEN, SMALL = (
  shapes.shape_of(PRESETS[name]) for name in ("qwen3-8b", "qwen3-0.6b")
)
H100 = devices.device("h100")
REACHED = Setup(bandwidth_share=0.8, operations_share=0.75)
TINY = ModelShape(1000, 1000, 2, 4, 2, 8, 32)
UNIT = devices.Device(100.0, 10.0, 5000.0, 4.0, "by hand")


@pytest.mark.parametrize("name", SIZES)
def test_sizes(name):
  parameters, kib = SIZES[name]
  shape = shapes.shape_of(PRESETS[name])
  assert shape.parameters == parameters
  assert roofline.cache_bytes(shape) == kib * KIB


def test_head_of_a_target():
  """One Llama-3.1-8B layer and a projection; the table is the target's."""
  head = shapes.head_of(PRESETS["llama-3.1-8b"])
  layer = 4096 * (4096 * 2 + 1024 * 2) + 3 * 4096 * 14336 + 2 * 4096
  assert head.stored == layer + 2 * 4096**2
  assert head.parameters == head.stored + 128256 * 4096
  assert roofline.cache_bytes(head) == 128 * KIB / 32


@pytest.mark.parametrize("name", CHIPS)
def test_chips(name):
  ridge, milliseconds = CHIPS[name]
  chip = devices.device(name)
  assert chip.ridge == pytest.approx(ridge, abs=0.7)
  read = roofline.weight_bytes(QWEN.parameters) / chip.bandwidth * 1e3
  assert read == pytest.approx(milliseconds, rel=2e-3)


def test_unknown_chip():
  with pytest.raises(ValueError, match="unknown device 'abacus'; known: a100"):
    devices.device("abacus")


def test_a_7b_model_on_an_h100():
  """14 GB a token are about 4 ms and 240 tokens/s; 14 GFLOP about 14 us."""
  model = ModelShape(7 * 10**9, 7 * 10**9, 32, 32, 32, 128, 4096)
  ours = roofline.model_pass(model, H100, Setup(), 1, 0)
  assert float(ours.bytes) == pytest.approx(14e9)
  assert float(ours.operations) == pytest.approx(14e9)
  assert 1 / float(ours.seconds) == pytest.approx(240, rel=0.01)
  assert float(ours.arithmetic_seconds) == pytest.approx(14e-6, rel=0.02)


def test_verify_pass_of_qwen3_8b():
  """Printed: 15.26 GiB weights; 15.6 GiB, .09 TFLOP, 6.23 and .12 ms a pass."""
  assert QWEN.parameters * 2 / GIB == pytest.approx(15.26, abs=0.005)
  context = 2048 + 128  # the middle of 256 new tokens
  ours = roofline.model_pass(
    QWEN, H100, REACHED, np.asarray([1, 32, 64, 1024]), context, 5
  )
  assert float(ours.bytes[0]) / GIB == pytest.approx(15.6, abs=0.05)
  assert float(ours.operations[0]) / 1e12 == pytest.approx(0.09, abs=0.005)
  assert float(ours.memory_seconds[0]) == pytest.approx(6.23e-3, rel=1e-3)
  assert float(ours.arithmetic_seconds[0]) == pytest.approx(0.12e-3, abs=5e-6)
  printed = [0.98, 0.62, 0.45, 0.05]
  np.testing.assert_allclose(ours.idle_share, printed, atol=0.01)


def test_the_larger_of_reads_and_arithmetic():
  ours = roofline.model_pass(TINY, UNIT, Setup(), np.asarray([1, 9]), 10, 5)
  # 2 * 2 layers * 2 heads * 8 = 64 numbers; 4 * 2 * 4 * 8 = 256 operations.
  np.testing.assert_allclose(ours.bytes, [2000 + 1280, 2000 + 9 * 1280])
  np.testing.assert_allclose(ours.operations, [5 * 4560, 45 * 4560])
  np.testing.assert_allclose(ours.seconds, [328, 45 * 45.6], rtol=1e-6)
  fixed = roofline.model_pass(TINY, UNIT, Setup(fixed_seconds=7.0), 1, 10, 3)
  assert float(fixed.seconds) == pytest.approx(335)


@pytest.mark.parametrize("bits, share", [(16, 1), (8, 0.5), (4, 0.25)])
def test_bits_of_weights_and_cache(bits, share):
  setup = Setup(weight_bits=bits)
  ours = roofline.model_pass(TINY, UNIT, setup, 2, 10)
  assert float(ours.bytes) == 2000 * share + 2560
  setup = Setup(cache_bits=bits)
  ours = roofline.model_pass(TINY, UNIT, setup, 2, 10)
  assert float(ours.bytes) == 2000 + 2560 * share
  assert float(ours.operations) == 2 * 4560


def test_tensor_parallelism():
  setup = Setup(ways=2, hop_seconds=0.5)
  ours = roofline.model_pass(TINY, UNIT, setup, 3, 10, 5)
  assert float(ours.bytes) == 1000 + 3 * 640
  assert float(ours.operations) == 15 * 4560 / 2
  # Four sums of 15 * 32 numbers: half of the 960 bytes twice over a link of 4
  # bytes/s, and two hops each.
  assert float(ours.exchange_seconds) == pytest.approx(4 * (240 + 1))
  expected = 15 * 4560 / 200 + 4 * 241
  assert float(ours.seconds) == pytest.approx(expected)
  # Two key-value heads over four devices are held twice.
  assert roofline.cache_bytes(TINY, Setup(ways=4)) == 64
  lonely = devices.Device(1.0, 1.0, 1.0, 0.0, "by hand")
  with pytest.raises(ValueError, match="2 ways need a device with links"):
    roofline.model_pass(TINY, lonely, Setup(ways=2), 1, 1)


def test_an_8b_target_with_a_1b_draft_by_batch():
  """A fit to the printed curve, not its own constants: within 5 %.

  It counts no arithmetic of attention.
  """
  chip = devices.Device(221 * 2.6e12, 2.6e12, 80e9, 0.0, "fitted")
  setup = Setup(fixed_seconds=0.3e-3)
  target, draft = (
    dataclasses.replace(shapes.shape_of(PRESETS[name]), num_heads=0)
    for name in ("llama-3.1-8b", "llama-3.2-1b")
  )
  batch = np.asarray([1, 64, 128, 256])
  drafter = rounds.separate(draft)

  def play(alpha):
    tokens = positions.expected_tokens(positions.falling(alpha, 1.0, 4))
    return rounds.speculative_round(
      target, drafter, chip, setup, batch, 1024, 4, tokens
    )

  ours = play(0.8)
  np.testing.assert_allclose(ours.speedup, [1.90, 1.81, 1.49, 1.25], rtol=0.05)
  assert float(play(0.6).speedup[-1]) == pytest.approx(0.86, rel=0.05)
  assert float(ours.plain.seconds[0]) == pytest.approx(6.5e-3, rel=0.01)
  cost = ours.draft.seconds[0] / ours.plain.seconds[0]
  assert float(cost) == pytest.approx(0.19, rel=0.05)
  ratio = ours.verify.seconds[-1] / ours.plain.seconds[-1]
  assert float(ratio) == pytest.approx(1.76, rel=0.05)


def test_a_round_by_hand():
  drafter = rounds.separate(ModelShape(100, 100, 1, 2, 1, 8, 16))
  ours = rounds.speculative_round(TINY, drafter, UNIT, Setup(), 2, 10, 3, 2.5)
  plain, verify = 4560 / 10, max(4560 / 10, 8 * 4560 / 100 / 2 * 2)
  draft = (200 + 2 * 10 * 32) / 10
  assert float(ours.draft.seconds) == pytest.approx(draft)
  assert float(ours.seconds) == pytest.approx(3 * draft + verify)
  assert float(ours.speedup) == pytest.approx(
    2.5 * plain / (3 * draft + verify)
  )
  assert float(ours.draft_share) == pytest.approx(
    3 * draft / (3 * draft + verify)
  )
  each = 200 + 10 * 4 * 2 * 8
  assert float(ours.operations_factor) == pytest.approx(
    (3 * each + 4 * 2 * 1000 + 4 * 2560) / (2.5 * 4560)
  )
  assert float(ours.tokens_per_second) == pytest.approx(
    5 / (3 * draft + verify)
  )


def test_drafts_without_weights_cost_nothing():
  """Arithmetic is then theorem 3.11 at c hat = 0: 1.64 at .75 and 4."""
  tokens = positions.expected_tokens(positions.falling(0.75, 1.0, 4))
  ours = rounds.speculative_round(
    QWEN, rounds.lookup(), H100, REACHED, 1, 2048, 4, tokens
  )
  assert float(ours.draft_share) == 0.0
  assert float(ours.operations_factor) == pytest.approx(1.64, abs=0.005)
  assert float(ours.speedup) == pytest.approx(float(tokens), rel=1e-3)


def test_a_draft_on_part_of_the_cache_gains_with_the_batch():
  tokens = positions.expected_tokens(positions.falling(0.8, 1.0, 3))
  ours = rounds.speculative_round(
    QWEN,
    rounds.sparse_self(QWEN, 512),
    H100,
    REACHED,
    np.asarray([[1, 8, 64, 256]]),
    np.asarray([[500], [100_000]]),
    3,
    tokens,
  )
  short, long = np.asarray(ours.speedup)
  assert (np.diff(long) > 0).all() and long[-1] > 2
  assert (short < 1).all()


def test_memory_capacity():
  # 5000 bytes, 2000 of weights, 64 numbers of 2 bytes a token.
  ours = rounds.largest_batch(TINY, None, UNIT, Setup(), 5, 1.0)
  assert float(ours) == (5000 - 2000) // (5 * 128)
  draft = ModelShape(100, 100, 1, 2, 1, 8, 16)
  ours = rounds.largest_batch(
    TINY, rounds.separate(draft), UNIT, Setup(), np.asarray([5, 5000]), 1.0
  )
  np.testing.assert_array_equal(ours, [2800 // (5 * 160), 0])
  alone = rounds.largest_batch(TINY, rounds.lookup(), UNIT, Setup(), 5, 1.0)
  assert float(alone) == 4
  ours = rounds.at_capacity(
    TINY, rounds.separate(draft), UNIT, Setup(), 5, 2, 2.0, 1.0
  )
  assert (float(ours.plain_batch), float(ours.batch)) == (4.0, 3.0)
  plain = roofline.model_pass(TINY, UNIT, Setup(), 4, 5)
  assert float(ours.plain_tokens_per_second) == pytest.approx(
    4 / float(plain.seconds)
  )
  third = rounds.speculative_round(
    TINY, rounds.separate(draft), UNIT, Setup(), 3, 5, 2, 2.0
  )
  assert float(ours.speedup) == pytest.approx(
    float(third.tokens_per_second) * float(plain.seconds) / 4
  )


def test_jit_and_grids():
  drafter = rounds.separate(SMALL)

  def play(batch, context, gamma):
    return rounds.speculative_round(
      QWEN, drafter, H100, REACHED, batch, context, gamma, 2.0
    ).speedup

  batch = np.asarray([1.0, 32.0])[:, None, None]
  context = np.asarray([512.0, 2048.0, 8192.0])[None, :, None]
  gamma = np.arange(4.0)[None, None]
  grid = jax.jit(play)(batch, context, gamma)
  assert grid.shape == (2, 3, 4)
  one = jax.jit(play)(32.0, 2048.0, 3.0)
  assert float(grid[1, 1, 3]) == pytest.approx(float(one), rel=1e-6)
  slope = jax.jit(jax.grad(play))(32.0, 2048.0, 3.0)
  assert np.isfinite(float(slope)) and float(slope) < 0
