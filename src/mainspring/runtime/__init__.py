"""What every stage runs on: clock, service loop, gauges."""
