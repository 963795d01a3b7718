"""Tokenizers against references, and what surrounds them."""

import dataclasses
import json

import pytest

from specjax.text import TextError, Tokenizer, compare_vocabularies


@pytest.mark.parametrize("kind", ["smollm", "gpt-2", "llama-bpe", "qwen2"])
def test_byte_level_ids(metadata, reference, kind):
  tokenizer = Tokenizer.load(
    metadata
    | {"tokenizer.ggml.pre": kind, "tokenizer.ggml.add_bos_token": False}
  )
  expected = reference["byte_level"][kind]
  for text, ids in zip(reference["texts"], expected, strict=True):
    assert tokenizer.encode(text) == ids, text


def test_the_references_differ_where_the_families_do(reference):
  by_kind = reference["byte_level"]
  assert len({json.dumps(ids) for ids in by_kind.values()}) == 4


def test_sentencepiece_ids(sentencepiece, reference):
  spm = reference["sentencepiece"]
  for text, ids in zip(spm["texts"], spm["ids"], strict=True):
    assert sentencepiece.encode(text, add_special=False) == ids, text
    # SentencePiece itself spells a space so.
    assert sentencepiece.decode(ids) == text.replace("\u2581", " ")


def test_bytes_of_tokens_are_exact(smollm2, sentencepiece, reference):
  for text in reference["texts"]:
    pieces = smollm2.token_bytes()
    ids = smollm2.encode(text)
    assert b"".join(pieces[i] for i in ids) == text.encode()
    assert smollm2.decode(ids, skip_special=False) == text
    pieces = sentencepiece.token_bytes()
    ids = sentencepiece.encode(text, add_special=False)
    joined = b"".join(pieces[i] for i in ids)
    assert joined == (" " + text if text else "").replace("▁", " ").encode()


def test_decode_agrees_with_the_library(smollm2, sentencepiece, reference):
  for tokenizer in (smollm2, sentencepiece):
    for text in reference["texts"]:
      ids = tokenizer.encode(text)
      assert tokenizer.decode(ids) == tokenizer.backend.decode(ids)


def test_smollm2(smollm2):
  assert smollm2.vocab_size == 49152 == len(smollm2.token_bytes())
  assert smollm2.eos_ids == (0, 2)
  assert smollm2.id_to_token(2) == "<|im_end|>"
  assert smollm2.token_bytes()[2] == b"<|im_end|>"
  assert smollm2.encode("hi", add_special=True) == smollm2.encode("hi", False)
  assert smollm2.decode([1, *smollm2.encode("hi"), 2, 49152]) == "hi"
  # It does not add BOS, so a text may begin with it twice.
  assert smollm2.encode("<|im_start|><|im_start|>") == [1, 1]


def test_bos_is_added_once(sentencepiece, metadata):
  assert sentencepiece.encode("")[0] == 1
  assert sentencepiece.encode("the")[0] == 1
  assert sentencepiece.encode("<s>the")[:2].count(1) == 1
  assert 1 not in sentencepiece.encode("the", add_special=False)
  # Llama 3 files without the flag mean it.
  llama3 = {
    key: value for key, value in metadata.items() if "add_bos" not in key
  } | {"tokenizer.ggml.pre": "llama-bpe"}
  assert Tokenizer.load(llama3).encode("hi")[0] == 1


def test_llama_3_takes_a_word_that_is_a_token_whole():
  tokens = ["a", "b", "c", "ab", "abc"]
  metadata = {
    "tokenizer.ggml.model": "gpt2",
    "tokenizer.ggml.tokens": tokens,
    "tokenizer.ggml.merges": ["a b"],
    "tokenizer.ggml.add_bos_token": False,
  }
  for kind, expected in (("llama-bpe", [4]), ("gpt-2", [3, 2])):
    tokenizer = Tokenizer.load(metadata | {"tokenizer.ggml.pre": kind})
    assert tokenizer.encode("abc") == expected


@pytest.mark.parametrize(
  "changes,match",
  [
    ({"model": "bert"}, "model 'bert' is not supported"),
    ({"model": None}, "None is not supported"),
    ({"pre": "tekken"}, "pre-tokenizer 'tekken' is not supported"),
    ({"tokens": None}, "lack tokenizer.ggml.tokens"),
    ({"tokens": ["a", "a"], "token_type": [1, 1]}, "a token twice"),
    ({"token_type": [1]}, "49152 tokens but 1 token types"),
    ({"merges": None}, "lack tokenizer.ggml.merges"),
    ({"merges": ["a"]}, "merge is not two tokens"),
    ({"merges": ["zz@ @zz"]}, "unsound"),
    ({"add_bos_token": True, "bos_token_id": 10**6}, "BOS token but name none"),
  ],
)
def test_unsound_metadata(metadata, changes, match):
  changed = {f"tokenizer.ggml.{key}": value for key, value in changes.items()}
  with pytest.raises(TextError, match=match) as caught:
    Tokenizer.load(metadata | changed)
  assert "\n" not in str(caught.value)


