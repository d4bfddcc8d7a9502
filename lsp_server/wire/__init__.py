"""Bytes to messages and back: descriptors and sockets, the protocol's order, one answer each, signals, and leaving."""
