# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A hundred broken files of a site's recipe data, each with the line and the words that name its cause."""

from __future__ import annotations

from dataclasses import dataclass, field

_API = "apiVersion: gpufleet.bringup/v1\n"
_HEAD = _API + "kind: RecipeMetadata\nmetadata: {name: a}\nspec:\n"
_REGISTRY = _API + "kind: ComponentRegistry\ncomponents:\n"
_VOCABULARY = _API + "kind: CriteriaVocabulary\n"
_CHECKS = _API + "kind: ValidatorCatalog\nvalidators:\n"
LAYER, REGISTRY = "overlays/a.yaml", "registry.yaml"


@dataclass(frozen=True)
class Broken:
    """One broken file: its place in the tree, its text, line and words of the cause, and the files that it needs."""

    file: str
    text: str
    line: int
    words: str
    more: dict[str, str] = field(default_factory=dict)


def _layer(body: str, line: int, words: str) -> Broken:
    """A layer; lines count from its `spec`, whose first is 1."""
    return Broken(LAYER, _HEAD + "".join(f"  {row}\n" for row in body.split("\n")), line + 4, words)


def _ref(body: str, words: str, line: int = 3) -> Broken:
    """A layer with one component, nfd, whose further keys begin in line 3."""
    rows = body.replace("\n", "\n    ")
    return _layer(f"componentRefs:\n  - name: nfd\n    {rows}", line, words)


def _whole(text: str, line: int, words: str) -> Broken:
    return Broken(LAYER, text, line, words)


def _entry(body: str, line: int, words: str) -> Broken:
    """A registry with one component, `mine`, whose further keys begin in line 5."""
    rows = body.replace("\n", "\n    ")
    return Broken(REGISTRY, f"{_REGISTRY}  - name: mine\n    displayName: Mine\n    {rows}\n", line + 5, words)


def _values(text: str, line: int, words: str) -> Broken:
    layer = _HEAD + "  componentRefs:\n    - {name: nfd, valuesFile: components/nfd/own.yaml}\n"
    return Broken("components/nfd/own.yaml", text, line, words, {LAYER: layer})


_BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join(f'*{old}' for _number in range(9))}]\n"
    for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)

