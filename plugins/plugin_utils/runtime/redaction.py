# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Masks secrets before anything is written: by key in structured data, by form in text."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from ..outcome.errors import InputError

# Forms in which tools and clouds print secrets, beside `name: value` (below): one expression each.
#
# Each has words in lower case, one of which is in any text that it matches. Repetitions are bounded, or begin with a
# rare word. `\1` is the part that stays.

MASK = "[redacted]"
# A quote, escaped once per level of nesting.
_QUOTE = r"(?:\\{0,4}[\"'])?"


class Late:
    """A regular expression that is compiled at its first use.

    Most texts have none of the words of most expressions, and compiling all of them takes a tenth of a short command. A
    text without `needs` is not searched.
    """

    def __init__(self, pattern: str, flags: int = 0, needs: str = "") -> None:
        """Keep the expression. `needs` is in lower case."""
        self.pattern, self.flags, self.needs = pattern, flags, needs

    @cached_property
    def _compiled(self) -> re.Pattern[str]:
        return re.compile(self.pattern, self.flags)

    def sub(self, replacement: str, text: str) -> str:
        """Return the text with all matches replaced."""
        return self._compiled.sub(replacement, text)

    def is_in(self, small: str) -> bool:
        """Tell whether a text in lower case has a match."""
        return self.needs in small and self._compiled.search(small) is not None


Rule = tuple[Late, str, tuple[str | Late, ...]]
# End of the name of an XML element, a variable or an option whose value is a secret.
_ELEMENT = r"(?:password|passwd|passphrase|secret|token|api[_-]?key|private[_-]?key|pre-?shared[_-]?key)"

