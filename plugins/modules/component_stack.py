# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of component_stack; the action plugin of the same name does the work on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: component_stack
short_description: Install, or remove, the components of a resolved recipe in dependency order
version_added: 0.1.0
author: gpufleet.bringup contributors (@gpufleet)
description:
  - Compares the components of the resolved recipe with the releases on the cluster and says what is to be done about
    each; with O(state=present) does it with Helm.
  - A component is installed as soon as those it depends on are ready, several at a time. It is ready when its workloads
    are, and when the resource in which it reports its own state (ClusterPolicy, NicClusterPolicy) says so.
  - Manifests of a component are applied on the server's side before its chart, and after it when its workloads
    are ready. Objects that somebody else made are left alone unless the component is named in O(adopt); what is no
    longer in the recipe is not removed by this. Components of type Kustomize are applied as preflight built them.
  - Waiting ends at once where it cannot succeed (an image that cannot be pulled, a container that crashes again and
    again, a failed Job).
  - An installation of a component that is not ours, under whatever release name and by whatever owner (helm, Argo CD,
    Flux, OLM, an add-on of the cloud, kubectl), is recognised by what it runs and registers, and refused until
    O(foreign) says what is to become of it. A release that another helm works on is never touched. An older version is
    never put in place of a newer one unless O(allow_downgrade) is set.
extends_documentation_fragment:
  - gpufleet.bringup.attributes
  - gpufleet.bringup.run
  - gpufleet.bringup.kubernetes
attributes:
  check_mode:
    support: full
    description: Nothing is changed; the server renders what would be installed, where it can.
  diff_mode:
    support: full
    description: Returns what changed, or would change in check mode.
options:
  store:
    description:
      - File of the history (SQLite), made if it is not there. Before anything is installed, it notes that the gate
        began. A gate that is not recorded afterwards counts as not passed when a later run starts in the middle.
      - A history that cannot be written ends the task before anything is installed.
    type: path
  state:
    description:
      - V(planned) only says what is to be done; V(present) does it.
      - V(absent) removes what is ours, backwards. Of each component first its custom resources, while its operator can
        still clean up after them, then its release and its manifests. What cannot be deleted is named with its
        finalizers, and what it needs stays. Definitions, namespaces and what others installed stay.
      - V(rolled_back) goes back to the recipe of the last run whose gates passed with another recipe than this run's,
        older versions included. The plan is shown first. Components that the older recipe does not have stay.
    type: str
    choices: [planned, present, absent, rolled_back]
    default: present
  rollback_to:
    description:
      - With O(state=rolled_back), the directory of the run to whose recipe the site goes back. Without it O(store)
        tells which run passed last, and that run's directory must be beside O(run_dir).
    type: path
  components:
    description:
      - Names of components of the recipe. With them only these are planned, installed or removed, and the run keeps no
        result of it for gate C(gpu_stack). Empty, the default, means all.
      - What a named component needs must be there, and what needs it must be gone, or be named too.
      - Not with O(state=rolled_back).
    type: list
    elements: str
    default: []
  remove_crds:
    description: With O(state=absent), remove the definitions as well, and with them every object of their kinds.
    type: bool
    default: false
  remove_namespaces:
    description:
      - With O(state=absent), remove the namespaces of the components as well, unless a workload or a volume claim of
        somebody else is in them. V(default) and those that begin with C(kube-) always stay.
    type: bool
    default: false
  drain_timeout_s:
    description: Seconds until a deleted object must be gone, its finalizers done.
    type: int
    default: 120
  recipe_data:
    description:
      - Directories with recipe data as preflight was given them. A run directory has no secrets, so values that are
        secrets are resolved once more; the rest is as preflight saved it.
    type: list
    elements: path
    default: []
  overrides:
    description: Values of components as preflight was given them, for the same reason.
    type: dict
    default: {}
  chart_mirror:
    description:
      - Directory or URL prefix that holds V(<chart>-<version>.tgz) of every component, as an air-gapped site has it.
      - When set, nothing else is asked for charts.
    type: str
  adopt:
    description:
      - Names of components whose release somebody else installed and that may be taken over.
      - The short form of V(adopt) in O(foreign).
    type: list
    elements: str
    default: []
  foreign:
    description:
      - What is to become of an installation that is not ours, by name of the component. A component that is not named
        here is refused where somebody else has installed it, and what depends on it waits.
      - V(use) leaves it alone, counts it as installed, tells its version and judges whether it works.
      - V(adopt) takes it over. It is possible for a release of the component's name and namespace, and for objects
        without an owner in its namespace; what Argo CD, Flux, OLM or a cloud puts back cannot be adopted.
      - V(refuse) is the default.
    type: dict
    default: {}
  allow_downgrade:
    description: Put an older version in place of a newer one where the recipe says so.
    type: bool
    default: false
  allow_skipped_minors:
    description:
      - Go over minor versions that the component's project wants to be gone through one at a time, as for cert-manager.
        Without it such a step is refused with the versions between.
    type: bool
    default: false
  parallel:
    description: How many components are installed at a time, at most.
    type: int
    default: 4
  ready_timeout_s:
    description: Seconds until a component must be ready after it was applied.
    type: int
    default: 900
  pull_grace_s:
    description: Seconds for which a pod may fail to pull its image before that counts as final.
    type: int
    default: 90
  helm:
    description: The helm program, a name on PATH or a path.
    type: str
    default: helm
  helm_timeout_s:
    description: Time limit of one helm command in seconds.
    type: int
    default: 300
  not_ready:
    description:
      - What to do when a component cannot be installed or does not get ready. V(fail) fails the task.
      - V(report) leaves the judgement to the checks of gate C(gpu_stack), which read the result from the run directory.
    type: str
    choices: [fail, report]
    default: fail
