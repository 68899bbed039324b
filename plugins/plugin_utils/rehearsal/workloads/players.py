# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The table of players; the first one that knows a pod plays it."""

from __future__ import annotations

from . import aiperf_player, alert_receiver_player, nccl_player, training_player, vllm_player
from .player import Json, Player

PLAYERS: tuple[Player, ...] = (
    nccl_player.PLAYER,
    training_player.PLAYER,
    vllm_player.PLAYER,
    aiperf_player.PLAYER,
    alert_receiver_player.PLAYER,
)


def player_of(pod: Json) -> Player | None:
    """Return who plays a pod, None when its program is none that a rehearsal knows."""
    return next((player for player in PLAYERS if player.knows(pod)), None)
