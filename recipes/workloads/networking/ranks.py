# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""One rank of a Job: finds others by their names, and reaches them on every network of its pod.

Every rank listens on all of its addresses and answers with its number and its addresses by network. It asks others for
that by their name in DNS, and then on each further network, from its own address there to theirs: that a wrong rank
answers is found as well as that none does. Of many ranks it asks those at the distances 1, 2, 4 and so on.

Writes JSON lines: `rank` (its networks, the adapters that the container may use), `pair` (one for each rank that it
asked), `end`. Arguments: see main. The rank's number is in JOB_COMPLETION_INDEX. Needs Python 3.9, nothing else.
"""

from __future__ import annotations

import argparse
import fcntl
import ipaddress
import json
import os
import socket
import struct
import threading
import time
from pathlib import Path
from typing import Any

SCHEMA_VERSION = 1
# The network by which names lead to a pod; Multus and GKE leave it in this interface of every pod.
DEFAULT = "eth0"
OK = "ok"
# linux/sockios.h
_SIOCGIFADDR = 0x8915
_ASK, _DONE = b"ask\n", b"done "
_ANSWER_S, _PAUSE_S, _TRIES, _LONGEST = 5.0, 0.5, 3, 65536


def say(event: str, **words: Any) -> None:
    """Write a line, in one piece."""
    text = json.dumps({"schema_version": SCHEMA_VERSION, "event": event, **words}, separators=(",", ":"))
    os.write(1, (text + "\n").encode())


def distances(ranks: int, most: int) -> list[int]:
    """Return how far the ranks are that a rank asks: all, or of more than `most` those at powers of two."""
    if ranks - 1 <= most:
        return list(range(1, ranks))
    return [1 << power for power in range(ranks.bit_length()) if 1 << power < ranks][:most]


def ipv4_address(interface: str) -> str:
    """Return the IPv4 address of an interface, empty without one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        try:
            told = fcntl.ioctl(asked.fileno(), _SIOCGIFADDR, struct.pack("256s", interface.encode()[:15]))
        except OSError:
            return ""
    return socket.inet_ntoa(told[20:24])


def ipv6_addresses(table: str) -> dict[str, str]:
    """Return the global IPv6 addresses of /proc/net/if_inet6 by interface (address, index, prefix, scope 00, ...)."""
    found: dict[str, str] = {}
    for line in table.splitlines():
        words = line.split()
        if len(words) == 6 and words[3] == "00":
            found.setdefault(words[5], str(ipaddress.IPv6Address(bytes.fromhex(words[0]))))
    return found


def networks(devices: list[str]) -> dict[str, str]:
    """Return the address of every network of the pod beside the one by which names lead to it, empty without one.

    In the network of the host (`devices` are the adapters for GPU traffic) these are the interfaces of those adapters.
    """
    try:
        table = Path("/proc/net/if_inet6").read_text(encoding="ascii")
    except OSError:
        table = ""
    later = ipv6_addresses(table)
    if devices:
        named = {name: sorted(Path(f"/sys/class/infiniband/{name}/device/net").glob("*")) for name in devices}
        interfaces = {name: found[0].name for name, found in named.items() if found}
    else:
        there = [path.name for path in sorted(Path("/sys/class/net").glob("*"))]
        interfaces = {name: name for name in there if name not in ("lo", DEFAULT) and is_a_network(name)}
    return {key: ipv4_address(name) or later.get(name, "") for key, name in interfaces.items()}


def is_a_network(interface: str) -> bool:
    """Whether an interface is one that somebody gave the pod; the kernel makes tunnels in every namespace
    (`fb_tunnels_only_for_init_net`), which are down and have no address."""
    try:
        flags = int(Path(f"/sys/class/net/{interface}/flags").read_text(encoding="ascii"), 16)
    except (OSError, ValueError):
        return False
    return bool(flags & 1) or bool(ipv4_address(interface))


