# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The SKU files that the site of a world keeps beside those of the collection."""

from __future__ import annotations

from pathlib import Path

from ...hardware.sku import Sku, load_hardware
from ...outcome.errors import NotFoundError
from ...runtime.files import write_atomic
from ...runtime.recipe_files import RECIPES
from ...runtime.strict import nearest_hint, read_yaml
from .model import World

_HARDWARE = RECIPES / "hardware"


def write_hardware(world: World, directory: Path) -> tuple[Path, ...]:
    """Write the world's own SKUs below `directory`; return it as recipe data of the site, nothing if there are none.

    Raises:
        NotFoundError: a SKU is like one that recipes/hardware/ does not have.
        OSError: it cannot be written.
    """
    import yaml

    if not world.hardware:
        return ()
    for name, change in world.hardware.items():
        path = _HARDWARE / f"{change.like}.yaml"
        if not path.is_file():
            known = [file.stem for file in _HARDWARE.glob("*.yaml")]
            raise NotFoundError(
                f"hardware {name}", f"there is no SKU {change.like!r}.", nearest_hint(change.like, known)
            )
        facts = {key: value for key, value in read_yaml(path).items() if key != "aliases"} | change.facts
        target = directory / "hardware" / f"{name}.yaml"
        target.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(target, yaml.safe_dump(facts | {"name": name}, sort_keys=False))
    return (directory,)


def world_hardware(world: World, directory: Path) -> dict[str, Sku]:
    """Return every SKU, the world's own included, whose files are written below `directory`.

    Raises:
        ProblemsError: a fact is not valid.
        NotFoundError: see write_hardware.
    """
    return load_hardware([_HARDWARE, *(path / "hardware" for path in write_hardware(world, directory))])
