"""What passes by itself: leases, timers, schedules, losses, retention. Each part is a small service with `run_once`."""