class Rank:
    """A rank among others. `name` has a place for the number of a rank, `own` are its addresses by network."""

    def __init__(self, index: int, options: argparse.Namespace, own: dict[str, str], listen: str = "") -> None:
        self.index, self.options, self.own, self.listen = index, options, own, listen
        self.apart = distances(options.ranks, options.peers)
        self.done: set[int] = set()
        self.ended = threading.Event()

    def serve(self) -> None:
        """Answer whoever asks until the process ends; each in a thread, for one that is silent must not stop others."""
        dual = not self.listen and socket.has_dualstack_ipv6()
        family = socket.AF_INET6 if dual else socket.AF_INET
        server = socket.create_server(
            (self.listen, self.options.port), family=family, backlog=1024, dualstack_ipv6=dual
        )
        threading.Thread(target=self._accept, args=(server,), daemon=True).start()

    def _accept(self, server: socket.socket) -> None:
        while not self.ended.is_set():
            try:
                link, _address = server.accept()
            except OSError:
                continue
            threading.Thread(target=self._answer, args=(link,), daemon=True).start()
        server.close()

    def _answer(self, link: socket.socket) -> None:
        with link:
            link.settimeout(_ANSWER_S)
            try:
                words = link.recv(64)
                if words.startswith(_DONE):
                    self.done.add(int(words[len(_DONE) :]))
                link.sendall(json.dumps({"rank": self.index, "networks": self.own}).encode() + b"\n")
            except (OSError, ValueError):
                return

    def peers(self) -> list[int]:
        return [(self.index + step) % self.options.ranks for step in self.apart]

    def ask(self, address: str, words: bytes = _ASK, own: str = "", interface: str = "") -> dict[str, Any]:
        """Return what a rank answers at an address.

        Raises:
            OSError: it cannot be reached, or does not answer.
            ValueError: what answers is no rank.
        """
        family, kind, number, _name, place = socket.getaddrinfo(
            address, self.options.port, type=socket.SOCK_STREAM
        )[0]  # fmt: skip
        with socket.socket(family, kind, number) as link:
            link.settimeout(_ANSWER_S)
            if interface:
                try:
                    link.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, interface.encode())
                except PermissionError:
                    # Kernels before 5.7 ask for CAP_NET_RAW; the address alone then chooses the way.
                    interface = ""
            if own:
                link.bind((own, 0))
            link.connect(place)
            link.sendall(words)
            told = b""
            while not told.endswith(b"\n") and len(told) < _LONGEST and (more := link.recv(4096)):
                told += more
        found: dict[str, Any] = json.loads(told)
        if not isinstance(found, dict) or not {"rank", "networks"} <= set(found):
            raise ValueError("what answers there is no rank")
        return found

    def by_name(self, peer: int, until: float) -> tuple[str, str, dict[str, str]]:
        """Return how a peer's name was resolved, how it was reached by it, and its networks; tried until a moment."""
        name = self.options.name.format(peer)
        while True:
            named, reached, told = f"{name} is not known", "", {}
            try:
                socket.getaddrinfo(name, self.options.port)
                named = OK
                answer = self.ask(name)
                told = answer["networks"]
                reached = OK if answer["rank"] == peer else f"rank {answer['rank']} answers in its place"
            except (OSError, ValueError) as error:
                why = getattr(error, "strerror", None) or str(error) or type(error).__name__
                named, reached = (OK, why) if named == OK else (f"{name}: {why}", "")
            if (named == OK and reached == OK) or time.monotonic() >= until:
                return named, reached, told
            time.sleep(_PAUSE_S)

    def by_network(self, peer: int, network: str, theirs: dict[str, str]) -> str:
        """Return how a peer was reached on a further network."""
        address, said = theirs.get(network, ""), ""
        if not address:
            return "it has no such network" if network not in theirs else "it has no address there"
        interface = "" if self.options.devices or self.listen else network
        for attempt in range(_TRIES):
            try:
                answer = self.ask(address, own=self.own[network], interface=interface)
                return OK if answer["rank"] == peer else f"rank {answer['rank']} answers in its place"
            except (OSError, ValueError) as error:
                said = getattr(error, "strerror", None) or str(error) or type(error).__name__
            if attempt + 1 < _TRIES:
                time.sleep(_PAUSE_S)
        return said

    def try_all(self) -> None:
        """Ask every peer on every network and say how it went."""
        until = time.monotonic() + self.options.meet_s
        for peer in self.peers():
            named, reached, theirs = self.by_name(peer, until)
            ways = {
                network: self.by_network(peer, network, theirs)
                for network, address in self.own.items()
                if address and reached == OK
            }
            say("pair", index=self.index, peer=peer, named=named, reached=reached, networks=ways)

    def part(self) -> None:
        """Tell the peers that nothing more is asked of them, and wait until nobody asks this rank any more."""
        for peer in self.peers():
            try:
                self.ask(self.options.name.format(peer), _DONE + str(self.index).encode() + b"\n")
            except (OSError, ValueError):
                continue
        asking = {(self.index - step) % self.options.ranks for step in self.apart}
        until = time.monotonic() + self.options.wait_s
        while not asking <= self.done and time.monotonic() < until:
            time.sleep(_PAUSE_S / 5)
        self.ended.set()


def options_of(words: list[str] | None = None) -> argparse.Namespace:
    """Return the arguments."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--ranks", type=int, required=True, help="how many there are")
    parser.add_argument("--name", required=True, help="name of a rank in DNS, with {} for its number")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--peers", type=int, required=True, help="most ranks that each asks")
    parser.add_argument("--meet-s", type=float, required=True, help="how long names and peers may take to come")
    parser.add_argument("--wait-s", type=float, required=True, help="how long a rank that is done waits for the others")
    parser.add_argument("--devices", default="", help="adapters whose interfaces count, in the network of the host")
    found = parser.parse_args(words)
    found.devices = [name for name in found.devices.split(",") if name]
    return found


def main() -> None:
    """Serve, ask, wait."""
    options = options_of()
    own = networks(options.devices)
    rank = Rank(int(os.environ["JOB_COMPLETION_INDEX"]), options, own)
    rank.serve()
    devices = sorted(path.name for path in Path("/dev/infiniband").glob("uverbs*"))
    say("rank", index=rank.index, ranks=options.ranks, networks=own, devices=devices)
    rank.try_all()
    say("end", index=rank.index)
    rank.part()


if __name__ == "__main__":
    main()
