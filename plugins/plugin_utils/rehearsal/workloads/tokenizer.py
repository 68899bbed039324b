# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A tokenizer that needs no download: one token per byte, in the format of the Hugging Face library."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_END = "<|endoftext|>"


def write_tokenizer(directory: Path) -> Path:
    """Write the tokenizer to a directory and return the directory."""
    directory.mkdir(parents=True, exist_ok=True)
    vocabulary = {letter: number for number, letter in enumerate(_letters())}
    vocabulary[_END] = len(vocabulary)
    end = {
        "id": vocabulary[_END], "content": _END, "single_word": False, "lstrip": False, "rstrip": False,
        "normalized": False, "special": True,
    }  # fmt: skip
    bytes_of = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    unused = dict.fromkeys(("dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix"))
    model: dict[str, Any] = {
        "type": "BPE", **unused, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
        "vocab": vocabulary, "merges": [],
    }  # fmt: skip
    document = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [end], "normalizer": None,
        "pre_tokenizer": bytes_of, "post_processor": None, "decoder": bytes_of, "model": model,
    }  # fmt: skip
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": _END,
        "chat_template": "{% for message in messages %}{{ message['content'] }}{% endfor %}",
    }
    (directory / "tokenizer.json").write_text(json.dumps(document), encoding="utf-8")
    (directory / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    return directory


def _letters() -> list[str]:
    """Return a character for each byte: itself if it is printable, else one beyond 255."""
    seen = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in seen]
    return [chr(byte) if byte in seen else chr(256 + hidden.index(byte)) for byte in range(256)]
