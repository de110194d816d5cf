"""Processes that may do nothing but their work: bubblewrap, seccomp, cgroups, limits.

Used by the types that start programs; sees neither jobs nor contexts. From the outside in:

    ability     can this machine do it, and what is allowed here; tried out once
    run         one program from its start to its end, as the worker sees it: it asks the host (`hosting`, in the form of `words`)
    host        the process whose children programs are: has them started, watches their limits, ends them
    launch      starts it: sandboxed (`bubblewrap`, `seccomp`, `warm`) or bare (`keeper`)
    process     what has been started: its streams, its end, how to end it
    marks       finds what a bare program leaves that has killed its keeper
    folder      its private folders: files in, files out, how much they hold
    cgroups, users, limits   what it may use, and as whom it runs

Guarantees: when `run` returns or raises, nothing that a sandboxed program started is left, and neither if the worker is killed; a
bare one of the worker's own user could hide. What a sandboxed program can reach is in `bubblewrap`, what it may ask of the kernel
in `seccomp`; docs/concepts/sandbox.md says what follows from that, and what does not.
"""
