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
# A quote, escaped as often as the text stands in another.
_QUOTE = r"(?:\\{0,4}[\"'])?"
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
    (
        re.compile(r"(https://[\w.-]{1,80}\.webhook\.office\.com/)[\w@/-]{8,300}"),
        rf"\1{MASK}",
        (".webhook.office.com",),
    ),
    (re.compile(r"(\bbot\d{8,10}:)[\w-]{30,40}"), rf"\1{MASK}", (re.compile(r"bot\d{8}"),)),
    (re.compile(r"(?i)(\bgeniekey[ \t]{1,8})[\w-]{8,100}"), rf"\1{MASK}", ("geniekey",)),
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
    (re.compile(r"(--certificate-key[ \t=]{1,8})[^\s-]\S{0,500}"), rf"\1{MASK}", ("--certificate-key",)),
    # -p of mysql has its word without a blank: with one it asks.
    (
        re.compile(r"(\b(?:mysql|mariadb)[\w-]{0,20}\s[^\n]{0,300}?(?<=\s)-p)\w\S{0,500}"),
        rf"\1{MASK}",
        ("mysql", "mariadb"),
    ),
    (re.compile(r"(\bsshpass[ \t]{1,8}-p[ \t]{0,8})[^\s-]\S{0,500}"), rf"\1{MASK}", ("sshpass",)),
    (re.compile(r"(\bredis-cli\b[^\n]{0,300}?\s-a[ \t]{1,8})[^\s-]\S{0,500}"), rf"\1{MASK}", ("redis-cli",)),
    (re.compile(r"(\bldap[a-z]{3,10}\b[^\n]{0,300}?\s-w[ \t]{1,8})[^\s-]\S{0,500}"), rf"\1{MASK}", ("ldap",)),
    # Community, and the phrases of version 3.
    (re.compile(r"(\bsnmp[a-z]{2,10}[ \t][^\n]{0,300}?\s-c[ \t]{1,8})[^\s-]\S{0,500}"), rf"\1{MASK}", ("snmp",)),
    (re.compile(r"(\bsnmp[a-z]{2,10}[ \t][^\n]{0,300}?\s-A[ \t]{1,8})[^\s-]\S{0,500}"), rf"\1{MASK}", ("snmp",)),
    (re.compile(r"(\bsnmp[a-z]{2,10}[ \t][^\n]{0,300}?\s-X[ \t]{1,8})[^\s-]\S{0,500}"), rf"\1{MASK}", ("snmp",)),
)  # fmt: skip
# Lines of configuration files: a word, blanks, a secret (nslcd.conf, snmpd.conf), or a name and `=` (sssd, WireGuard).
_FILES: tuple[Rule, ...] = (
    (
        re.compile(
            r"(?m)((?:^|\\n|\")[ \t]{0,40}"
            r"(?:bindpw|rootpw|rootpwmod\w*|r[ow]community6?|requirepass|masterauth)[ \t]{1,40})"
            r"[^\s\"\\]{1,500}"
        ),
        rf"\1{MASK}",
        ("bindpw", "rootpw", "community", "requirepass", "masterauth"),
    ),
    # netrc: `machine HOST login NAME password WORD`, on one line or on several.
    (
        re.compile(
            r"(\b(?:machine[ \t]{1,8}[^\s\\]{1,200}|default)(?:\s|\\{1,4}n){1,40}login[ \t]{1,8}[^\s\\]{1,200}"
            r"(?:\s|\\{1,4}n){1,40}password[ \t]{1,8})"
            r"[^\s\"\\]{1,500}"
        ),
        rf"\1{MASK}",
        ("login",),
    ),
    # crypt(3): what /etc/shadow, htpasswd and cloud-init hold; the password can be searched for with it.
    (
        re.compile(
            r"\$(?:1|5|6|7|y|gy|apr1)\$(?:[\w.,/=]{1,40}\$){1,2}[\w./]{22,120}|\$2[abxy]\$\d\d\$[\w./]{40,60}"
        ),
        MASK,
        ("$",),
    ),
    (
        re.compile(r"(?i)(\b(?:password|passwd|passphrase)\t{1,8})[^\s\t]{1,500}"),
        rf"\1{MASK}",
        ("password\t", "passwd\t", "passphrase\t"),
    ),
    (
        re.compile(
            r"(?i)((?:(?<=_)|(?<![a-z0-9_]))(?:credentials?|_auth|psk|jwt|pw|authtok|bindpw|pre-?shared[_-]?key"
            r"|munge[_-]?key|licen[cs]e[_-]?key)[\"']?[ \t]{0,8}=[ \t]{0,8}(?:\\{0,4}[\"'])?)(?!=)[^\s\"',;&]{1,2000}"
        ),
        rf"\1{MASK}",
        ("credential", "_auth", "psk", "jwt", "pw=", "pw =", "_pw", "authtok", "shared", "munge", "licen"),
    ),
    (
        re.compile(
            r"(?i)((?:(?<=_)|(?<![a-z0-9_]))(?:munge[_-]?key|licen[cs]e[_-]?key|pre-?shared[_-]?key|psk|jwt|bindpw)"
            r"[\"']?[ \t]{0,8}:[ \t]{0,8}(?:\\{0,4}[\"'])?)(?!/)[^\s\"',;&]{4,2000}"
        ),
        rf"\1{MASK}",
        ("psk", "jwt", "bindpw", "shared", "munge", "licen"),
    ),
    # Keys of PagerDuty, Datadog and Airflow.
    (
        re.compile(
            rf"(?i)((?:routing|service|app|application|fernet)[_-]?key{_QUOTE}[ \t]{{0,8}}[:=][ \t]{{0,8}}{_QUOTE})"
            r"(?!/)[^\s\"',;&\\]{16,2000}"
        ),
        rf"\1{MASK}",
        (
            "routing_key", "routingkey", "service_key", "servicekey", "app_key", "app-key", "appkey",
            "application_key", "application-key", "applicationkey", "fernet",
        ),
    ),
    # Variables of a pod, as Kubernetes writes them, by ends of names that say nothing in prose.
    (
        re.compile(
            rf"(?i)(name{_QUOTE}[ \t]{{0,8}}:[ \t]{{0,8}}{_QUOTE}[\w.-]{{0,80}}?"
            rf"[_-](?:pass|pwd?|psk|jwt|auth|credentials?){_QUOTE}"
            rf"(?:[,\s]|\\{{1,4}}[nr]){{1,80}}{_QUOTE}value{_QUOTE}[ \t]{{0,8}}:[ \t]{{0,8}}{_QUOTE})"
            r"[^\n\"'\\]{1,2000}"
        ),
        rf"\1{MASK}",
        ("_pass", "-pass", "_pw", "-pw", "_psk", "-psk", "_jwt", "-jwt", "_auth", "-auth", "_cred", "-cred"),
    ),
    # A shell's PWD is a directory, and what passed is counted.
    (
        re.compile(
            r"((?:(?<=_)|(?<![A-Za-z0-9_]))(?:[Pp]ass|PASS|[Pp]wd|PWD)=[\"']?)"
            r"(?![\d.]{1,20}(?:[\s,;%)/]|$)|[/~.])[^\s\"',;&]{1,500}"
        ),
        rf"\1{MASK}",
        ("pass=", "pwd="),
    ),
)  # fmt: skip
# Tokens that their beginning or their middle shows, as their makers document them.
_TOKENS: tuple[Rule, ...] = (
    (
        re.compile(
            r"(?<![A-Za-z0-9])(?:[sr]k_(?:live|test)_[A-Za-z0-9]{8,200}|SG\.[\w-]{16,100}\.[\w-]{16,100}|ya29\.[\w.-]{16,500}"
            r"|dop_v1_[a-f0-9]{16,100}|pypi-[\w-]{16,300}|AGE-SECRET-KEY-1[A-Z0-9]{16,100})"
        ),
        MASK,
        ("k_live_", "k_test_", "sg.", "ya29.", "dop_v1_", "pypi-", "age-secret-key-1"),
    ),
    # Atlassian, Bitbucket, Grafana, Tailscale, New Relic, Artifactory, Replicate, Groq, Shopify, Heroku.
    (
        re.compile(
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
        re.compile(
            r"(?<![A-Za-z0-9])(?:dp\.[a-z]{2,10}\.[A-Za-z0-9]{30,60}|pul-[a-f0-9]{40}|lin_api_[A-Za-z0-9]{30,60}"
            r"|PMAK-[a-f0-9]{20,30}-[a-f0-9]{3,40}|rubygems_[a-f0-9]{40,60}|SK[a-f0-9]{32}|dapi[a-f0-9]{32})(?![A-Za-z0-9])"
        ),
        MASK,
        (
            "lin_api_", "pmak-", "rubygems_", re.compile(r"dp\.[a-z]{2,10}\.[a-z0-9]{30}"),
            re.compile("pul-[a-f0-9]{40}"), re.compile("sk[a-f0-9]{32}"), re.compile("dapi[a-f0-9]{32}"),
        ),
    ),
    # Terraform Cloud, an application of Entra ID, the token by which nodes join a cluster of k3s.
    (re.compile(r"[A-Za-z0-9]{14}\.atlasv1\.[\w=-]{40,80}"), MASK, (".atlasv1.",)),
    (re.compile(r"(?<![\w~.-])[\w~.-]{3}\dQ~[\w~.-]{30,36}"), MASK, ("q~",)),
    (re.compile(r"(?<![A-Za-z0-9])K10[a-f0-9]{64}::[\w:-]{4,200}"), MASK, ("k10",)),
)  # fmt: skip
FORMS: tuple[Rule, ...] = (*_WEB, *_XML, *_COMMANDS, *_FILES, *_TOKENS)
