# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Secrets in text: the second net, under the redaction of structured data by key (secret_keys.py).

Every expression is linear in the length of the text: repetitions are bounded or cannot start twice in one run.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator

from .secret_forms import FORMS, MASK, Rule

# Spaces without width, joiners and the mark of byte order: a word that they split is no word to any rule.
_NO_WIDTH = re.compile("[\u200b-\u200d\u2060\ufeff]")
_COLOUR = re.compile(r"\x1b\[[0-9;:]{0,32}[A-Za-z]")
_PEM_END = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_BASE64_LINE = re.compile(r"[\s\"',>|-]*[A-Za-z0-9+/=\\]+[\s\"',\\]*")
# "gl" alone is in any long text.
_GITLAB = re.compile(r"gl[a-z]{1,5}-")
# Each with words, in small letters, of which any text that it matches has one: looking for those is much faster.
_RULES: tuple[Rule, ...] = (
    *FORMS,
    (
        re.compile(
            r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
            r".*?(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|\Z)",
            re.DOTALL,
        ),
        MASK,
        ("private key-----", "private key block-----"),
    ),
    # A plain word is prose ("basic constraints", "bearer authentication"); a longer one is a token.
    (
        re.compile(
            r"\b((?i:bearer|basic))[ \t]{1,8}(?![A-Za-z]?[a-z]{1,14}\.?(?![A-Za-z0-9._~+/=-]))[A-Za-z0-9._~+/=-]{8,}"
        ),
        rf"\1 {MASK}",
        ("bearer", "basic"),
    ),
    (re.compile(r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"), MASK, ("eyj",)),
    # Credentials in a URL: with a name, without one, or a token alone.
    (re.compile(r"(://)([^\s/?#\"'<>:@]{1,200}:)?[^\s/?#\"'<>]{1,500}@"), rf"\1\2{MASK}@", ("://",)),
    (
        re.compile(
            r"(?<![A-Za-z0-9])(?:(?:hf_|nvapi-|gh[pousr]_|github_pat_|gl[a-z]{1,5}-|xox[a-z]-|xapp-|sk-|hvs\.|dckr_pat_)"
            r"[A-Za-z0-9_.-]{16,}|(?:AKIA|ASIA)[0-9A-Z]{12,}|AIza[0-9A-Za-z_-]{30,}|npm_[A-Za-z0-9]{36})"
        ),
        MASK,
        (
            "hf_", "nvapi-", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "_pat_", _GITLAB, "xox", "xapp-", "sk-", "hvs.",
            "akia", "asia", "aiza", "npm_",
        ),
    ),
    # curl's -u name:password.
    (re.compile(r"((?:\s-u|--user)[ \t=]{1,4}[^\s:]{1,200}:)[^\s]+"), rf"\1{MASK}", ("-u",)),
)  # fmt: skip
_PHRASES = r"pass(?:word|wd|phrase|code)"
_WORDS = (
    r"secret[_-]?(?:access[_-]?)?key|token|(?:api|access|private|account|signing|encryption)[_-]?key"
    r"|(?<!token_)(?<!existing)(?<!pull)secret"
)
_FLAG = re.compile(
    rf"(?i)((?<![\w-])--?(?:[a-z][\w-]{{0,60}}?)?(?:{_PHRASES}|{_WORDS})(?:[\"'],?)?[ \t]{{1,8}})"
    r"(?:(?P<quote>[\"'])[^\"'\n]{1,2000}(?P=quote)|(?!-)[^\s\"',]+)"
)
_KEY = re.compile(
    rf"(?i)(?:(?P<phrase>{_PHRASES}|(?<![a-z])authorization)|{_WORDS}|client-key-data|tls\.key"
    r"|\.?dockerconfigjson|\.dockercfg|(?<=[\"'])auth(?=[\"\\]))"
    r"(?P<quote>\\{0,4}[\"'])?[ \t]{0,8}(?P<sign>[:=])(?!=|//)"
)
# An environment variable as Kubernetes writes it: its name, then its value.
_QUOTE = r"(?:\\{0,4}[\"'])?"
_NAMED = re.compile(
    rf"(?i)name{_QUOTE}[ \t]{{0,8}}:[ \t]{{0,8}}{_QUOTE}[\w.-]{{0,80}}?(?:{_PHRASES}|{_WORDS}){_QUOTE}"
    r"(?:[,\s]|\\{1,4}[nr]){1,80}"
    rf"{_QUOTE}value(?P<phrase>)(?P<quote>\\{{0,4}}[\"'])?[ \t]{{0,8}}(?P<sign>:)"
)
_MENTIONS = ("passw", "passp", "passc", "secret", "token", "key", "dockerc", "auth")
_MENTIONED = re.compile(f"(?i){'|'.join(_MENTIONS)}")
# Where mentions are rarer than that, looking for a key around them alone is faster than in the whole text.
_APART = 64
# `encryption-` stands before `key`; `secret-access-key`, a quote and spaces from `secret` on.
_BEFORE, _AFTER = 16, 64
_NEXT_PAIR = re.compile(r"\n|(?<![ \t,;&])[ \t,;&]{1,40}[\w.-]{1,60}[=:]")
_BLOCK = re.compile(r"[|>][+-]?[0-9]?[+-]?[ \t]{0,40}(?:#[^\n]{0,200})?\r?(?=\n|\Z)")
_OPENING = re.compile(r"\\{0,4}[\"']")
_WORD = re.compile(r"[^\s\"',;&}\])]+")
_BARE_JSON = re.compile(r"[^\s,}\]]+")
_NO_SECRET = re.compile(r"(?i)(?:-?[0-9.eE+-]+|null|none|true|false)(?=[\s,}\]]|\Z)")
_BOOLEAN = re.compile(r"(?i)(?:true|false|null)[ \t]{0,40}(?=\r?\n|\Z)")
_STRUCTURE = re.compile(r"[\t ]*(?:- |[\w./\"'-]{1,100}:(?:\s|\Z))")


def redact(text: str) -> str:
    """Return the text with keys, tokens, passwords and credentials in URLs masked, and without colour codes."""
    if "\x1b" in text:
        # A word that is split by a colour code is no word to any rule.
        text = _COLOUR.sub("", text)
    if not text.isascii():
        text = _NO_WIDTH.sub("", text)
    # Only where small letters are plain: (?i) takes letters of other alphabets for ours, too.
    small = text.lower() if text.isascii() else None
    for pattern, replacement, words in _RULES:
        if small is None or any(_is_in(small, word) for word in words):
            text = pattern.sub(replacement, text)
    text = _without_pem_tail(text)
    mentioned = _MENTIONED.search(text) if small is None else any(word in small for word in _MENTIONS)
    if not mentioned:
        return text
    text = _FLAG.sub(_masked_flag, text)
    text = _without_values(text, _NAMED)
    return _without_values(text, _KEY, _mentioning(text) if small is not None else None)


def _mentioning(text: str) -> deque[tuple[int, int]] | None:
    """Return begin and end of the places in which a key can stand, in their order; None where there are too many.

    Each text that _KEY matches has one of _MENTIONS, and no more than _BEFORE characters before it and _AFTER from it.
    """
    small = text.lower()
    if sum(small.count(word) for word in _MENTIONS) * _APART > len(text):
        return None
    found: deque[tuple[int, int]] = deque()
    for at in sorted(at for word in _MENTIONS for at in _places(small, word)):
        begin = at - _BEFORE
        if found and begin <= found[-1][1]:
            begin = found.pop()[0]
        found.append((max(begin, 0), min(at + _AFTER, len(text))))
    return found


def _places(text: str, word: str) -> Iterator[int]:
    at = text.find(word)
    while at >= 0:
        yield at
        at = text.find(word, at + 1)


def _is_in(small: str, word: str | re.Pattern[str]) -> bool:
    return word in small if isinstance(word, str) else word.search(small) is not None


def excerpt(text: str, limit: int = 1200) -> str:
    """Return the redacted text, at most `limit` characters, cut in the middle and saying so."""
    clean = redact(text).strip()
    if len(clean) <= limit:
        return clean
    half = (limit - 40) // 2
    return f"{clean[:half]}\n[... {len(clean) - 2 * half} characters cut ...]\n{clean[-half:]}"


def _masked_flag(found: re.Match[str]) -> str:
    quote = found["quote"] or ""
    return f"{found[1]}{quote}{MASK}{quote}"


def _without_pem_tail(text: str) -> str:
    """Mask the end of a private key whose beginning was cut off: what stands before its last line."""
    parts, done = [], 0
    for end in _PEM_END.finditer(text):
        kept = text[done : end.start()].split("\n")
        while kept and (not kept[-1].strip() or _BASE64_LINE.fullmatch(kept[-1])):
            kept.pop()
        head = "\n".join(kept)
        parts += [head, "\n" if head else "", MASK]
        done = end.end()
    return "".join([*parts, text[done:]]) if parts else text


def _without_values(text: str, pattern: re.Pattern[str], places: deque[tuple[int, int]] | None = None) -> str:
    """Mask what follows a name; with `places` names stand in these alone."""
    parts, done, at = [], 0, 0
    while (found := pattern.search(text, at) if places is None else _next_in(text, pattern, at, places)) is not None:
        at = found.end()
        if _is_path(text, found.start()):
            continue
        start, end = _value(text, found)
        if start < end and not text.startswith(MASK, start):
            parts += [text[done:start], MASK]
            done = end
        at = max(at, end)
    return "".join([*parts, text[done:]]) if parts else text


def _next_in(text: str, pattern: re.Pattern[str], at: int, places: deque[tuple[int, int]]) -> re.Match[str] | None:
    """Return the first match from `at` on, in one of the places, and forget those that are done."""
    while places:
        begin, end = places[0]
        found = pattern.search(text, max(at, begin), end) if at < end else None
        if found is not None:
            return found
        places.popleft()
    return None


def _is_path(text: str, start: int) -> bool:
    """Tell whether the word ends an absolute path (`/etc/tls.key: no such file`), which is followed by prose."""
    at = start
    while at > 0 and start - at < 200 and (text[at - 1].isalnum() or text[at - 1] in "_./-"):
        at -= 1
    return at < start and text[at] == "/"


def _value(text: str, found: re.Match[str]) -> tuple[int, int]:
    """Return where the value of a key begins and ends; the same place twice where there is none to mask."""
    start = found.end()
    while start < len(text) and text[start] in " \t":
        start += 1
    if start >= len(text):
        return start, start
    if opening := _OPENING.match(text, start):
        return _quoted(text, opening)
    if text[start] in "{[" or text.startswith(MASK, start):
        return start, start
    if block := _BLOCK.match(text, start):
        return start, _end_of_block(text, found.start(), block.end(), structured=True)
    if text[start] in "\r\n":
        return start, _end_of_block(text, found.start(), start, structured=False)
    if found["quote"] is not None:
        bare = _BARE_JSON.match(text, start)
        return (start, start) if bare is None or _NO_SECRET.match(text, start) else (start, bare.end())
    if found["phrase"] is None:
        if _BOOLEAN.match(text, start):
            return start, start
        # A token has no spaces, a password may have.
        word = _WORD.match(text, start)
        return start, word.end() if word else start
    following = _NEXT_PAIR.search(text, start)
    return start, following.start() if following else len(text)


def _quoted(text: str, opening: re.Match[str]) -> tuple[int, int]:
    quote, start = opening.group(), opening.end()
    at = start
    while (end := text.find(quote, at)) >= 0:
        escaped = len(quote) == 1 and quote == '"' and _backslashes(text, start, end) % 2 == 1
        if not escaped:
            return start, end
        at = end + 1
    line = text.find("\n", start)
    return start, line if line >= 0 else len(text)


def _backslashes(text: str, start: int, end: int) -> int:
    at = end
    while at > start and text[at - 1] == "\\":
        at -= 1
    return end - at


def _end_of_block(text: str, key: int, start: int, *, structured: bool) -> int:
    """Return where the lines end that are indented deeper than the key's own line.

    Args:
        text: the text.
        key: where the key stands.
        start: the end of the key's line.
        structured: a block scalar, whose lines may look like anything; else lines that look like keys end it.
    """
    line = text.rfind("\n", 0, key) + 1
    own = len(text[line:key]) - len(text[line:key].lstrip(" \t-"))
    end = at = start
    while at < len(text):
        following = text.find("\n", at + 1)
        following = len(text) if following < 0 else following
        content = text[at + 1 : following]
        indent = len(content) - len(content.lstrip(" \t"))
        if content.strip() and (indent <= own or (not structured and _STRUCTURE.match(content))):
            break
        at = following
        end = following if content.strip() else end
    return end
