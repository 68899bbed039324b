# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The operating system of a node by the line that Kubernetes keeps of it, and the criterion that it is."""

from __future__ import annotations

import re

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.model import Catalogue
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.os_image import os_images, os_release

KNOWN = [
    ("Ubuntu 24.04.3 LTS", "ubuntu", "24.04", "ubuntu"),
    ("Ubuntu 22.04.5 LTS", "ubuntu", "22.04", "ubuntu"),
    ("Red Hat Enterprise Linux 9.4 (Plow)", "rhel", "9.4", "rhel"),
    ("Red Hat Enterprise Linux CoreOS 418.94.202501221327-0", "rhcos", None, "rhel"),
    ("Red Hat Enterprise Linux CoreOS 9.6.20250916-0 (Plow)", "rhel", "9.6", "rhel"),
    ("Red Hat Enterprise Linux CoreOS 10.2.20260611-0 (Coughlan)", "rhel", "10.2", "rhel"),
    ("Rocky Linux 9.5 (Blue Onyx)", "rocky", "9.5", "rocky"),
    ("AlmaLinux 9.4 (Seafoam Ocelot)", "almalinux", "9.4", "alma"),
    ("Oracle Linux Server 8.10", "ol", "8.10", "ol"),
    ("Container-Optimized OS from Google", "cos", None, "cos"),
    ("Amazon Linux 2023.6.20250115", "amzn", "2023", "amazonlinux"),
    ("Amazon Linux 2", "amzn", "2", "amazonlinux"),
    ("Bottlerocket OS 1.26.1 (aws-k8s-1.31-nvidia)", "bottlerocket", "1.26.1", "bottlerocket"),
    ("SUSE Linux Enterprise Server 15 SP6", "sles", "15.6", "sles"),
    ("SUSE Linux Enterprise Server 16.0", "sles", "16.0", "sles"),
    ("Talos (v1.10.4)", "talos", "v1.10.4", "talos"),
]
# Systems that no recipe layer is made for: a node says which one it is, and no criterion.
WITHOUT_CRITERION = [
    ("Debian GNU/Linux 12 (bookworm)", "debian", "12"),
    ("Microsoft Azure Linux 3.0", "azurelinux", "3.0"),
    ("Flatcar Container Linux by Kinvolk 4230.2.1 (Oklo)", "flatcar", "4230.2.1"),
    ("Flatcar Container Linux 2611.3.0 (2018-03-27-1636)", "flatcar", "2611.3.0"),
    ("SUSE Linux Micro 6.0", "sl-micro", "6.0"),
    ("SUSE Linux Micro 6.1", "sl-micro", "6.1"),
    ("SUSE Linux Enterprise Micro 5.3", "sle-micro", "5.3"),
    ("SUSE Linux Enterprise Micro 5.5", "sle-micro", "5.5"),
]


@pytest.mark.parametrize(("image", "os_id", "version", "criterion"), KNOWN)
def test_known_systems(image: str, os_id: str, version: str | None, criterion: str, own: Catalogue) -> None:
    assert os_release(image) == (os_id, version)
    rules = [rule for rule in own.vocabulary.detection if rule.fact == "os_id" and re.search(rule.pattern, os_id)]
    assert [rule.value for rule in rules] == [criterion]


@pytest.mark.parametrize(
    "image",
    [
        "",
        "Windows Server 2022 Datacenter",
        "MyUbuntu 24.04",
        "Ubuntu",
        "Rocky",
        "Azure",
        "Flatcar Container Linux",
        # Its os-release has the ID and version of SLES 16, and the name as well (rancher/rke2#9769).
        "SUSE Linux Micro 6.2",
        "SUSE Linux Enterprise Micro 5.1",
    ],
)
def test_what_is_not_known_is_not_guessed(image: str) -> None:
    assert os_release(image) == (None, None)


def test_every_operating_system_of_the_criteria_is_known(own: Catalogue) -> None:
    known = {criterion for _image, _id, _version, criterion in KNOWN}
    assert known == own.vocabulary.dimensions["os"].values
    told = {os_id for _image, os_id, *_more in (*KNOWN, *WITHOUT_CRITERION)}
    assert {image.id for image in os_images()} == told


@pytest.mark.parametrize(("image", "os_id", "version"), WITHOUT_CRITERION)
def test_a_system_without_layers_of_its_own_is_known_by_its_id(
    image: str, os_id: str, version: str, own: Catalogue
) -> None:
    assert os_release(image) == (os_id, version)
    rules = [rule for rule in own.vocabulary.detection if rule.fact == "os_id" and re.search(rule.pattern, os_id)]
    assert rules == []