# RFC 7616 (digest), RFC 6265 (cookies), signed queries: Amazon S3, Google Cloud Storage, Azure SAS.
_WEB: tuple[Rule, ...] = (
    (
        Late(r"(?i)((?:proxy-)?authorization[\"']?[ \t]{0,8}[:=][ \t]{0,8}[\"']?digest[ \t]{1,8})[^\n]{1,4000}"),
        rf"\1{MASK}",
        ("digest",),
    ),
    (
        Late(r"(?i)(\b(?:set-)?cookie[\"']?[ \t]{0,8}:[ \t]{0,8}[\"']?)[^\s=;:\"']{1,80}=[^\n\"']{1,4000}"),
        rf"\1{MASK}",
        ("cookie",),
    ),
    (
        Late(
            r"(?i)((?:[?&;]sig(?:nature)?|x-amz-(?:signature|credential|security-token)|x-goog-(?:signature|credential)"
            r"|shared-?access-?(?:signature|key))=)[^&\s\"'<>;]{1,2000}"
        ),
        rf"\1{MASK}",
        ("sig=", "signature=", "x-amz-", "x-goog-", "sharedaccess", "shared-access"),
    ),
    (
        Late(
            r"(https://hooks\.slack\.com/(?:services|workflows)/|https://[a-z.]{0,20}discord(?:app)?\.com/api/"
            r"webhooks/)[\w/-]{8,200}"
        ),
        rf"\1{MASK}",
        ("hooks.slack.com", "/webhooks/"),
    ),
    (Late(r"(?i)((?:password|passwd|token|secret|api_?key)%3d)[^&\s\"'<>%]{1,500}"), rf"\1{MASK}", ("%3d",)),
    (
        Late(r"(https://[\w.-]{1,80}\.webhook\.office\.com/)[\w@/-]{8,300}"),
        rf"\1{MASK}",
        (".webhook.office.com",),
    ),
    (Late(r"(\bbot\d{8,10}:)[\w-]{30,40}"), rf"\1{MASK}", (Late(r"bot\d{8}", needs="bot"),)),
    (Late(r"(?i)(\bgeniekey[ \t]{1,8})[\w-]{8,100}"), rf"\1{MASK}", ("geniekey",)),
)  # fmt: skip
# XML elements, as in Redfish, IPMI tools and tools with `-x`.
_XML: tuple[Rule, ...] = (
    (
        Late(rf"(?i)(<[\w:.-]{{0,60}}?{_ELEMENT}(?:\s[^<>]{{0,200}})?>)[^<>]{{1,2000}}(?=</)"),
        rf"\1{MASK}",
        # Searching for the end tag is faster.
        (Late(rf"</[\w:.-]{{0,60}}?{_ELEMENT}[ \t]{{0,4}}>", needs="</"),),
    ),
)
# Options of commands whose next word is a secret. By command, since the option alone is ambiguous.
_COMMANDS: tuple[Rule, ...] = (
    (Late(r"(\bipmitool\b[^\n]{0,300}?\s-P[ \t]{0,4})[^\s-]\S{0,500}"), rf"\1{MASK}", ("ipmitool",)),
    (
        Late(
            r"(\b(?:docker|podman|nerdctl|helm|crane|oras|skopeo)\b[^\n]{0,60}?\slogin\b[^\n]{0,300}?\s-p[ \t=]{1,4})"
            r"[^\s-]\S{0,2000}"
        ),
        rf"\1{MASK}",
        ("login",),
    ),
    (Late(r"(\bcurl\b[^\n]{0,400}?\s-u[^\s:]{1,200}:)\S{1,500}"), rf"\1{MASK}", ("curl",)),
    (
        Late(r"((?<![\w-])--?[a-z][\w-]{0,60}?-pass(?:[ \t]{1,8}|=))(?!-)[^\s\"',]{1,500}"),
        rf"\1{MASK}",
        ("-pass",),
    ),
    (Late(r"(?i)(\bbootstrap[-_ ]token[ \t]{1,8})[a-z0-9][\w.-]{5,200}"), rf"\1{MASK}", ("bootstrap",)),
    (Late(r"(--certificate-key[ \t=]{1,8})[^\s-]\S{0,500}"), rf"\1{MASK}", ("--certificate-key",)),
    # mysql takes the password of -p without a blank; with one it prompts.
    (
        Late(r"(\b(?:mysql|mariadb)[\w-]{0,20}\s[^\n]{0,300}?(?<=\s)-p)\w\S{0,500}"),
        rf"\1{MASK}",
        ("mysql", "mariadb"),
    ),
    (Late(r"(\bsshpass[ \t]{1,8}-p[ \t]{0,8})[^\s-]\S{0,500}"), rf"\1{MASK}", ("sshpass",)),
    (Late(r"(\bredis-cli\b[^\n]{0,300}?\s-a[ \t]{1,8})[^\s-]\S{0,500}"), rf"\1{MASK}", ("redis-cli",)),
    (Late(r"(\bldap[a-z]{3,10}\b[^\n]{0,300}?\s-w[ \t]{1,8})[^\s-]\S{0,500}"), rf"\1{MASK}", ("ldap",)),
    # Community, and the passphrases of version 3.
    (Late(r"(\bsnmp[a-z]{2,10}[ \t][^\n]{0,300}?\s-c[ \t]{1,8})[^\s-]\S{0,500}"), rf"\1{MASK}", ("snmp",)),
    (Late(r"(\bsnmp[a-z]{2,10}[ \t][^\n]{0,300}?\s-A[ \t]{1,8})[^\s-]\S{0,500}"), rf"\1{MASK}", ("snmp",)),
    (Late(r"(\bsnmp[a-z]{2,10}[ \t][^\n]{0,300}?\s-X[ \t]{1,8})[^\s-]\S{0,500}"), rf"\1{MASK}", ("snmp",)),
)  # fmt: skip
# Lines of configuration files: a word, blanks, a secret (nslcd.conf, snmpd.conf), or a name and `=` (sssd, WireGuard).
_FILES: tuple[Rule, ...] = (
    (
        Late(
            r"(?m)((?:^|\\n|\")[ \t]{0,40}"
            r"(?:bindpw|rootpw|rootpwmod\w*|r[ow]community6?|requirepass|masterauth)[ \t]{1,40})"
            r"[^\s\"\\]{1,500}"
        ),
        rf"\1{MASK}",
        ("bindpw", "rootpw", "community", "requirepass", "masterauth"),
    ),
    # netrc: `machine HOST login NAME password WORD`, on one line or on several.
    (
        Late(
            r"(\b(?:machine[ \t]{1,8}[^\s\\]{1,200}|default)(?:\s|\\{1,4}n){1,40}login[ \t]{1,8}[^\s\\]{1,200}"
            r"(?:\s|\\{1,4}n){1,40}password[ \t]{1,8})"
            r"[^\s\"\\]{1,500}"
        ),
        rf"\1{MASK}",
        ("login",),
    ),
    # crypt(3), as in /etc/shadow, htpasswd and cloud-init: a hash allows a search for the password.
    (
        Late(
            r"\$(?:1|5|6|7|y|gy|apr1)\$(?:[\w.,/=]{1,40}\$){1,2}[\w./]{22,120}|\$2[abxy]\$\d\d\$[\w./]{40,60}"
        ),
        MASK,
        ("$",),
    ),
    (
        Late(r"(?i)(\b(?:password|passwd|passphrase)\t{1,8})[^\s\t]{1,500}"),
        rf"\1{MASK}",
        ("password\t", "passwd\t", "passphrase\t"),
    ),
    (
        Late(
            r"(?i)((?:(?<=_)|(?<![a-z0-9_]))(?:credentials?|_auth|psk|jwt|pw|authtok|bindpw|pre-?shared[_-]?key"
            r"|munge[_-]?key|licen[cs]e[_-]?key)[\"']?[ \t]{0,8}=[ \t]{0,8}(?:\\{0,4}[\"'])?)(?!=)[^\s\"',;&]{1,2000}"
        ),
        rf"\1{MASK}",
        ("credential", "_auth", "psk", "jwt", "pw=", "pw =", "_pw", "authtok", "shared", "munge", "licen"),
    ),
    (
        Late(
            r"(?i)((?:(?<=_)|(?<![a-z0-9_]))(?:munge[_-]?key|licen[cs]e[_-]?key|pre-?shared[_-]?key|psk|jwt|bindpw)"
            r"[\"']?[ \t]{0,8}:[ \t]{0,8}(?:\\{0,4}[\"'])?)(?!/)[^\s\"',;&]{4,2000}"
        ),
        rf"\1{MASK}",
        ("psk", "jwt", "bindpw", "shared", "munge", "licen"),
    ),
    # Keys of PagerDuty, Datadog and Airflow.
    (
        Late(
            rf"(?i)((?:routing|service|app|application|fernet)[_-]?key{_QUOTE}[ \t]{{0,8}}[:=][ \t]{{0,8}}{_QUOTE})"
            r"(?!/)[^\s\"',;&\\]{16,2000}"
        ),
        rf"\1{MASK}",
        (
            "routing_key", "routingkey", "service_key", "servicekey", "app_key", "app-key", "appkey",
            "application_key", "application-key", "applicationkey", "fernet",
        ),
    ),
    # Environment variables of a pod in Kubernetes YAML, by name suffixes that are too common in prose otherwise.
    (
        Late(
            rf"(?i)(name{_QUOTE}[ \t]{{0,8}}:[ \t]{{0,8}}{_QUOTE}[\w.-]{{0,80}}?"
            rf"[_-](?:pass|pwd?|psk|jwt|auth|credentials?){_QUOTE}"
            rf"(?:[,\s]|\\{{1,4}}[nr]){{1,80}}{_QUOTE}value{_QUOTE}[ \t]{{0,8}}:[ \t]{{0,8}}{_QUOTE})"
            r"[^\n\"'\\]{1,2000}"
        ),
        rf"\1{MASK}",
        ("_pass", "-pass", "_pw", "-pw", "_psk", "-psk", "_jwt", "-jwt", "_auth", "-auth", "_cred", "-cred"),
    ),
    # PWD of a shell is a directory, and a count of passed tests is no password.
    (
        Late(
            r"((?:(?<=_)|(?<![A-Za-z0-9_]))(?:[Pp]ass|PASS|[Pp]wd|PWD)=[\"']?)"
            r"(?![\d.]{1,20}(?:[\s,;%)/]|$)|[/~.])[^\s\"',;&]{1,500}"
        ),
        rf"\1{MASK}",
        ("pass=", "pwd="),
    ),
)  # fmt: skip
# Tokens with a documented prefix or infix.
_TOKENS: tuple[Rule, ...] = (
    (
        Late(
            r"(?<![A-Za-z0-9])(?:[sr]k_(?:live|test)_[A-Za-z0-9]{8,200}|SG\.[\w-]{16,100}\.[\w-]{16,100}|ya29\.[\w.-]{16,500}"
            r"|dop_v1_[a-f0-9]{16,100}|pypi-[\w-]{16,300}|AGE-SECRET-KEY-1[A-Z0-9]{16,100})"
        ),
        MASK,
        ("k_live_", "k_test_", "sg.", "ya29.", "dop_v1_", "pypi-", "age-secret-key-1"),
    ),
    # Atlassian, Bitbucket, Grafana, Tailscale, New Relic, Artifactory, Replicate, Groq, Shopify, Heroku.
    (
        Late(
            r"(?<![A-Za-z0-9])(?:ATATT3[\w=-]{30,300}|ATBB[A-Za-z0-9]{28,40}|gl(?:sa|c)_[\w+/=]{20,400}|tskey-[a-z]{2,10}-[\w-]{12,100}"
            r"|NRAK-[A-Z0-9]{20,40}|AKCp[A-Za-z0-9]{60,100}|r8_[A-Za-z0-9]{30,50}|gsk_[A-Za-z0-9]{40,60}|shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}"
            r"|HRKU-[\w-]{30,80})"
        ),
        MASK,
        ("atatt3", "atbb", "glsa_", "glc_", "tskey-", "nrak-", "akcp", "r8_", "gsk_", "shpat_", "shpca_", "shppa_",
         "shpss_", "hrku-"),
    ),
    # Doppler, Pulumi, Linear, Postman, RubyGems, Twilio, Databricks.
    (
        Late(
            r"(?<![A-Za-z0-9])(?:dp\.[a-z]{2,10}\.[A-Za-z0-9]{30,60}|pul-[a-f0-9]{40}|lin_api_[A-Za-z0-9]{30,60}"
            r"|PMAK-[a-f0-9]{20,30}-[a-f0-9]{3,40}|rubygems_[a-f0-9]{40,60}|SK[a-f0-9]{32}|dapi[a-f0-9]{32})(?![A-Za-z0-9])"
        ),
        MASK,
        (
            "lin_api_", "pmak-", "rubygems_", Late(r"dp\.[a-z]{2,10}\.[a-z0-9]{30}", needs="dp."),
            Late("pul-[a-f0-9]{40}", needs="pul-"), Late("sk[a-f0-9]{32}", needs="sk"),
            Late("dapi[a-f0-9]{32}", needs="dapi"),
        ),
    ),
    # Terraform Cloud, an Entra ID application, the token with which nodes join a k3s cluster.
    (Late(r"[A-Za-z0-9]{14}\.atlasv1\.[\w=-]{40,80}"), MASK, (".atlasv1.",)),
    (Late(r"(?<![\w~.-])[\w~.-]{3}\dQ~[\w~.-]{30,36}"), MASK, ("q~",)),
    (Late(r"(?<![A-Za-z0-9])K10[a-f0-9]{64}::[\w:-]{4,200}"), MASK, ("k10",)),
)  # fmt: skip
FORMS: tuple[Rule, ...] = (*_WEB, *_XML, *_COMMANDS, *_FILES, *_TOKENS)


