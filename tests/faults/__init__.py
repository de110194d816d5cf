"""Faults: processes killed, frozen and stopped, disks full and broken, clocks that jump. See docs/concepts/reliability.md."""