requirements:
  - helm 3.14 or newer
"""

EXAMPLES = r"""
- name: Say what would be done
  gpufleet.bringup.component_stack:
    run_dir: "{{ gpufleet_run }}"
    state: planned

- name: Show what a removal would take away
  gpufleet.bringup.component_stack:
    run_dir: "{{ gpufleet_run }}"
    state: absent
  check_mode: true
  diff: true

- name: Install one component of the recipe, or upgrade it
  gpufleet.bringup.component_stack:
    run_dir: "{{ gpufleet_run }}"
    components: [gpu-operator]

- name: Install the components from the mirror of an air-gapped site
  gpufleet.bringup.component_stack:
    run_dir: "{{ gpufleet_run }}"
    chart_mirror: /srv/charts
    foreign: {cert-manager: use, kube-prometheus-stack: adopt}
"""

RETURN = r"""
plan:
  description: What is to be done about each component, in deployment order.
  type: list
  elements: dict
  returned: always
  contains:
    component:
      description: Name of the component.
      type: str
      sample: gpu-operator
    action:
      description: One of install, upgrade, adopt, recover, unchanged, foreign, refuse, pending, downgrade,
        skips.
      type: str
      sample: install
    found:
      description: Installed version, empty if there is none.
      type: str
      sample: ""
    wanted:
      description: Version that the recipe pins.
      type: str
      sample: v25.10.1
    reason:
      description: Why.
      type: str
      sample: other values
    checked:
      description: In check mode, whether the server rendered the change (V(server)) or it is only V(predicted).
      type: str
      sample: server
results:
  description: What became of each component (with O(state=present)).
  type: list
  elements: dict
  returned: O(state=present) and not in check mode
  contains:
    component:
      description: Name of the component.
      type: str
      sample: gpu-operator
    state:
      description: One of ready, degraded, not-ready, failed, foreign, refused, waiting.
      type: str
      sample: ready
    reason:
      description: Why it is not ready.
      type: str
      sample: ""
    duration_s:
      description: Seconds until it was ready.
      type: float
      sample: 12.4
rollback:
  description: To what the site goes back.
  type: dict
  returned: O(state=rolled_back)
  contains:
    run_id:
      description: The run whose recipe is installed again.
      type: str
      returned: always
    stays:
      description: Components that the newer recipe has and this one does not; they are left as they are.
      type: list
      elements: str
      returned: always
closing_lines:
  description: What went or would go, and what stays, printed as the last lines of the playbook.
  type: list
  elements: str
  returned: O(state=absent) without O(components)
  sample: ["removed  kueue, cert-manager"]
removal:
  description: What is taken away of each component, in this order.
  type: list
  elements: dict
  returned: O(state=absent)
  contains:
    component:
      description: Name of the component.
      type: str
      sample: gpu-operator
    action:
      description: One of remove, absent, foreign (not ours), refuse.
      type: str
      sample: remove
    reason:
      description: Why it is left or refused, or what goes or stays besides.
      type: str
      sample: ""
    objects:
      description: Objects that go besides those of the release.
      type: list
      elements: str
      sample: [ClusterPolicy cluster-policy]
removed:
  description: What became of each component, and of each namespace.
  type: list
  elements: dict
  returned: O(state=absent) and not in check mode
  contains:
    component:
      description: Name of the component, or C(namespace) and its name.
      type: str
      returned: always
    state:
      description: >-
        One of removed, absent (there was nothing), foreign (not ours), refused, blocked, failed, waiting and kept
        (a namespace that others use).
      type: str
      returned: always
    reason:
      description: Why it is not removed.
      type: str
      returned: always
    hint:
      description: What to do about that.
      type: str
      returned: always
    duration_s:
      description: Seconds that it took.
      type: float
      returned: always
ready:
  description: Whether every component is ready.
  type: bool
  returned: O(state=present) and not in check mode
  sample: true
"""
