# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Lookup recipe_value: one value of a recipe that is resolved on the fly."""

from __future__ import annotations

DOCUMENTATION = r"""
name: recipe_value
short_description: Value of a resolved recipe
version_added: 0.1.0
author: gpufleet.bringup contributors (@gpufleet)
description:
  - Resolves the recipe for the given criteria and returns the values that the selectors name.
options:
  _terms:
    description: Dotted paths, such as C(components.gpu-operator.values.driver.version).
    type: list
    elements: str
    required: true
  criteria:
    description: What kind of cluster it is, as for M(gpufleet.bringup.recipe).
    type: dict
    required: true
  recipe_data:
    description: Directories of private recipe data.
    type: list
    elements: path
    default: []
  unsupported:
    description: What to do if no layer honours one of the criteria.
    type: str
    choices: [error, warn]
    default: error
  default:
    description: Value to return for a selector that names nothing. Without it that is an error.
    type: raw
"""

EXAMPLES = r"""
- name: Show the driver version
  ansible.builtin.debug:
    msg: "{{ lookup('gpufleet.bringup.recipe_value', 'components.volcano.version', criteria=gpufleet_criteria) }}"
"""

RETURN = r"""
_raw:
  description: One value for each selector.
  type: list
  elements: raw
"""

from typing import Any

from ansible.errors import AnsibleError
from ansible.plugins.lookup import LookupBase

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import BringupError, NotFoundError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.query import query
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.request import answer, request_of


class LookupModule(LookupBase):  # type: ignore[misc,unused-ignore]
    """Values of a recipe."""

    def run(self, terms: list[str], variables: dict[str, Any] | None = None, **kwargs: Any) -> list[Any]:
        """Return one value for each selector."""
        self.set_options(var_options=variables, direct=kwargs)  # type: ignore[no-untyped-call,unused-ignore]
        names = ("criteria", "recipe_data", "unsupported")
        options = {name: self.get_option(name) for name in names}  # type: ignore[no-untyped-call,unused-ignore]
        try:
            answered = answer(request_of(options))
            return [self._value(answered.result, answered.catalogue, term, "default" in kwargs) for term in terms]
        except BringupError as error:
            raise AnsibleError(str(error)) from None

    def _value(self, result: Any, catalogue: Any, term: str, has_default: bool) -> Any:
        try:
            return query(result, catalogue, term)
        except NotFoundError:
            if has_default:
                return self.get_option("default")  # type: ignore[no-untyped-call,unused-ignore]
            raise