# Secrets in text: a second safety net, below the redaction of structured data by key.
#
# Every expression is linear in the length of the text: repetitions are bounded or cannot start twice in one run.

# Zero-width spaces, joiners and the byte order mark: they could split a word and hide it from the rules.
_NO_WIDTH = re.compile("[\u200b-\u200d\u2060\ufeff]")
_COLOUR = re.compile(r"\x1b\[[0-9;:]{0,32}[A-Za-z]")
_PEM_END = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_BASE64_LINE = re.compile(r"[\s\"',>|-]*[A-Za-z0-9+/=\\]+[\s\"',\\]*")
# "gl" alone is in any long text.
_GITLAB = Late(r"gl[a-z]{1,5}-", needs="gl")
# Each with words in lower case, one of which is in any text that it matches. A search for these words is much faster.
_RULES: tuple[Rule, ...] = (
    *FORMS,
    (
        Late(
            r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
            r".*?(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|\Z)",
            re.DOTALL,
        ),
        MASK,
        ("private key-----", "private key block-----"),
    ),
    # A plain word is prose ("basic constraints", "bearer authentication"); a longer one is a token.
    (
        Late(
            r"\b((?i:bearer|basic))[ \t]{1,8}(?![A-Za-z]?[a-z]{1,14}\.?(?![A-Za-z0-9._~+/=-]))[A-Za-z0-9._~+/=-]{8,}"
        ),
        rf"\1 {MASK}",
        ("bearer", "basic"),
    ),
    (Late(r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"), MASK, ("eyj",)),
    # Credentials in a URL: with a user name, without one, or a token alone.
    (Late(r"(://)([^\s/?#\"'<>:@]{1,200}:)?[^\s/?#\"'<>]{1,500}@"), rf"\1\2{MASK}@", ("://",)),
    (
        Late(
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
    (Late(r"((?:\s-u|--user)[ \t=]{1,4}[^\s:]{1,200}:)[^\s]+"), rf"\1{MASK}", ("-u",)),
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
_NAMED = re.compile(
    rf"(?i)name{_QUOTE}[ \t]{{0,8}}:[ \t]{{0,8}}{_QUOTE}[\w.-]{{0,80}}?(?:{_PHRASES}|{_WORDS}){_QUOTE}"
    r"(?:[,\s]|\\{1,4}[nr]){1,80}"
    rf"{_QUOTE}value(?P<phrase>)(?P<quote>\\{{0,4}}[\"'])?[ \t]{{0,8}}(?P<sign>:)"
)
_MENTIONS = ("passw", "passp", "passc", "secret", "token", "key", "dockerc", "auth")
_MENTIONED = re.compile(f"(?i){'|'.join(_MENTIONS)}")
# If mentions are rarer than this, a search for keys around them alone is faster than in the whole text.
_APART = 64
# `encryption-` comes before `key`; `secret-access-key`, a quote and spaces start at `secret`.
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
        # A colour code inside a word would hide the word from the rules.
        text = _COLOUR.sub("", text)
    if not text.isascii():
        text = _NO_WIDTH.sub("", text)
    # Only for ASCII: with (?i) some letters of other alphabets match ASCII letters, too.
    small = text.lower() if text.isascii() else None
    for pattern, replacement, words in _RULES:
        if small is None or any(_is_in(small, word) for word in words):
            text = pattern.sub(replacement, text)
    text = _without_pem_tail(text)
    mentioned = _MENTIONED.search(text) if small is None else any(word in small for word in _MENTIONS)
    if not mentioned:
        return text
    text = _FLAG.sub(_masked_flag, text)
    if small is None or "value" in small:
        text = _without_values(text, _NAMED)
    return _without_values(text, _KEY, _mentioning(text) if small is not None else None)


def _mentioning(text: str) -> deque[tuple[int, int]] | None:
    """Return begin and end of the places where a key can be, in order; None if there are too many.

    Each text that _KEY matches has one of _MENTIONS, with at most _BEFORE characters before it and _AFTER from its
    start.
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


def _is_in(small: str, word: str | Late) -> bool:
    return word in small if isinstance(word, str) else word.is_in(small)


def excerpt(text: str, limit: int = 1200) -> str:
    """Return the redacted text with at most `limit` characters, cut in the middle with a note."""
    clean = redact(text).strip()
    if len(clean) <= limit:
        return clean
    half = (limit - 40) // 2
    return f"{clean[:half]}\n[... {len(clean) - 2 * half} characters cut ...]\n{clean[-half:]}"


def _masked_flag(found: re.Match[str]) -> str:
    quote = found["quote"] or ""
    return f"{found[1]}{quote}{MASK}{quote}"


def _without_pem_tail(text: str) -> str:
    """Mask the end of a private key whose beginning was cut off: the lines before its last one."""
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
    """Mask the values of keys. With `places` keys are searched only there."""
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
    """Return the first match from `at` on within the places, and drop places that are done."""
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
    """Return begin and end of the value of a key; equal if there is none to mask."""
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
        # A token has no spaces, a password may have some.
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
    """Return the end of the lines that are indented deeper than the key's own line.

    Args:
        text: the text.
        key: position of the key.
        start: end of the key's line.
        structured: for a block scalar, whose lines may look like anything; else a line that looks like a key ends it.
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


# Secrets in structured data: settings, Helm values and environments are masked by key before they are written.
#
# For tasks that need the secrets, they are restored in memory from the user's input.

_SECRET_KEYS_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_PASSWORD = re.compile("password|passwd|passphrase|passcode|pwd")
_LAST = re.compile(
    f"{_PASSWORD.pattern}|pass|pw|bindpw|rootpw|psk|jwt|authtok|rocommunity|rwcommunity|secret|token|apikey|credential"
    "|dockerconfigjson|dockercfg|htpasswd|auth|authorization|cookie"
)
_KEY_OF = re.compile(
    "api|access|private|secret|account|client|tls|encryption|signing|ssh|license|auth|master|storage|shared|preshared"
    "|munge|bootstrap|ngc|app|application|routing|service|fernet"
)
# Sites choose the names of environment variables, so a list of secret names can never be complete. Variables that
# configure a program are saved, by name prefix; of all others only their presence.
_ENVIRONMENTS = frozenset({"env", "environment", "extra_env", "extraEnv"})
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*")
_PLAIN_VARIABLE = re.compile(
    r"(?:NCCL|RCCL|UCX|UCC|FI|OMPI|OPAL|PMIX|PRTE|SHARP|HCOLL|RDMAV|IBV|MLX\d?|EFA|AWS_OFI|OFI|CUDA|CUBLAS|CUDNN|NVIDIA"
    r"|NVSHMEM|NVTE|OMP|GOMP|KMP|MKL|MALLOC|TORCH|TORCHINDUCTOR|PYTORCH|TRITON|XLA|JAX|TF|TP|VLLM|SGLANG|TRANSFORMERS"
    r"|HF_HUB|HF_HOME|HF_DATASETS|TOKENIZERS|GLOO|LD|PYTHON|LC|XDG|HEALTH_CHECK|SLURM)(?:_[A-Z0-9_]+)?"
    r"|PATH|HOME|LANG|TZ|TMPDIR|HOSTNAME|USER|SHELL|TERM|PWD|PYTHON[A-Z]+|(?:HTTPS?|NO|ALL)_PROXY"
)
# Only names a Secret.
_REFERENCES = frozenset({("existing", "secret"), ("pull", "secret"), ("token", "secret")})
_NAMING = re.compile(
    "name|namespace|key|optional|kind|apiversion|secretname|enabled|create|type|valuefrom|secretkeyref", re.IGNORECASE
)
# May follow the word that makes it a secret: `client-key-data`.
_ENCODED = re.compile("data|b64|base64|value")


def is_secret_key(key: str) -> bool:
    """Tell whether a value under that key is a secret: `adminPassword`, `HF_TOKEN`, `tls.key`; not `secretName`."""
    words = _words(key)
    if len(words) > 1 and _ENCODED.fullmatch(words[-1]):
        words.pop()
    if not words:
        return False
    last, before = words[-1], words[-2] if len(words) > 1 else ""
    single = last.removesuffix("s") if last.endswith("s") and not _LAST.fullmatch(last) else last
    if (before, single) in _REFERENCES:
        return False
    return bool(_LAST.fullmatch(single) or (single == "key" and _KEY_OF.fullmatch(before)))


def _words(key: str) -> list[str]:
    return [word.lower() for word in _SECRET_KEYS_WORDS.findall(key)]


def redact_data(value: Any) -> Any:
    """Return plain data (mappings, lists, scalars) with every secret masked, by key or by form."""
    if isinstance(value, Mapping):
        return _mapping(value)
    if isinstance(value, list | tuple):
        return _list(value)
    return redact(value) if isinstance(value, str) else value


def _list(items: Sequence[Any]) -> list[Any]:
    """Return the entries masked. In an argument list the one after `--api-key` is masked, too."""
    return [
        _masked(entry, "") if number and _is_secret_flag(items[number - 1]) else redact_data(entry)
        for number, entry in enumerate(items)
    ]


def _is_secret_flag(word: Any) -> bool:
    return isinstance(word, str) and word.startswith("-") and "=" not in word and is_secret_key(word)


def _mapping(data: Mapping[Any, Any]) -> dict[Any, Any]:
    if data.get("kind") == "Secret" and "apiVersion" in data:
        hidden = {key: _masked(data[key], key) for key in ("data", "stringData") if key in data}
        return {key: hidden.get(key, redact_data(value)) for key, value in data.items()}
    if isinstance(data.get("name"), str) and "value" in data and is_secret_key(data["name"]):
        return {
            key: _masked(value, data["name"]) if key == "value" else redact_data(value) for key, value in data.items()
        }
    return {
        key: _masked(value, str(key)) if is_secret_key(str(key)) else redact_data(value) for key, value in data.items()
    }


def redact_settings(value: Any) -> Any:
    """Return a site's settings with every secret masked, and all environment variables not known to be harmless."""
    return redact_data(_plain_environments(value))


def _plain_environments(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_plain_environments(entry) for entry in value]
    if not isinstance(value, Mapping):
        return value
    return {
        key: {name: _variable(str(name), text) for name, text in entry.items()}
        if key in _ENVIRONMENTS and isinstance(entry, Mapping)
        else _plain_environments(entry)
        for key, entry in value.items()
    }


def _variable(name: str, value: Any) -> Any:
    if _PLAIN_VARIABLE.fullmatch(name) or not _VARIABLE.fullmatch(name):
        return _plain_environments(value)
    return MASK if isinstance(value, str) and value else value


def _masked(value: Any, key: str) -> Any:
    """Return the value under a secret key, masked. Names of Secrets and of keys in them stay."""
    if isinstance(value, str):
        return MASK if value else value
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int | float):
        # `max_token: 512` is a number, but a password may have digits only.
        return MASK if any(_PASSWORD.fullmatch(word) for word in _words(key)) else value
    if isinstance(value, Mapping):
        return {
            name: redact_data(entry) if _NAMING.fullmatch(str(name)) else _masked(entry, str(name))
            for name, entry in value.items()
        }
    return [_masked(entry, key) for entry in value]


def holds_mask(value: Any) -> bool:
    """Tell whether any of the data was masked."""
    if isinstance(value, Mapping):
        return any(holds_mask(entry) for entry in value.values())
    if isinstance(value, list | tuple):
        return any(holds_mask(entry) for entry in value)
    return isinstance(value, str) and MASK in value


def with_secrets(saved: Any, configured: Any, place: str, hint: str) -> Any:
    """Return saved data with its masked values restored from the user's input, place by place.

    Args:
        saved: data as it was written.
        configured: the same structure with the secrets, or the part of it that the user gave.
        place: name of the data in the error.
        hint: fix for a secret that was not given.

    Raises:
        InputError: a value was masked, and the given one does not mask to the same text.
    """
    if not holds_mask(saved):
        return saved
    if isinstance(saved, Mapping):
        given = configured if isinstance(configured, Mapping) else {}
        return {
            key: with_secrets(entry, given.get(key), f"{place}.{key}" if place else str(key), hint)
            for key, entry in saved.items()
        }
    if isinstance(saved, list | tuple):
        items: Sequence[Any] = (
            configured if isinstance(configured, list | tuple) and len(configured) == len(saved) else ()
        )
        return [
            with_secrets(entry, items[number] if items else None, f"{place}[{number}]", hint)
            for number, entry in enumerate(saved)
        ]
    if (
        configured is None
        or (isinstance(configured, str) and saved not in (MASK, redact(configured)))
        or holds_mask(configured)
    ):
        raise InputError(place, "is a secret, which is not saved with a run, and it is not stated now.", hint)
    return configured
