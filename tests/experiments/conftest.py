"""A tiny checkpoint, and commands called without a process of their own."""

import dataclasses
import json

import jax
import pytest
from absl import flags
from absl.testing import flagsaver

from experiments import command
from specjax import checkpoints
from specjax.models.config import DecoderConfig
from specjax.models.decoder import Transformer
from tests.byte_tokenizer import byte_tokenizer

TINY = DecoderConfig(
  vocab_size=264,
  hidden_size=24,
  intermediate_size=32,
  num_layers=2,
  num_heads=6,
  num_kv_heads=2,
  head_dim=4,
  max_positions=96,
)


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
  """Path of a small decoder with random weights and a token a byte."""
  folder = tmp_path_factory.mktemp("models") / "tiny"
  params = Transformer(TINY).init(jax.random.key(0))
  params["embed"]["embedding"] *= 4.0
  checkpoints.save_checkpoint(folder, TINY, params, byte_tokenizer())
  return str(folder)


@dataclasses.dataclass(frozen=True)
class Result:
  status: int
  out: str
  err: str

  @property
  def records(self):
    return [json.loads(line) for line in self.out.splitlines()]


@pytest.fixture
def call_command(capsys):
  """(main, argv, names of arguments) -> (status, stdout, stderr)."""

  def call(main, argv, positional=()):
    with flagsaver.flagsaver():
      flags.FLAGS.unparse_flags()
      status = command.call(main, ["command", *argv], positional)
    out, err = capsys.readouterr()
    return status, out, err

  return call


@pytest.fixture
def run(call_command):
  """Calls a command's main with flags; the settings of jax are put back.

  Without the cache of compiled programs: a process that holds the programs of
  many tests has crashed while it wrote one.
  """
  enabled = jax.config.jax_enable_compilation_cache

  def call(main, *argv):
    return Result(*call_command(main, ["--compilation_cache=", *argv]))

  yield call
  jax.config.update("jax_enable_compilation_cache", enabled)
