"""How much one client may ask of an engine's process. Frozen; tests set smaller ones."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """n_...: counts; ..._s: seconds; ..._bytes: bytes. A peer is a process on a Unix socket, and an address on TCP."""

    body_bytes: int = 8 << 20
    body_s: float = 10.0  # for a body to arrive
    idle_s: float = 75.0  # a connection without a request, or with a header that never ends
    write_s: float = 10.0  # for a client to read what was written; it is dropped then
    linger_s: float = 1.0  # reading on after a refusal, so that the refusal arrives
    quiet_s: float = 5.0  # between comments that keep a quiet stream alive, and find dead peers
    n_connections: int = 512
    n_connections_per_peer: int = 256
    n_running: int = 128
    n_running_per_peer: int = 64
    n_leases: int = 128

    def body_bytes_for(self, n_ctx: int) -> int:
        """A body that is larger than any prompt needs is not even read: parsing it would hold up the others."""
        return min(self.body_bytes, (64 << 10) + 64 * n_ctx) if n_ctx else self.body_bytes