def test_padding_has_no_bytes(metadata):
  kinds = list(metadata["tokenizer.ggml.token_type"])
  kinds[-1] = 5
  padded = Tokenizer.load(metadata | {"tokenizer.ggml.token_type": kinds})
  assert padded.token_bytes()[-1] == b""
  assert padded.decode([49151]) == ""


def test_a_folder_gives_the_same_tokenizer(smollm2, reference, tmp_path):
  smollm2.save(tmp_path)
  loaded = Tokenizer.load(tmp_path)
  assert loaded.eos_ids == smollm2.eos_ids
  assert loaded.bos_id == smollm2.bos_id
  assert loaded.chat_template == smollm2.chat_template
  compare_vocabularies(smollm2, loaded)
  for text in reference["texts"]:
    assert loaded.encode(text) == smollm2.encode(text)


def test_settings_of_a_folder(smollm2, tmp_path):
  smollm2.save(tmp_path)
  write = {
    "tokenizer_config.json": {
      "eos_token": {"content": "<|im_end|>", "lstrip": False},
      "chat_template": [
        {"name": "tool_use", "template": "no"},
        {"name": "default", "template": "yes"},
      ],
    },
    "generation_config.json": {"eos_token_id": [2, 17]},
    "config.json": {"eos_token_id": 18},
  }
  for name, value in write.items():
    (tmp_path / name).write_text(json.dumps(value))
  tokenizer = Tokenizer.load(tmp_path)
  assert tokenizer.eos_ids == (0, 2, 17, 18)
  assert tokenizer.bos_id is None
  assert tokenizer.chat_template == "yes"
  (tmp_path / "chat_template.jinja").write_text("from the file")
  assert Tokenizer.load(tmp_path).chat_template == "from the file"


def test_truncation_and_padding_of_a_folder_are_ignored(smollm2, tmp_path):
  smollm2.save(tmp_path)
  state = json.loads((tmp_path / "tokenizer.json").read_text())
  state["truncation"] = {
    "direction": "Right", "max_length": 2, "strategy": "LongestFirst",
    "stride": 0,
  }  # fmt: skip
  (tmp_path / "tokenizer.json").write_text(json.dumps(state))
  assert len(Tokenizer.load(tmp_path).encode("one two three four")) > 2


def test_unsound_folders(tmp_path):
  with pytest.raises(TextError, match="tokenizer.json"):
    Tokenizer.load(tmp_path)
  (tmp_path / "tokenizer.json").write_text("{")
  with pytest.raises(TextError, match="tokenizer.json"):
    Tokenizer.load(tmp_path)


def test_lone_surrogates_are_refused(smollm2):
  with pytest.raises(TextError, match="not valid Unicode"):
    smollm2.encode("a\ud800b")


def test_vocabularies_of_a_family_agree(smollm2):
  ours = smollm2.token_bytes()
  compare_vocabularies(smollm2, smollm2)
  # Padded widths on either side, and tokens that the target alone knows.
  compare_vocabularies(ours + [b""] * 100, ours)
  compare_vocabularies(ours, ours + [b""] * 100)
  compare_vocabularies(ours + [b"<tool>"], ours)


def test_vocabularies_that_differ(smollm2):
  ours = smollm2.token_bytes()
  swapped = list(ours)
  swapped[300], swapped[301] = ours[301], ours[300]
  message = f"at id 300: {ours[300].decode()!r} in the target, "
  message += f"{ours[301].decode()!r} in the draft"
  with pytest.raises(TextError, match="at id 300") as caught:
    compare_vocabularies(ours, swapped)
  assert message in str(caught.value)
  with pytest.raises(TextError, match="49152: nothing in the target, '<tool>'"):
    compare_vocabularies(ours, ours + [b"<tool>"])
  with pytest.raises(TextError, match=r"id 0: '\\\\xff' in the target"):
    compare_vocabularies([b"\xff"], [b"a"])


def test_it_is_frozen_and_hashable(smollm2):
  with pytest.raises(dataclasses.FrozenInstanceError):
    smollm2.bos_id = 3
  assert hash(smollm2) == hash(smollm2)