BROKEN = {
    # Keys and types of a layer.
    "a misspelled key": _layer("critera: {service: eks}", 1, "Did you mean 'criteria'?"),
    "components as a mapping": _layer("componentRefs: {}", 1, "must be a list, found a mapping"),
    "components as texts": _layer("componentRefs:\n  - nfd", 2, "must be a mapping, found a text"),
    "criteria as a text": _layer("criteria: eks", 1, "spec.criteria must be a mapping"),
    "criteria as a list": _layer("criteria:\n  - service: eks", 2, "spec.criteria must be a mapping"),
    "mixins as a text": _layer("mixins: os-ubuntu", 1, "must be a list, found a text"),
    "a parent as a list": _layer("base: [eks]", 1, "spec.base must be a text, found a list"),
    "constraints as a mapping": _layer("constraints: {a: 1}", 1, "must be a list, found a mapping"),
    "validation as a list": _layer("validation: [deployment]", 1, "must be a mapping, found a list"),
    "an unknown phase": _layer("validation:\n  deploy: {}", 2, "Did you mean 'deployment'?"),
    "checks as a text": _layer("validation:\n  deployment:\n    checks: gpu", 3, "must be a list, found a text"),
    # Names that lead nowhere.
    "an unknown parent": _layer("base: ekss", 1, "the parent 'ekss' of a does not exist"),
    "its own parent": _layer("base: a", 1, "the parents form a cycle: a -> a"),
    "an unknown mixin": _layer("mixins: [os-ubunto]", 1, "Did you mean 'os-ubuntu'?"),
    "an unknown criterion": _layer("criteria:\n  servce: eks", 2, "'service'"),
    "an unknown value": _layer("criteria:\n  service: ekz", 2, "'ekz' is not a known value"),
    "a cloud for its Kubernetes": _layer("criteria:\n  service: aws", 2, "'eks'"),
    "a list of values": _layer("criteria:\n  service: [eks, gke]", 2, "must be one word"),
    "a word for a number": _layer("criteria:\n  nodes: many", 2, "many"),
    "an unknown word in regardlessOf": _layer("regardlessOf:\n  - accelerater", 2, "'accelerator'"),
    # Constraints.
    "a constraint without a value": _layer("constraints:\n  - name: K8s.server.version", 2, "value is missing"),
    "an unknown severity": _layer(
        "constraints:\n  - name: OS.release.ID\n    value: ubuntu\n    severity: eror", 4, "Did you mean 'error'?"
    ),
    "a constraint twice": _layer(
        "constraints:\n  - {name: OS.release.ID, value: ubuntu}\n  - {name: OS.release.ID, value: rhel}", 3, "twice"
    ),
    "an operator without a value": _layer(
        "constraints:\n  - name: K8s.server.version\n    value: '>='", 3, "the operator >= has no value"
    ),
    "an operator for a word": _layer(
        "constraints:\n  - name: K8s.server.version\n    value: '>= newest'", 3, "is not a version"
    ),
    "a constraint on nothing that is measured": _layer(
        "constraints:\n  - name: K8s.sever.version\n    value: '>= 1.32'", 2, "K8s.server"
    ),
    "an unknown choice of nodes": _layer(
        "constraints:\n  - name: OS.release.ID\n    value: ubuntu\n    nodes: every", 4, "not one of all, any, none"
    ),
    # Components of a layer.
    "an unknown component": _layer("componentRefs:\n  - name: gpu-operatr", 2, "'gpu-operator'"),
    "a component without a name": _layer("componentRefs:\n  - version: v1", 2, "name is missing"),
    "a component twice": _layer("componentRefs:\n  - name: nfd\n  - name: nfd", 3, "has name 'nfd' twice"),
    "a misspelled key of a component": _ref("overides: {}", "Did you mean 'overrides'?"),
    "overrides as a list": _ref("overrides: [a]", "must be a mapping, found a list"),
    "a version that loses its end": _ref("version: 1.10", "in quotes"),
    "a version as a list": _ref("version: [v1]", "must be a text, found a list"),
    "a word for true": _ref('cleanup: "true"', "must be true or false, found a text"),
    "an unknown type": _ref("type: Helmet", "not one of Helm"),
    "a word for switched off": _ref("overrides:\n  enabled: 'no'", "must be true or false", 4),
    "switched off at the wrong place": _ref("enabled: false", "overrides: {enabled: false}"),
    "values at the wrong place": _ref("values: {a: 1}", "valuesFile"),
    "a dependency as a text": _ref("dependencyRefs: gpu-operator", "must be a list, found a text"),
    "an unknown dependency": _ref("dependencyRefs:\n  - gpu-operatr", "gpu-operatr", 4),
    "a dependency on itself": _layer(
        "criteria: {service: eks}\ncomponentRefs:\n  - name: nfd\n    dependencyRefs: [nfd]", 4, "a cycle: nfd -> nfd"
    ),
    "a cycle": _layer(
        "criteria: {service: eks}\ncomponentRefs:\n  - name: nfd\n    dependencyRefs: [gpu-operator]",
        4,
        "form a cycle: gpu-operator -> nfd -> gpu-operator",
    ),
    "a values file that is not there": _ref("valuesFile: components/nfd/none.yaml", "does not exist"),
    "a values file outside": _ref("valuesFile: ../values.yaml", "leaves the tree with '..'"),
    "a manifest by its absolute path": _ref("manifestFiles:\n  - /etc/passwd", "is not a relative path", 4),
    "a manifest that is not there": _ref("manifestFiles: [components/nfd/none.yaml]", "does not exist"),
    "a resource without a name": _ref("expectedResources:\n  - kind: Deployment", "name is missing", 4),
    "a number for true": _ref("healthCheckSkip: 1", "must be true or false, found a number"),
    # Profiles.
    "a profile without a default": _layer("profile:\n  name: p\n  values: {a: {}}", 2, "default is missing"),
    "a default that is no value": _layer("profile:\n  name: p\n  default: b\n  values: {a: {}}", 3, "'b'"),
    "values of a profile as a list": _layer("profile:\n  name: p\n  default: a\n  values: [a]", 4, "found a list"),
    # What is no YAML, or none that a file may have.
    "a tab": _whole(_HEAD + "  criteria:\n\tservice: eks\n", 6, "has a tab where YAML needs spaces"),
    "a NUL byte": _whole(_HEAD + "  base: e\0ks\n", 5, "control characters are not allowed"),
    "a no-break space": _whole(_HEAD + "  componentRefs:\n    -\u00a0name: nfd\n", 6, "U+00A0"),
    "a zero-width space": _whole(_HEAD + "  base: eks\n\u200b  mixins: []\n", 6, "U+200B"),
    "a key twice": _whole(_HEAD + "  base: eks\n  base: gke\n", 6, "the key 'base' is written twice"),
    "an alias of nothing": _whole(_HEAD + "  base: *eks\n", 5, "the alias *eks names no finished anchor"),
    "an open bracket": _whole(_HEAD + "  mixins: [os-ubuntu\n", 6, "in a flow sequence that begins in line 5"),
    "an open quote": _whole(_HEAD + "  base: 'eks\n", 6, "in a quoted scalar that begins in line 5"),
    "two documents": _whole(_HEAD + "  base: eks\n---\na: 1\n", 6, "document"),
    "nothing": _whole("", 1, "empty"),
    "comments alone": _whole("# later\n", 1, "empty"),
    "a vault": _whole(_HEAD + "  base: !vault eks\n", 5, "the tag !vault is not supported"),
    "an object of Python": _whole(_HEAD + "  base: !!python/name:os.system\n", 5, "is not supported"),
    "not a number": _ref("overrides:\n  a: .nan", "is a number that chart values cannot hold", 4),
    "a bomb": _whole(_BOMB, 6, "more than 500000 values, aliases counted"),
    "too deep": _whole("[" * 5000 + "]" * 5000, 1, "nested deeper than"),
    "a merge of a list": _whole("a: &a [1]\nb:\n  <<: *a\n", 3, "not a mapping"),
    "a mapping as a key": _whole("{a: 1}: b\n", 1, "Keys are texts"),
    "braces of a template": _whole(_HEAD + "  base: {{ service }}\n", 5, "Keys are texts"),
    "a list": _whole("- a\n", 1, "is no mapping, expected a RecipeMetadata"),
    "a text": _whole("later\n", 1, "is no mapping, expected a RecipeMetadata"),
    # Heads.
    "no kind": _whole(_API + "metadata: {name: a}\nspec: {}\n", 1, "kind"),
    "a misspelled kind": _whole(_HEAD.replace("Metadata", "Metadate"), 2, "Did you mean 'RecipeMetadata'?"),
    "a kind of Kubernetes": _whole(_HEAD.replace("RecipeMetadata", "ConfigMap"), 2, "'ConfigMap'"),
    "no API version": _whole(_HEAD.removeprefix(_API), 1, "apiVersion"),
    "a later API version": _whole(_HEAD.replace("/v1", "/v2"), 1, "'gpufleet.bringup/v2'"),
    "no metadata": _whole(_API + "kind: RecipeMetadata\nspec: {}\n", 1, "metadata is missing"),
    "no name": _whole(_HEAD.replace("name: a", "description: a") + "  base: eks\n", 3, "metadata.name is missing"),
    "no spec": _whole(_HEAD.removesuffix("spec:\n"), 1, "spec is missing"),
    "a spec as a list": _whole(_HEAD + "  - a\n", 5, "spec must be a mapping, found a list"),
    "a mixin with criteria": Broken(
        "mixins/m.yaml",
        f"{_API}kind: RecipeMixin\nmetadata: {{name: m}}\nspec:\n  criteria: {{service: eks}}\n",
        5,
        "spec.criteria is not a known key",
    ),
    # The registry.
    "both tools": _entry("helm: {defaultChart: a}\nkustomize: {defaultSource: b}", -1, "both helm and kustomize"),
    "a misspelled key of an entry": _entry("valueOverideKeys: [n]", 1, "Did you mean 'valueOverrideKeys'?"),
    "helm as a list": _entry("helm: [a]", 1, "must be a mapping, found a list"),
    "a misspelled key of helm": _entry("helm:\n  defaultVerson: v1", 2, "'defaultVersion'"),
    "a version that is a number": _entry("helm:\n  defaultVersion: 1.10", 2, "in quotes"),
    "a word of another component": _entry("valueOverrideKeys: [nfd]", 1, "is also what --set calls nfd"),
    "an unknown kind of workload": _entry(
        "workloads:\n  - {kind: Deploymnt, name: a}", 2, "Did you mean 'Deployment'?"
    ),
    "a workload without a name": _entry("workloads:\n  - kind: Deployment", 2, "name is missing"),
    "an entry without a name for people": Broken(REGISTRY, f"{_REGISTRY}  - name: mine\n", 4, "displayName is missing"),
    "entries as a mapping": Broken(REGISTRY, f"{_REGISTRY}  nfd: {{}}\n", 4, "must be a list, found a mapping"),
    "no entries": Broken(REGISTRY, _REGISTRY, 1, "components is missing"),
    # Values of charts, criteria and checks.
    "chart values with a key twice": _values("a: 1\nb: 2\na: 3\n", 3, "the key 'a' is written twice"),
    "chart values as a list": _values("- a\n", 1, "must be a mapping of chart values"),
    "chart values with a vault": _values("a:\n  b: !vault x\n", 2, "the tag !vault is not supported"),
    "a pattern that is none": Broken(
        "criteria.yaml",
        f"{_VOCABULARY}dimensions: {{}}\ndetection:\n  - {{dimension: service, value: eks, fact: x, pattern: '('}}\n",
        5,
        "not a regular expression",
    ),
    "values of a criterion as a mapping": Broken(
        "criteria.yaml", f"{_VOCABULARY}dimensions:\n  rack:\n    values: {{a: 1}}\n", 5, "must be a list"
    ),
    "a check of an unknown phase": Broken(
        "validators/catalog.yaml", f"{_CHECKS}  - name: mine\n    phase: deploy\n", 5, "Did you mean 'deployment'?"
    ),
}  # fmt: skip
