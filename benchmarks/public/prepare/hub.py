"""Writes small models and data sets into folders by the names that scripts ask the Hugging Face hub for.

python hub.py [bert NAME] [gpt2 NAME] [llama NAME] [pairs NAME] [text NAME] [instructions NAME] [preferences NAME] ...

The libraries take a folder of that name in the current directory before they look in the network.
"""

import json
import sys
from pathlib import Path

import numpy as np
import torch
from text import WORDS, text
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
)

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "<s>", "</s>"]
VOCABULARY = [*SPECIAL, ".", *WORDS, *(word.capitalize() for word in WORDS)]
SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}


def tokenizer(pairs: bool) -> PreTrainedTokenizerFast:
    """Splits at spaces; with `[CLS]` and `[SEP]` where a model reads pairs of sentences."""
    made = Tokenizer(models.WordLevel({word: number for number, word in enumerate(VOCABULARY)}, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]"}
    if pairs:
        made.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
        names |= {"cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]"}
    else:
        names |= {"bos_token": "<s>", "eos_token": "</s>"}
    return PreTrainedTokenizerFast(tokenizer_object=made, model_max_length=64, **names)


def bert(folder: Path) -> None:
    torch.manual_seed(0)
    config = BertConfig(vocab_size=len(VOCABULARY), max_position_embeddings=64, **SIZES)
    BertForSequenceClassification(config).bert.save_pretrained(folder)
    tokenizer(pairs=True).save_pretrained(folder)


def gpt2(folder: Path) -> None:
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=len(VOCABULARY), n_positions=256, n_embd=32, n_layer=2, n_head=2, bos_token_id=5, eos_token_id=6
    )
    GPT2LMHeadModel(config).save_pretrained(folder)
    tokenizer(pairs=False).save_pretrained(folder)


def llama(folder: Path) -> None:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(VOCABULARY), max_position_embeddings=256, bos_token_id=5, eos_token_id=6, pad_token_id=0, **SIZES
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer(pairs=False).save_pretrained(folder)


def data_set(folder: Path, config: str, splits: dict[str, list[dict[str, object]]]) -> None:
    """Lines of JSON for each split, and the card that says where they are."""
    files = []
    for split, rows in splits.items():
        file = folder / config / f"{split}.jsonl"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        files.append(f"  - split: {split}\n    path: {config}/{split}.jsonl\n")
    card = f"---\nconfigs:\n- config_name: {config}\n  data_files:\n{''.join(files)}---\n"
    (folder / "README.md").write_text(card, encoding="utf-8")


def pairs(folder: Path) -> None:
    """Pairs of sentences, which say the same or not."""
    generator = np.random.default_rng(0)
    sentences = text(400).splitlines()

    def rows(count: int) -> list[dict[str, object]]:
        made: list[dict[str, object]] = []
        for index in range(count):
            first, second = generator.integers(0, len(sentences), 2)
            label = int(generator.integers(0, 2))
            same = sentences[first] if label else sentences[second]
            made.append({"sentence1": sentences[first], "sentence2": same, "label": label, "idx": index})
        return made

    data_set(folder, "mrpc", {"train": rows(160), "validation": rows(64), "test": rows(32)})


def plain_text(folder: Path) -> None:
    rows = [{"text": line} for line in text(1300).splitlines()]
    splits = {"train": rows[:600], "validation": rows[600:1200], "test": rows[1200:]}
    data_set(folder, "wikitext-2-v1", splits)


def instructions(folder: Path) -> None:
    lines = text(400).splitlines()
    rows = [
        {"instruction": ask, "input": "", "output": answer} for ask, answer in zip(lines[::2], lines[1::2], strict=True)
    ]
    data_set(folder, "default", {"train": rows})


def preferences(folder: Path) -> None:
    """A beginning, and what is preferred as its end."""
    lines = text(300).splitlines()
    rows = [
        {"prompt": prompt, "chosen": chosen, "rejected": rejected}
        for prompt, chosen, rejected in zip(lines[::3], lines[1::3], lines[2::3], strict=True)
    ]
    data_set(folder, "default", {"train": rows[:64], "test": rows[64:80]})


MAKERS = {
    "bert": bert,
    "gpt2": gpt2,
    "llama": llama,
    "pairs": pairs,
    "text": plain_text,
    "instructions": instructions,
    "preferences": preferences,
}


def main() -> None:
    words = sys.argv[1:]
    for kind, name in zip(words[::2], words[1::2], strict=True):
        MAKERS[kind](Path(name))


if __name__ == "__main__":
    main()
