# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The forms in which tools and clouds print secrets, beside `name: value` (redaction.py): one expression each.

Each has words, in small letters, of which any text that it matches has one; repetitions are bounded, or begin with a
word that is rare. `\\1` is what stays.
"""

from __future__ import annotations

import re

MASK = "[redacted]"
Rule = tuple[re.Pattern[str], str, tuple[str | re.Pattern[str], ...]]
# What an XML element, a variable or an option ends with whose value is a secret.
_ELEMENT = r"(?:password|passwd|passphrase|secret|token|api[_-]?key|private[_-]?key|pre-?shared[_-]?key)"

# RFC 7616 (digest), RFC 6265 (cookies), queries that are signed: Amazon S3, Google Cloud Storage, Azure SAS.
_WEB: tuple[Rule, ...] = (
    (
        re.compile(r"(?i)((?:proxy-)?authorization[\"']?[ \t]{0,8}[:=][ \t]{0,8}[\"']?digest[ \t]{1,8})[^\n]{1,4000}"),
        rf"\1{MASK}",
        ("digest",),
    ),
    (
        re.compile(r"(?i)(\b(?:set-)?cookie[\"']?[ \t]{0,8}:[ \t]{0,8}[\"']?)[^\s=;:\"']{1,80}=[^\n\"']{1,4000}"),
        rf"\1{MASK}",
        ("cookie",),
    ),
    (
        re.compile(
            r"(?i)((?:[?&;]sig(?:nature)?|x-amz-(?:signature|credential|security-token)|x-goog-(?:signature|credential)"
            r"|shared-?access-?(?:signature|key))=)[^&\s\"'<>;]{1,2000}"
        ),
        rf"\1{MASK}",
        ("sig=", "signature=", "x-amz-", "x-goog-", "sharedaccess", "shared-access"),
    ),
    (
        re.compile(r"(https://hooks\.slack\.com/(?:services|workflows)/|https://[a-z.]{0,20}discord(?:app)?\.com/api/"
                   r"webhooks/)[\w/-]{8,200}"),
        rf"\1{MASK}",
        ("hooks.slack.com", "/webhooks/"),
    ),
    (re.compile(r"(?i)((?:password|passwd|token|secret|api_?key)%3d)[^&\s\"'<>%]{1,500}"), rf"\1{MASK}", ("%3d",)),
)  # fmt: skip
# Elements of XML: what Redfish, IPMI tools and `-x` of tools print.
_XML: tuple[Rule, ...] = (
    (
        re.compile(rf"(?i)(<[\w:.-]{{0,60}}?{_ELEMENT}(?:\s[^<>]{{0,200}})?>)[^<>]{{1,2000}}(?=</)"),
        rf"\1{MASK}",
        # Its end is found faster than its beginning.
        (re.compile(rf"</[\w:.-]{{0,60}}?{_ELEMENT}[ \t]{{0,4}}>"),),
    ),
)
# Options of commands whose next word is a secret, by the command, because the option alone says nothing.
_COMMANDS: tuple[Rule, ...] = (
    (re.compile(r"(\bipmitool\b[^\n]{0,300}?\s-P[ \t]{0,4})[^\s-]\S{0,500}"), rf"\1{MASK}", ("ipmitool",)),
    (
        re.compile(
            r"(\b(?:docker|podman|nerdctl|helm|crane|oras|skopeo)\b[^\n]{0,60}?\slogin\b[^\n]{0,300}?\s-p[ \t=]{1,4})"
            r"[^\s-]\S{0,2000}"
        ),
        rf"\1{MASK}",
        ("login",),
    ),
    (re.compile(r"(\bcurl\b[^\n]{0,400}?\s-u[^\s:]{1,200}:)\S{1,500}"), rf"\1{MASK}", ("curl",)),
    (
        re.compile(r"((?<![\w-])--?[a-z][\w-]{0,60}?-pass(?:[ \t]{1,8}|=))(?!-)[^\s\"',]{1,500}"),
        rf"\1{MASK}",
        ("-pass",),
    ),
    (re.compile(r"(?i)(\bbootstrap[-_ ]token[ \t]{1,8})[a-z0-9][\w.-]{5,200}"), rf"\1{MASK}", ("bootstrap",)),
)  # fmt: skip
# Lines of configuration files: a word, blanks, a secret (nslcd.conf, snmpd.conf), or a name and `=` (sssd, WireGuard).
_FILES: tuple[Rule, ...] = (
    (
        re.compile(r"(?m)^([ \t]{0,40}(?:bindpw|rootpw|rootpwmod\w*|r[ow]community6?)[ \t]{1,40})\S{1,500}"),
        rf"\1{MASK}",
        ("bindpw", "rootpw", "community"),
    ),
    (
        re.compile(r"(?i)(\b(?:password|passwd|passphrase)\t{1,8})[^\s\t]{1,500}"),
        rf"\1{MASK}",
        ("password\t", "passwd\t", "passphrase\t"),
    ),
    (
        re.compile(
            r"(?i)((?:(?<=_)|(?<![a-z0-9_]))(?:credentials?|_auth|psk|jwt|pw|authtok|bindpw|pre-?shared[_-]?key"
            r"|munge[_-]?key|licen[cs]e[_-]?key)[\"']?[ \t]{0,8}=[ \t]{0,8}[\"']?)(?!=)[^\s\"',;&]{1,2000}"
        ),
        rf"\1{MASK}",
        ("credential", "_auth", "psk", "jwt", "pw=", "pw =", "_pw", "authtok", "shared", "munge", "licen"),
    ),
    (
        re.compile(
            r"(?i)((?:(?<=_)|(?<![a-z0-9_]))(?:munge[_-]?key|licen[cs]e[_-]?key|pre-?shared[_-]?key|psk|jwt|bindpw)"
            r"[\"']?[ \t]{0,8}:[ \t]{0,8}[\"']?)(?!/)[^\s\"',;&]{4,2000}"
        ),
        rf"\1{MASK}",
        ("psk", "jwt", "bindpw", "shared", "munge", "licen"),
    ),
    # A shell's PWD is a directory, and what passed is counted.
    (
        re.compile(
            r"((?:(?<=_)|(?<![A-Za-z0-9_]))(?:pass|PASS|pwd|PWD)=[\"']?)"
            r"(?![\d.]{1,20}(?:[\s,;%)/]|$)|[/~.])[^\s\"',;&]{1,500}"
        ),
        rf"\1{MASK}",
        ("pass=", "pwd="),
    ),
)  # fmt: skip
# Tokens that their beginning shows: Stripe, SendGrid, Google OAuth, DigitalOcean, PyPI, age.
_TOKENS: tuple[Rule, ...] = (
    (
        re.compile(
            r"(?<![A-Za-z0-9])(?:[sr]k_(?:live|test)_[A-Za-z0-9]{8,200}|SG\.[\w-]{16,100}\.[\w-]{16,100}|ya29\.[\w.-]{16,500}"
            r"|dop_v1_[a-f0-9]{16,100}|pypi-[\w-]{16,300}|AGE-SECRET-KEY-1[A-Z0-9]{16,100})"
        ),
        MASK,
        ("k_live_", "k_test_", "sg.", "ya29.", "dop_v1_", "pypi-", "age-secret-key-1"),
    ),
)
FORMS: tuple[Rule, ...] = (*_WEB, *_XML, *_COMMANDS, *_FILES, *_TOKENS)
