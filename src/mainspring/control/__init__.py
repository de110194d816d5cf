"""Adaptive control: gauges in, limits out. Empty until overload handling is built; the stages already count in `runtime.gauges`."""
