"""A tiny checkpoint, and commands called without a process of their own."""

import dataclasses
import json

import jax
import pytest
import tokenizers
from absl import flags
from absl.testing import flagsaver
from tokenizers import decoders, models, pre_tokenizers

from experiments import command
from specjax import checkpoints
from specjax.models.config import DecoderConfig
from specjax.models.decoder import Transformer
from specjax.text import Tokenizer
from specjax.text.pieces import byte_alphabet

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


def byte_tokenizer(template=None):
  """A token a byte, and one that ends the text."""
  backend = tokenizers.Tokenizer(models.BPE(byte_alphabet(), []))
  backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
  backend.decoder = decoders.ByteLevel()
  backend.add_special_tokens(["</s>"])
  return Tokenizer(backend, eos_ids=(256,), chat_template=template)


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
def run(capsys):
  """Calls a command's main with flags; the settings of jax are put back.

  Without the cache of compiled programs: a process that holds the programs of
  many tests has crashed while it wrote one.
  """
  enabled = jax.config.jax_enable_compilation_cache

  def call(main, *argv):
    given = ["--compilation_cache=", *argv]
    with flagsaver.flagsaver():
      flags.FLAGS.unparse_flags()
      status = command.call(main, ["command", *given])
    out, err = capsys.readouterr()
    return Result(status, out, err)

  yield call
  jax.config.update("jax_enable_compilation_cache", enabled)
