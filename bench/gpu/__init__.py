"""The engine on a graphics card of a machine without a network: prepare here, run there. See `run.sh`."""
